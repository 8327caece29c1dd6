"""The logs that the pipeline reads, and how their records become rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from pyspark.sql.types import StructType

from groupd.coordinator.logtools.entries import state_type_name, type_name
from groupd.coordinator.logtools.logs import OFFSETS_LOG, SHARE_STATE_LOG, ToolLog
from groupd.pipeline.decode import EntryRows
from groupd.pipeline.row_filter import RowFilter
from groupd.pipeline.schema import ENTRIES, SHARE_ENTRIES
from groupd.pipeline.share_decode import ShareEntryRows

LogRows = EntryRows | ShareEntryRows
"""Takes records and gives Arrow batches."""


class SourceLog(Struct, frozen=True):
    """A log as a table. `table`: the name of the table in a lake, and of the job that writes it.
    `by_group`: the hash of a group id gives the log partition of its records. `type_name`: the name
    of a record type by its number."""

    log: ToolLog
    table: str
    schema: StructType
    rows: Callable[[Sequence[str], RowFilter], LogRows]
    by_group: bool
    type_name: Callable[[int], str]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.schema.fieldNames())


OFFSETS = SourceLog(OFFSETS_LOG, "entries", ENTRIES, EntryRows, True, type_name)
SHARE_STATE = SourceLog(
    SHARE_STATE_LOG, "share-entries", SHARE_ENTRIES, ShareEntryRows, False, state_type_name
)
SOURCE_LOGS: Mapping[str, SourceLog] = {one.log.topic: one for one in (OFFSETS, SHARE_STATE)}
"""The logs by topic."""
