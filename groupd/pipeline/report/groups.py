"""The tables of `members`, `rebalances` and `health` from one pass over the log.

Each of these jobs follows every group along the log. The report needs all three, so here the log is
read once. With the default options the tables are those of the jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupd.pipeline.group_pass import COLUMNS
from groupd.pipeline.job import Inputs, Job, Table
from groupd.pipeline.jobs import health, members, rebalances


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    """The tables of all three jobs. Raises PipelineError."""
    wanted = members.TABLES | rebalances.TABLES | health.TABLES
    frames = health.checked_pass(inputs, options, wanted)
    return members.tables(frames) | rebalances.tables(frames) | health.tables(frames)


JOB = Job(
    "members, rebalances and health",
    "all that following the groups tells, in one pass",
    build,
    health.JOB.options,
    COLUMNS,
)
