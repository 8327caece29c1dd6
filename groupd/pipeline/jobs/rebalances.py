"""Each rebalance of each group: why it happened, how long it took, what it moved and what that
cost."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame

from groupd.pipeline.errors import length
from groupd.pipeline.fold.state import Settings
from groupd.pipeline.group_pass import COLUMNS, group_pass
from groupd.pipeline.group_tables import REBALANCE_MOVES, REBALANCES
from groupd.pipeline.job import Inputs, Job, Table

TABLES = {"rebalances": REBALANCES, "rebalance_moves": REBALANCE_MOVES}
_MS = timedelta(milliseconds=1)


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    settings = Settings(
        session_timeout_ms=length(options["session_timeout"]) // _MS,
        flap_life_ms=length(options["flap_life"]) // _MS,
        flap_count=int(options["flap_count"]),
        flap_window_ms=length(options["flap_window"]) // _MS,
    )
    return tables(group_pass(inputs, TABLES, settings))


def tables(frames: Mapping[str, DataFrame]) -> dict[str, Table]:
    """The job's tables, out of a pass that gave `TABLES`."""
    return {
        "rebalances": Table(
            frames["rebalances"], "written_at", ("group", "epoch", "log_partition", "log_offset")
        ),
        "rebalance_moves": Table(
            frames["rebalance_moves"],
            "written_at",
            ("group", "epoch", "written_at", "topic", "topic_id", "partition"),
        ),
    }


JOB = Job(
    "rebalances",
    "each rebalance: trigger, duration, moved partitions and their unowned time",
    build,
    {"session_timeout": "45s", "flap_life": "30s", "flap_count": 3, "flap_window": "10m"},
    COLUMNS,
)
