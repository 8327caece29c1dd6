"""Each rebalance of each group: why it happened, how long it took, what it moved and what that
cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from groupd.pipeline.errors import length_ms
from groupd.pipeline.fold.state import Settings
from groupd.pipeline.group_pass import COLUMNS, group_pass
from groupd.pipeline.group_tables import REBALANCE_MOVES, REBALANCES
from groupd.pipeline.job import Inputs, Job, Table

TABLES = {"rebalances": REBALANCES, "rebalance_moves": REBALANCE_MOVES}


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    settings = Settings(
        session_timeout_ms=length_ms(options["session_timeout"]),
        flap_life_ms=length_ms(options["flap_life"]),
        flap_count=int(options["flap_count"]),
        flap_window_ms=length_ms(options["flap_window"]),
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
