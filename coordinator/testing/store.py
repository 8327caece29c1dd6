"""The store of an embedded broker: in memory, and it tells what has become durable."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from protocol.records.batch import iter_batches, iter_records
from protocol.records.codec import UnknownRecordType, decode_record
from protocol.records.schema import Record
from storage.log import Append
from storage.memory import MemoryStore

OFFSETS_LOG = "__consumer_offsets-"

Listener = Callable[[Sequence[Record]], None]
"""Gets the coordinator's records of one batch, in order, when the batch is in the store."""


class WatchedStore(MemoryStore):
    """A `MemoryStore` with listeners. They are told inside the append and must not raise."""

    def __init__(self, cluster_id: str | None = None) -> None:
        super().__init__(cluster_id)
        self.listeners: list[Listener] = []

    def _apply(self, batches: Sequence[Append]) -> None:
        super()._apply(batches)
        for batch in batches:
            if batch.name.startswith(OFFSETS_LOG) and self.listeners:
                records = _decoded(batch.payload)
                for listener in self.listeners:
                    listener(records)


def _decoded(payload: bytes) -> list[Record]:
    records = []
    for batch in iter_batches(payload):
        for raw in iter_records(batch):
            if raw.key is None or batch.header.is_control:
                continue
            try:
                records.append(decode_record(raw.key, raw.value))
            except UnknownRecordType:
                continue
    return records
