"""Logs as tables, for tests that need no store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from groupd.pipeline.decode import COLUMNS, EntryRows, arrow_schema
from groupd.pipeline.job import Inputs, Job
from groupd.pipeline.row_filter import EVERYTHING, RowFilter
from groupd.pipeline.schema import END_OFFSETS, ENTRIES, TOPICS
from groupd.protocol.records.batch import parse_header


def decoded(
    payloads: Sequence[bytes], partition: int, wanted: RowFilter = EVERYTHING
) -> pa.RecordBatch:
    """The rows of the batches of one log partition."""
    rows = EntryRows(COLUMNS, wanted)
    for payload in payloads:
        rows.add_payload(partition, payload, parse_header(payload))
    return rows.take()


def entries_of(spark: SparkSession, logs: Mapping[int, Sequence[bytes]]) -> DataFrame:
    """Batches by log partition, as a table `entries`."""
    found = [decoded(payloads, partition) for partition, payloads in logs.items()]
    if not found:
        return spark.createDataFrame([], ENTRIES)
    return spark.createDataFrame(pa.Table.from_batches(found, arrow_schema(COLUMNS)), ENTRIES)


def inputs_of(
    spark: SparkSession,
    entries: DataFrame,
    topics: Sequence[tuple[Any, ...]] = (),
    end_offsets: Sequence[tuple[Any, ...]] = (),
) -> Inputs:
    return Inputs(
        entries,
        spark.createDataFrame(list(topics), TOPICS),
        spark.createDataFrame(list(end_offsets), END_OFFSETS),
    )


def rows_of(job: Job, inputs: Inputs, table: str = "", **options: Any) -> list[dict[str, Any]]:
    """The rows of one of the job's tables, in the order of its keys. Times are in UTC."""
    result = job.build(inputs, {**job.options, **options})[table or job.name]
    rows: list[dict[str, Any]] = result.frame.toArrow().to_pylist()
    keys = [tuple(row[key] for key in result.keys) for row in rows]
    assert len(set(keys)) == len(keys), f"{result.keys} do not tell the rows apart"
    return sorted(rows, key=lambda row: tuple(str(row[key]).rjust(20) for key in result.keys))
