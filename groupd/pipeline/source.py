"""The Spark data source `groupd`: a log of a store, or of segment files, as rows. The option `log`
names its topic; without it, it is the offsets log.

    spark.dataSource.register(GroupdDataSource)
    spark.read.format("groupd").option("store", URL).load()

It reads in batches and as a stream. Spark tells Python data sources the filters but not the columns
that are wanted. The option `columns`, or a schema (`.schema(...)`) with some of the columns, says
which columns are wanted, and only those are decoded. Filters that Spark pushes down become a
`RowFilter`, so that the source itself leaves rows out. It takes over only filters that it applies
exactly, row by row; Spark applies the others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.types import StructType

from groupd.pipeline.errors import PipelineError
from groupd.pipeline.logs import OFFSETS, SourceLog
from groupd.pipeline.options import SourceOptions, micros_of, parse_options
from groupd.pipeline.reading import read_partition, segment_files, store_ranges
from groupd.pipeline.row_filter import RowFilter
from groupd.pipeline.store import StoreLogs
from groupd.pipeline.stream import GroupdStreamReader

_SETS: dict[str, tuple[str, type]] = {
    "group": ("groups", str),
    "record_type": ("types", str),
    "record_type_id": ("types", int),
    "log_partition": ("partitions", int),
}
_RANGES: dict[str, tuple[str, type, Callable[[Any], int]]] = {
    "log_offset": ("offset", int, int),
    "timestamp": ("us", datetime, micros_of),
}


def push(
    wanted: RowFilter, filters: Iterable[Filter], log: SourceLog = OFFSETS
) -> tuple[RowFilter, list[Filter]]:
    """Returns `wanted` narrowed by the filters that the source takes over, and the other filters,
    which Spark has to apply. `log`: the log that is read."""
    left = []
    for one in filters:
        limits = _limits(one, wanted, log)
        if limits is None:
            left.append(one)
        else:
            wanted = wanted.also(**limits)
    return wanted, left


def _limits(one: Filter, wanted: RowFilter, log: SourceLog) -> dict[str, Any] | None:
    path: tuple[str, ...] = getattr(one, "attribute", ())
    name = path[0] if len(path) == 1 else ""
    # With `rest` the source keeps rows without a group or a time, but a filter drops them.
    if wanted.rest and name in ("group", "timestamp"):
        return None
    if name in _SETS and isinstance(one, EqualTo | In):
        field, kind = _SETS[name]
        values = one.value if isinstance(one, In) else (one.value,)
        if all(isinstance(value, kind) and not isinstance(value, bool) for value in values):
            if name == "record_type_id":
                values = tuple(log.type_name(value) for value in values)
            return {field: frozenset(values)}
    if name in _RANGES:
        field, kind, convert = _RANGES[name]
        value = getattr(one, "value", None)
        if isinstance(value, kind) and not isinstance(value, bool):
            return _range(one, field, convert(value))
    return None


def _range(one: Filter, field: str, value: int) -> dict[str, int] | None:
    """The half-open range of the values for which a comparison is true. Values are whole numbers,
    so every range can be half open."""
    match one:
        case EqualTo():
            return {f"from_{field}": value, f"until_{field}": value + 1}
        case GreaterThan():
            return {f"from_{field}": value + 1}
        case GreaterThanOrEqual():
            return {f"from_{field}": value}
        case LessThan():
            return {f"until_{field}": value}
        case LessThanOrEqual():
            return {f"until_{field}": value + 1}
    return None


FORMAT = "groupd"

_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"
"""The module that runs in a worker when Spark pushes filters down. It tells whether Spark does so,
because a worker has no session with the setting `spark.sql.python.filterPushdown.enabled`. If that
is off (the default), Spark starts no such worker and refuses readers with `pushFilters`."""


class GroupdDataSource(DataSource):
    """The data source; `docs/pipeline.md` describes its options."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        options = parse_options(self.options)
        return StructType([options.source_log.schema[name] for name in options.columns])

    def reader(self, schema: StructType) -> DataSourceReader:
        kind = FilteringReader if _PUSHING in sys.modules else GroupdReader
        options = parse_options(self.options)
        return kind(options, _columns(schema, options.source_log.schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = parse_options(self.options)
        return GroupdStreamReader(options, _columns(schema, options.source_log.schema))


def _columns(schema: StructType, known: StructType) -> tuple[str, ...]:
    for field in schema:
        if field.name not in known.names or known[field.name].dataType != field.dataType:
            raise PipelineError(
                f"the source {FORMAT} has no column {field.name} of type "
                f"{field.dataType.simpleString()}"
            )
    return tuple(schema.fieldNames())


class GroupdReader(DataSourceReader):
    """A batch read of what is in the log when the read is planned."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self.wanted = options.wanted

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        found: list[InputPartition]
        if options.store is None:
            assert options.segments is not None
            log = options.source_log.log
            found = [*segment_files(options.segments, log, self.wanted)]
        else:
            with StoreLogs(options.store, options.source_log.log) as logs:
                rows = options.rows_per_partition
                found = [*store_ranges(logs, options.source_log, self.wanted, rows)]
        # For an empty list Spark would make one partition with nothing in it.
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows = self._options.source_log.rows(self._columns, self.wanted)
        yield from read_partition(self._options, partition, rows, self.wanted)


class FilteringReader(GroupdReader):
    """A `GroupdReader` for sessions in which Spark pushes filters down."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self.wanted, left = push(self.wanted, filters, self._options.source_log)
        return left
