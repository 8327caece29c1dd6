"""One pass over the log that makes all tables about groups: runs `pipeline.fold` in Spark.

One task reads each partition of the log in the order of its offsets and holds the live state of its
groups. It gives the rows of all tables as they are finished, with one struct column for each table.
The result is cached, so a job with several tables reads the log once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType, TimestampType

from groupd.coordinator.logtools.entries import MARKER, TYPE_NAMES
from groupd.pipeline.fold.entry import KINDS, FactRow, FoldEntry, FoldFacts, FoldObserver
from groupd.pipeline.fold.groups import GroupsFold
from groupd.pipeline.fold.state import Settings, TopicNames
from groupd.pipeline.job import Inputs
from groupd.pipeline.schema import VALUE_COLUMNS

ROWS_A_BATCH = 4096
Observers = Callable[[FoldFacts, TopicNames], Sequence[FoldObserver]]
"""Makes the observers of one task; called on the executors."""

_PLAIN = FoldEntry._fields[:-1]
_VALUES = tuple(dict.fromkeys(VALUE_COLUMNS[kind] for kind in KINDS))
COLUMNS = (
    "log_partition",
    "log_offset",
    "timestamp",
    "record_type",
    "record_type_id",
    "group",
    "member",
    "topic",
    "partition",
    "tombstone",
    "transactional",
    "producer_id",
    "marker",
    *_VALUES,
)
"""The columns of the log that a job over this pass reads."""


def topic_names(inputs: Inputs) -> dict[str, str]:
    """Topic names by id, collected on the driver because topics are few."""
    rows = inputs.topics.where(f.col("topic_id").isNotNull() & f.col("topic").isNotNull())
    return {row.topic_id: row.topic for row in rows.select("topic_id", "topic").collect()}


def group_pass(
    inputs: Inputs,
    tables: Mapping[str, StructType],
    settings: Settings,
    observers: Observers = lambda facts, topics: (),
) -> dict[str, DataFrame]:
    """Returns data frames by table name, with the columns that `tables` gives."""
    names = topic_names(inputs)
    rows = (
        _slim(inputs.entries)
        .repartition(f.col("log_partition"))
        .sortWithinPartitions("log_partition", "log_offset")
    )
    schema = StructType([StructField(name, tables[name]) for name in tables])

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _fold(batches, schema, names, settings, observers)

    found = rows.mapInArrow(fold, schema).persist(StorageLevel.MEMORY_AND_DISK)
    return {
        name: found.where(f.col(name).isNotNull()).select(f.col(f"{name}.*")) for name in tables
    }


def _slim(entries: DataFrame) -> DataFrame:
    """Returns what the fold needs, with times in milliseconds. Most of a log are commits, and of
    those the fold needs little."""
    types = [TYPE_NAMES[kind] for kind in KINDS]
    # Filtered by type name, so that the source leaves records of other types undecoded.
    wanted = entries.where(f.col("record_type").isin(MARKER, *types))
    transactional = f.coalesce("transactional", f.lit(False)) | f.col("marker").isNotNull()
    return wanted.select(
        "log_partition",
        "log_offset",
        f.coalesce(f.unix_millis("timestamp"), f.lit(0)).alias("at_ms"),
        f.when(f.col("marker").isNull(), f.col("record_type_id")).alias("kind"),
        *(f.coalesce(name, f.lit("")).alias(name) for name in ("group", "member", "topic")),
        f.coalesce("partition", f.lit(-1)).alias("partition"),
        f.coalesce("tombstone", f.lit(False)).alias("tombstone"),
        f.coalesce(f.when(transactional, f.col("producer_id")), f.lit(-1)).alias("producer_id"),
        "marker",
        _with_ms("offset_commit", ["commit_time", "expire_time"], ["metadata", "leader_epoch"]),
        _with_ms("group_metadata", ["current_state_time"], []),
        "consumer_group",
        "member_metadata",
        _with_ms("target_metadata", ["assignment_time"], []),
        "target_member",
        "current_member",
        _with_ms("regex", [], ["time"]),
    )


def _with_ms(name: str, times: Sequence[str], dropped: Sequence[str]) -> Column:
    column = f.col(name)
    for time in times:
        new = time.removesuffix("time") + "ms"
        column = column.withField(new, f.unix_millis(f.col(f"{name}.{time}")))
    return column.dropFields(*times, *dropped).alias(name)


def _fold(
    batches: Iterable[pa.RecordBatch],
    schema: StructType,
    names: Mapping[str, str],
    settings: Settings,
    observers: Observers,
) -> Iterator[pa.RecordBatch]:
    """The work of a task: folds one partition of the log after the other."""
    facts = FoldFacts(frozenset(schema.fieldNames()))
    rows = _Rows(schema)
    fold, partition = None, None
    for batch in batches:
        for entry in _entries(batch):
            if fold is None or entry.log_partition != partition:
                if fold is not None:
                    fold.finish()
                topics = TopicNames(names)
                fold = GroupsFold(facts, topics, settings, observers(facts, topics))
                partition = entry.log_partition
            fold.feed(entry)
        yield from rows.add(facts.take())
    if fold is not None:
        fold.finish()
    yield from rows.add(facts.take(), last=True)


def _entries(batch: pa.RecordBatch) -> Iterator[FoldEntry]:
    plain = [batch.column(name).to_pylist() for name in _PLAIN]
    values: list[Any] = [None] * batch.num_rows
    for name in _VALUES:
        column = batch.column(name)
        if column.null_count < batch.num_rows:
            for row in column.is_valid().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
                values[row] = column[row].as_py()
    return map(FoldEntry, *plain, values)


class _Rows:
    """Turns facts into Arrow batches with one struct column for each table."""

    def __init__(self, schema: StructType) -> None:
        self._schema = to_arrow_schema(schema, timezone="UTC")
        self._times = {
            one.name: [
                field.name
                for field in one.dataType.fields
                if isinstance(field.dataType, TimestampType)
            ]
            for one in schema.fields
            if isinstance(one.dataType, StructType)
        }
        self._rows: list[tuple[str, FactRow]] = []

    def add(
        self, rows: Iterable[tuple[str, FactRow]], *, last: bool = False
    ) -> Iterator[pa.RecordBatch]:
        self._rows += rows
        while len(self._rows) >= ROWS_A_BATCH or (last and self._rows):
            yield self._batch(self._rows[:ROWS_A_BATCH])
            del self._rows[:ROWS_A_BATCH]

    def _batch(self, rows: Sequence[tuple[str, FactRow]]) -> pa.RecordBatch:
        columns: dict[str, list[FactRow | None]] = {
            name: [None] * len(rows) for name in self._schema.names
        }
        for number, (table, row) in enumerate(rows):
            for name in self._times[table]:
                if row[name] is not None:
                    row[name] *= 1000
            columns[table][number] = row
        return pa.RecordBatch.from_arrays(
            [pa.array(columns[field.name], field.type) for field in self._schema],
            schema=self._schema,
        )
