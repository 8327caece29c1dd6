"""What a job of the pipeline is: input tables in, named result tables out, nothing else.

Jobs neither read nor write: where rows come from and where they go is the command's business
(`pipeline.cli`), so that each job runs over every input and in every sink.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Inputs:
    """Tables of `pipeline.schema`. `entries` has no rows with `error`: those are in quarantine.
    `topics` and `end_offsets` may be empty, never None."""

    entries: DataFrame
    topics: DataFrame
    end_offsets: DataFrame


@dataclass(frozen=True, slots=True)
class Table:
    """A result. `time_column`: the timestamp whose UTC day the sink partitions by, None for a
    table that is small and written whole. `keys`: columns that tell its rows apart."""

    frame: DataFrame
    time_column: str | None
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """`build` gives tables by name; the first is named like the job. `options`: names and
    defaults of what it can be told (`--set NAME=VALUE`), passed on to `build` complete.
    `columns`: of the log, that it reads; if empty, Spark's plan is asked, which does not see past
    a table that the job holds."""

    name: str
    summary: str
    build: Callable[[Inputs, Mapping[str, Any]], dict[str, Table]]
    options: Mapping[str, Any] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
