"""What another assignor would have done with the recorded changes of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.core.assignors.api import PartitionAssignor
from groupd.coordinator.core.assignors.loader import load_assignors
from groupd.pipeline.errors import PipelineError, length_ms
from groupd.pipeline.fold.entry import FoldFacts, FoldObserver
from groupd.pipeline.fold.state import Settings, TopicNames
from groupd.pipeline.fold.what_if import OK, WhatIf
from groupd.pipeline.group_pass import COLUMNS, Observers, group_pass
from groupd.pipeline.group_tables import WHAT_IF, WHAT_IF_TOTALS
from groupd.pipeline.job import Inputs, Job, Table


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    """Raises PipelineError if there is no such assignor."""
    settings = Settings(session_timeout_ms=length_ms(options["session_timeout"]))
    name = str(options["assignor"])
    _load(name)
    default_ms = float(length_ms(options["unowned_per_move"]))
    observers = _observers(name, default_ms)
    rows = group_pass(inputs, {"what-if": WHAT_IF}, settings, observers)["what-if"]
    return {
        "what-if": Table(rows, "at", ("group", "epoch", "at", "assignor")),
        "what_if_totals": Table(_totals(rows), None, ("group", "assignor")),
    }


def _load(name: str) -> PartitionAssignor:
    try:
        return next(iter(load_assignors([name]).values()))
    except ConfigError as error:
        raise PipelineError(str(error).replace("group.consumer.assignors", "assignor")) from error


def _observers(name: str, default_ms: float) -> Observers:
    def make(facts: FoldFacts, topics: TopicNames) -> Sequence[FoldObserver]:
        return [WhatIf(facts, topics, _load(name), default_ms)]

    return make


def _totals(rows: DataFrame) -> DataFrame:
    ok = f.col("status") == OK
    sums = [
        f.sum(f.when(ok, f.col(f"{side}_{what}"))).alias(f"{side}_{what}")
        for what in ("moved", "needless", "unowned_ms")
        for side in ("recorded", "simulated")
    ]
    means = [
        f.avg(f.when(ok, f.col(f"{side}_stddev"))).alias(f"{side}_stddev")
        for side in ("recorded", "simulated")
    ]
    spreads = [
        f.max(f.when(ok, f.col(f"{side}_max") - f.col(f"{side}_min"))).alias(f"{side}_spread")
        for side in ("recorded", "simulated")
    ]
    totals = rows.groupBy("group", "assignor").agg(
        f.count(f.when(ok, 1)).alias("rebalances"),
        f.count(f.when(~ok, 1)).alias("failed"),
        f.count(f.when(f.col("same_assignment"), 1)).alias("same"),
        *sums,
        *means,
        *spreads,
    )
    return totals.select(
        *(f.col(field.name).cast(field.dataType) for field in WHAT_IF_TOTALS.fields)
    )


JOB = Job(
    "what-if",
    "a group's recorded changes through another assignor, beside what happened",
    build,
    {"assignor": "uniform", "unowned_per_move": "2500ms", "session_timeout": "45s"},
    COLUMNS,
)
