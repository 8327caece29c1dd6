"""The Spark data source `groupd`: the offsets log of a store, or of segment files, as rows.

    spark.dataSource.register(GroupdDataSource)
    spark.read.format("groupd").option("store", URL).load()

It reads in batches and as a stream. Spark tells Python data sources the filters but not the columns
that are wanted. The option `columns`, or a schema (`.schema(...)`) with some of the columns, says
which columns are wanted, and only those are decoded.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)
from pyspark.sql.types import StructType

from groupd.pipeline.decode import EntryRows
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.filters import push
from groupd.pipeline.options import SourceOptions, parse_options
from groupd.pipeline.plan import segment_files, store_ranges
from groupd.pipeline.reading import read_partition
from groupd.pipeline.schema import ENTRIES
from groupd.pipeline.store import StoreLogs
from groupd.pipeline.stream import GroupdStreamReader

FORMAT = "groupd"

_PUSHING = "pyspark.sql.worker.data_source_pushdown_filters"
"""The program of the workers in which Spark pushes filters down. A worker has no session that could
be asked for `spark.sql.python.filterPushdown.enabled`; where that is off, as it is unless somebody
sets it, Spark refuses every reader with `pushFilters` and starts no such worker."""


class GroupdDataSource(DataSource):
    """The data source; `docs/pipeline.md` describes its options."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return StructType([ENTRIES[name] for name in parse_options(self.options).columns])

    def reader(self, schema: StructType) -> DataSourceReader:
        kind = FilteringReader if _PUSHING in sys.modules else GroupdReader
        return kind(parse_options(self.options), _columns(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return GroupdStreamReader(parse_options(self.options), _columns(schema))


def _columns(schema: StructType) -> tuple[str, ...]:
    for field in schema:
        if field.name not in ENTRIES.names or ENTRIES[field.name].dataType != field.dataType:
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
            found = [*segment_files(options.segments, self.wanted)]
        else:
            with StoreLogs(options.store) as logs:
                found = [*store_ranges(logs, self.wanted, options.rows_per_partition)]
        # For an empty list Spark would make one partition with nothing in it.
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from read_partition(
            self._options, partition, EntryRows(self._columns, self.wanted), self.wanted
        )


class FilteringReader(GroupdReader):
    """The same with filters that Spark pushes down, where it does."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        self.wanted, left = push(self.wanted, filters)
        return left
