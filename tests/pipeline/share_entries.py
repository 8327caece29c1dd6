"""Logs of share groups' state as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from groupd.pipeline.row_filter import EVERYTHING, RowFilter
from groupd.pipeline.schema import SHARE_ENTRIES
from groupd.pipeline.share_decode import ShareEntryRows
from groupd.protocol.records.batch import parse_header
from tests.unit.logtools.harness import TIME_MS
from tests.unit.logtools.share_logs import StateRecord, state_batch

SECOND_MS = 1000


def share_rows(
    payloads: Sequence[bytes], partition: int = 3, wanted: RowFilter = EVERYTHING
) -> pa.RecordBatch:
    """The rows of the batches of one partition of the log."""
    rows = ShareEntryRows(wanted=wanted)
    for payload in payloads:
        rows.add_payload(partition, payload, parse_header(payload))
    return rows.take()


def timed(*steps: tuple[int, StateRecord]) -> list[bytes]:
    """A batch for each record: (seconds since `TIME_MS`, record)."""
    return [
        state_batch(offset, record, time_ms=TIME_MS + second * SECOND_MS)
        for offset, (second, record) in enumerate(steps)
    ]


def share_rows_of(spark: SparkSession, payloads: Sequence[bytes]) -> DataFrame:
    if not payloads:
        return spark.createDataFrame([], SHARE_ENTRIES)
    return spark.createDataFrame(pa.Table.from_batches([share_rows(payloads)]), SHARE_ENTRIES)


def plain(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)
