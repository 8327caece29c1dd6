"""The store of an embedded broker. It is in memory, and it reports what has become durable."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from groupd.protocol.records.batch import Batch, decode_marker, iter_batches, iter_records
from groupd.protocol.records.codec import UnknownRecordType, decode_record
from groupd.protocol.records.schema import Record
from groupd.storage.log import Append
from groupd.storage.memory import MemoryStore

OFFSETS_LOG = "__consumer_offsets-"

RecordListener = Callable[[Sequence[Record]], None]
"""A listener. It gets the coordinator's records of one batch, in order, when the batch is in the
store. It gets the records of a transaction all at once, when the transaction is committed."""


class WatchedStore(MemoryStore):
    """A `MemoryStore` with listeners. They are called inside the append and must not raise."""

    def __init__(self, cluster_id: str | None = None) -> None:
        super().__init__(cluster_id)
        self.listeners: list[RecordListener] = []
        self._open: dict[tuple[str, int], list[Record]] = {}
        """The records of open transactions, by log and producer id."""

    def _apply(self, batches: Sequence[Append]) -> None:
        super()._apply(batches)
        for batch in batches:
            if batch.name.startswith(OFFSETS_LOG) and self.listeners:
                for part in iter_batches(batch.payload):
                    records = self._committed(batch.name, part)
                    for listener in self.listeners:
                        listener(records)

    def _committed(self, name: str, batch: Batch) -> list[Record]:
        header = batch.header
        transaction = (name, header.producer_id)
        if header.is_control:
            records = self._open.pop(transaction, [])
            ends = [decode_marker(raw) for raw in iter_records(batch)]
            return records if any(end is not None and end.committed for end in ends) else []
        if header.is_transactional:
            self._open.setdefault(transaction, []).extend(_decoded(batch))
            return []
        return _decoded(batch)


def _decoded(batch: Batch) -> list[Record]:
    records = []
    for raw in iter_records(batch):
        if raw.key is None:
            continue
        try:
            records.append(decode_record(raw.key, raw.value))
        except UnknownRecordType:
            continue
    return records
