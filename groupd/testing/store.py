"""The store of an embedded broker. It is in memory, and it reports what has become durable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from groupd.coordinator.history.pending import PendingRecords
from groupd.protocol.records.batch import Batch, decode_marker, iter_batches, iter_records
from groupd.protocol.records.codec import UnknownRecordType, decode_record
from groupd.protocol.records.schema import Record, RecordKey
from groupd.protocol.records.share_state_records import (
    SharePartitionKey,
    ShareStateValue,
)
from groupd.protocol.records.share_state_records import decode_record as decode_share_state
from groupd.storage.log import Append
from groupd.storage.memory import MemoryStore

OFFSETS_LOG = "__consumer_offsets-"
SHARE_STATE_LOG = "__share_group_state-"

RecordListener = Callable[[Sequence[Record]], None]
"""A listener. It gets the coordinator's records of one batch, in order, when the batch is in the
store. It gets the records of a transaction all at once, when the transaction is committed."""
ShareStateListener = Callable[[SharePartitionKey, ShareStateValue], None]
"""A listener. It gets each record of the share coordinator when it is in the store."""


class WatchedStore(MemoryStore):
    """A `MemoryStore` with listeners. They are called inside the append and must not raise."""

    def __init__(self, cluster_id: str | None = None) -> None:
        super().__init__(cluster_id)
        self.listeners: list[RecordListener] = []
        self.share_state_listeners: list[ShareStateListener] = []
        self._pending: dict[str, PendingRecords[RecordKey, tuple[int, Record]]]
        """By log, the records of open transactions with their offsets."""
        self._pending = defaultdict(PendingRecords)
        self._newest: dict[RecordKey, int] = {}
        """The offset of the newest record that has taken effect."""

    def _apply(self, batches: Sequence[Append]) -> None:
        super()._apply(batches)
        for batch in batches:
            if batch.name.startswith(OFFSETS_LOG) and self.listeners:
                for part in iter_batches(batch.payload):
                    records = list(self._effective(batch.name, part))
                    for listener in self.listeners:
                        listener(records)
            elif batch.name.startswith(SHARE_STATE_LOG):
                self._tell_share_state(batch)

    def _tell_share_state(self, batch: Append) -> None:
        for part in iter_batches(batch.payload):
            for raw in iter_records(part):
                if raw.key is not None:
                    key, value = decode_share_state(raw.key, raw.value)
                    for listener in self.share_state_listeners:
                        listener(key, value)

    def _effective(self, name: str, batch: Batch) -> Iterator[Record]:
        """The records that take effect with this batch."""
        producer_id, pending = batch.header.producer_id, self._pending[name]
        if batch.header.is_control:
            ended = pending.take(producer_id)
            ends = [decode_marker(raw) for raw in iter_records(batch)]
            if not any(end is not None and end.committed for end in ends):
                return
            for key, (offset, record) in ended.items():
                if offset > self._newest.get(key, -1):
                    self._newest[key] = offset
                    yield record
            return
        for offset, record in _decoded(batch):
            if record.value is None:
                pending.drop(record.key)
            elif batch.header.is_transactional:
                pending.add(producer_id, record.key, (offset, record))
                continue
            self._newest[record.key] = offset
            yield record


def _decoded(batch: Batch) -> Iterator[tuple[int, Record]]:
    for raw in iter_records(batch):
        if raw.key is not None:
            with suppress(UnknownRecordType):
                yield raw.offset, decode_record(raw.key, raw.value)
