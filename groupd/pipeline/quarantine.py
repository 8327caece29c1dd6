"""Rows that could not be decoded: kept apart, with their place in the log and the reason.

A job goes on without them and reports how many there were.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

NAME = "quarantine"
COLUMNS = (
    "log_partition",
    "log_offset",
    "timestamp",
    "record_type",
    "record_type_id",
    "value_version",
    "group",
    "error",
    "key",
    "value",
)


def split_quarantine(entries: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Returns (good, bad): the entries without an error, and `COLUMNS` of those with one."""
    good = entries.where(F.col("error").isNull())
    return good, entries.where(F.col("error").isNotNull()).select(*COLUMNS)
