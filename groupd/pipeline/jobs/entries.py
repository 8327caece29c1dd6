"""The log itself as a table: a copy by day that outlives the log's retention and that the other
jobs can read (`--lake`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupd.pipeline.job import Inputs, Job, Table


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    return {"entries": Table(inputs.entries, "timestamp", ("log_partition", "log_offset"))}


JOB = Job("entries", "every record of the log, decoded: a copy to keep and to read again", build)
