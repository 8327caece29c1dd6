"""The log of share groups' state as a table: a copy that the other jobs can read (`--lake`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupd.pipeline.job import Inputs, Job, Table
from groupd.pipeline.logs import SHARE_STATE


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    table = Table(inputs.entries, "timestamp", ("log_partition", "log_offset"))
    return {SHARE_STATE.table: table}


JOB = Job(
    SHARE_STATE.table,
    "every record of share groups' state, decoded: a copy to keep and to read again",
    build,
    log=SHARE_STATE,
)
