"""The lag of each group over time: in records, and in seconds where end offsets are known over
time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import functions as f

from groupd.pipeline.errors import length
from groupd.pipeline.job import Inputs, Job, Table
from groupd.pipeline.jobs.commits import INPUT, RETENTION, history
from groupd.pipeline.options import parse_time
from groupd.pipeline.windows import PLACE, filled, moves_by_window, with_lag, with_lag_seconds

_COLUMNS = (
    "at",
    "group",
    "topic",
    "partition",
    "offset",
    "end_offset",
    "lag",
    "lag_seconds",
    "committed_at",
    "log_partition",
)


def build(inputs: Inputs, options: Mapping[str, Any]) -> dict[str, Table]:
    """Raises PipelineError."""
    window = length(options["window"])
    until = parse_time(str(options["until"])) if options["until"] else None
    commits = history(inputs.entries, options)
    windows = filled(moves_by_window(commits, window), inputs.end_offsets, window, until)
    rows = with_lag(windows.where(f.col("offset").isNotNull()), inputs.end_offsets)
    rows = with_lag_seconds(rows.withColumnRenamed("known_until", "at"), inputs.end_offsets)
    # Cached, because both tables are made from it and it is small compared with the log.
    rows = rows.select(*_COLUMNS, "is_last").persist(StorageLevel.MEMORY_AND_DISK)
    return {
        "lag": Table(rows.select(*_COLUMNS), "at", ("at", *PLACE)),
        "lag_now": Table(rows.where("is_last").select(*_COLUMNS), None, PLACE),
    }


JOB = Job(
    "lag",
    "how far groups are behind the end of their topics, over time and now",
    build,
    {
        "window": "5m",
        "until": "",
        **RETENTION,
    },
    columns=INPUT,
    ends_every="window",
)
