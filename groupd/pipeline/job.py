"""What a job of the pipeline is: a function from input tables to named result tables.

Jobs neither read nor write. The command (`pipeline.cli`) decides where rows come from and where
they go, so every job works with every input and every sink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct, field
from pyspark.sql import DataFrame

from groupd.pipeline.errors import length
from groupd.pipeline.logs import OFFSETS, SourceLog


class Inputs(Struct, frozen=True):
    """The input tables, as `pipeline.schema` describes them. `entries`: the log that the job reads,
    without rows with `error`, which are in quarantine. `topics` and `end_offsets` may be empty, but
    are never None."""

    entries: DataFrame
    topics: DataFrame
    end_offsets: DataFrame


class Table(Struct, frozen=True):
    """A result table. `time_column`: the timestamp whose UTC day the sink partitions by; None for a
    small table, which is written whole. `keys`: the columns that identify a row. `optional`: if the
    table has no rows, no directory is written for it, and an existing one is removed."""

    frame: DataFrame
    time_column: str | None
    keys: tuple[str, ...]
    optional: bool = False


class Job(Struct, frozen=True):
    """A job. `build` returns tables by name; the first one has the name of the job. `options`:
    names and defaults of the job's options (`--set NAME=VALUE`); `build` gets all of them.
    `columns`: the columns of the log that the job reads, () for all; the others are null.
    `ends_every`: the name of the option with the length of the steps in which the job wants end
    offsets over time, where the input has them; "" if the job wants only the present ones. `log`:
    the log that the job reads."""

    name: str
    summary: str
    build: Callable[[Inputs, Mapping[str, Any]], dict[str, Table]]
    options: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    ends_every: str = ""
    log: SourceLog = OFFSETS

    def ends_step(self, options: Mapping[str, Any]) -> timedelta | None:
        """The value of the option that `ends_every` names, else None. Raises PipelineError."""
        return length(options[self.ends_every]) if self.ends_every else None
