"""The life of each member: when it joined, what it owned, when and why it was gone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from groupd.pipeline.errors import length_ms
from groupd.pipeline.fold.state import Settings
from groupd.pipeline.group_pass import COLUMNS, group_pass
from groupd.pipeline.group_tables import MEMBER_EPOCHS, MEMBERS, OWNERSHIP
from groupd.pipeline.job import Inputs, Job, Table

TABLES = {"members": MEMBERS, "member_epochs": MEMBER_EPOCHS, "ownership": OWNERSHIP}


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    settings = Settings(session_timeout_ms=length_ms(options["session_timeout"]))
    return tables(group_pass(inputs, TABLES, settings))


def tables(frames: Mapping[str, DataFrame]) -> dict[str, Table]:
    """The job's tables, out of a pass that gave `TABLES`."""
    place = ("log_partition", "log_offset")
    return {
        "members": Table(frames["members"], "joined", ("group", "member_id", *place)),
        "member_epochs": Table(
            frames["member_epochs"], "since", ("group", "member_id", "state", *place)
        ),
        "ownership": Table(
            frames["ownership"], "since", ("group", "topic", "topic_id", "partition", *place)
        ),
    }


JOB = Job(
    "members",
    "the life of each member: epochs, partitions, and why it went",
    build,
    {"session_timeout": "45s"},
    COLUMNS,
)
