"""The log itself as a table: a copy by day that outlives the log's retention and that the other
jobs can read (`--lake`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupd.pipeline.job import Inputs, Job, Table
from groupd.pipeline.logs import OFFSETS, SourceLog


def copy_of(log: SourceLog, summary: str) -> Job:
    """The job that writes the table of a log."""

    def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
        return {log.table: Table(inputs.entries, "timestamp", ("log_partition", "log_offset"))}

    return Job(log.table, summary, build, log=log)


JOB = copy_of(OFFSETS, "every record of the log, decoded: a copy to keep and to read again")
