"""What a job of the pipeline is: input tables in, named result tables out, nothing else.

Jobs neither read nor write: where rows come from and where they go is the command's business
(`pipeline.cli`), so that each job runs over every input and in every sink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct, field
from pyspark.sql import DataFrame

from groupd.pipeline.settings import length


class Inputs(Struct, frozen=True):
    """Tables of `pipeline.schema`. `entries` has no rows with `error`: those are in quarantine.
    `topics` and `end_offsets` may be empty, never None."""

    entries: DataFrame
    topics: DataFrame
    end_offsets: DataFrame


class Table(Struct, frozen=True):
    """A result. `time_column`: the timestamp whose UTC day the sink partitions by, None for a
    table that is small and written whole. `keys`: columns that tell its rows apart. `optional`: no
    directory is written for it, and one that is there is removed, when it has no rows."""

    frame: DataFrame
    time_column: str | None
    keys: tuple[str, ...]
    optional: bool = False


class Job(Struct, frozen=True):
    """`build` gives tables by name; the first is named like the job. `options`: names and
    defaults of what it can be told (`--set NAME=VALUE`), passed on to `build` complete.
    `columns`: of the log, that it reads; if empty, Spark's plan is asked, which does not see past
    a table that the job holds. `ends_every`: the option with the length of time in whose steps the
    job wants the ends of topics, where the input knows them over time; "" for the ends of now."""

    name: str
    summary: str
    build: Callable[[Inputs, Mapping[str, Any]], dict[str, Table]]
    options: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    ends_every: str = ""

    def ends_step(self, options: Mapping[str, Any]) -> timedelta | None:
        """See `ends_every`. Raises PipelineError."""
        return length(options[self.ends_every]) if self.ends_every else None
