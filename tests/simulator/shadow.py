"""What is durable: a second set of shards that sees only what reaches the disk.

Each batch is decoded from its bytes and replayed the moment it is on disk, so that at any time
`shadow` is what a reload would give. `history` keeps what the log has ever said, for checks of
replies against it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import AppliedAt
from groupd.protocol.records.batch import iter_batches, iter_records
from groupd.protocol.records.codec import decode_record
from groupd.protocol.records.schema import Record
from groupd.storage.log import StoredBatch


class Shadow:
    """`on_record(log name, offset, record)` runs for every durable record, after its replay."""

    def __init__(self, config: CoordinatorConfig) -> None:
        self._config = config
        self._shards: dict[str, GroupCoordinatorShard] = {}
        self.on_record: Callable[[str, int, Record], None] = lambda name, offset, record: None

    def shard(self, log_name: str) -> GroupCoordinatorShard:
        shard = self._shards.get(log_name)
        if shard is None:
            state = ShardState(self._config, new_id=_no_ids, assignors={}, image=MetadataImage())
            shard = self._shards[log_name] = GroupCoordinatorShard(state)
        return shard

    def shards(self) -> Mapping[str, GroupCoordinatorShard]:
        return self._shards

    def apply(self, log_name: str, stored: StoredBatch) -> None:
        shard = self.shard(log_name)
        for batch in iter_batches(stored.payload):
            for raw in iter_records(batch):
                assert raw.key is not None
                record = decode_record(raw.key, raw.value)
                shard.replay(record, AppliedAt(raw.offset))
                self.on_record(log_name, raw.offset, record)


def _no_ids() -> str:
    raise AssertionError("replay needs no ids")
