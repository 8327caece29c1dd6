"""`groupd log dump`: entries of a log as lines, one batch in memory at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence

from groupd.coordinator.logtools.entries import entries_of
from groupd.coordinator.logtools.errors import LogToolError
from groupd.coordinator.logtools.render import json_line, text_line
from groupd.coordinator.logtools.selection import Selection
from groupd.coordinator.logtools.sources import Source, log_name
from groupd.protocol.records.batch import CorruptBatch
from groupd.protocol.records.compression import UnsupportedCodec


async def dump_lines(
    source: Source,
    make_selection: Callable[[], Selection],
    partitions: Sequence[int] | None,
    *,
    as_json: bool,
) -> AsyncIterator[str]:
    """Partition by partition, each in the order of its offsets. Raises LogToolError."""
    there = await source.partitions()
    for partition in sorted(set(partitions or ()) - set(there)):
        raise LogToolError(f"--partition {partition}: there is no such log; there are {there}")
    for partition in partitions or there:
        selection, log = make_selection(), log_name(partition)
        # Transactions have to be followed from their first record on.
        from_ms = None if selection.groups else selection.from_ms
        async for batch in source.batches(partition, from_ms):
            if not selection.may_hold(batch.header):
                continue
            try:
                for entry in selection.of(entries_of(batch)):
                    if as_json:
                        yield json_line(log, partition, entry)
                    else:
                        yield text_line(log, entry)
            except (CorruptBatch, UnsupportedCodec) as error:
                raise LogToolError(f"{log} at offset {batch.header.base_offset}: {error}") from None
