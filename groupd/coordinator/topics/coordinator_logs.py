"""Shows the logs of the coordinators as topics that clients may read. Only the coordinators write
them.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.runtime.coordinator_types import COORDINATOR_TYPES
from groupd.coordinator.topics.stored_batches import LeaderEpochs, read_batches, within
from groupd.storage.log import Catalogue, ConfigEntry, LogUnavailable, PartitionLogs, StoredBatch


async def fix_shard_count(
    store: Catalogue, config: CoordinatorConfig, changes: CatalogueChanges
) -> None:
    """Store the numbers of shards when the store is new. Raises ConfigError if the store was made
    with other numbers, and LogError."""
    wanted = {one.shards_key: one.shards(config) for one in COORDINATOR_TYPES}

    async def change() -> dict[tuple[int, str, str], str]:
        known = {tuple(place): value for *place, value in await store.configs()}
        missing = [place for place in wanted if place not in known]
        if missing:
            await store.put_configs([ConfigEntry(*place, str(wanted[place])) for place in missing])
        return {place: known.get(place, str(wanted[place])) for place in wanted}

    for place, value in (await changes.make(change)).items():
        key, number = place[2], wanted[place]
        if value != str(number):
            raise ConfigError(
                f"{key}={number}: the store was made with {value}; set it to {value}, or choose "
                "another --data-dir"
            )


# Views --------------------------------------------------------------------------------------

# `__consumer_offsets` is the history of the shards: every record as it was written, as far back as
# its retention reaches, and before that what the cleaner has left. `__consumer_offsets_compacted`
# is the compacted view of it: the newest record of every key, then all records since the last
# cleaning. Offsets mean the same in both.
#
# `__transaction_state` has one partition for the log of each shard of transactional ids. The topics
# of the other `runtime.coordinator_types` are made in the same way.


class CoordinatorLogView(Protocol):
    """What the coordinator says about its logs: which part of each may be read. A log is named by
    the partition of its topic. The batches themselves come from the store."""

    def state(self, partition: int) -> tuple[int, int] | None:
        """(start offset, high watermark); None while this node does not serve the log."""
        ...

    def clean_offsets(self, partition: int) -> tuple[int, int]:
        """Two end offsets: of the part of the log itself that the cleaner has gone over, and of the
        compacted log (0: it is empty)."""
        ...

    def producers(self, partition: int) -> ProducerStates | None:
        """The log's producers and their transactions; None if it has none, or this node does not
        serve it."""
        ...

    def add_waiter(self, partition: int, event: asyncio.Event) -> None:
        """Set `event` whenever the high watermark moves, or this node no longer serves the log."""
        ...

    def remove_waiter(self, partition: int, event: asyncio.Event) -> None: ...


class CoordinatorLog:
    """A `ReadableLog` over one log of a view. With `compacted_name`, the records of the compacted
    log that has this name in the store are read instead of the older records of the log itself."""

    __slots__ = ("_clean_end", "_compacted_name", "_logs", "_partition", "_view", "epochs", "name")

    def __init__(
        self,
        view: CoordinatorLogView,
        logs: PartitionLogs,
        partition: int,
        name: str,
        compacted_name: str | None = None,
        leader_epoch: int = 0,
    ) -> None:
        self._view = view
        self._logs = logs
        self._partition = partition
        self._compacted_name = compacted_name
        self._clean_end = 0
        self.name = name
        # The stored batches carry epoch 0 whichever node wrote them, so clients see one epoch for
        # the whole log.
        self.epochs = LeaderEpochs()
        self.epochs.began(leader_epoch, 0)

    @property
    def closed(self) -> bool:
        return self._view.state(self._partition) is None

    @property
    def start_offset(self) -> int:
        state = self._view.state(self._partition)
        return 0 if state is None else state[0]

    @property
    def high_watermark(self) -> int:
        state = self._view.state(self._partition)
        return 0 if state is None else state[1]

    @property
    def next_offset(self) -> int:
        return self.high_watermark

    @property
    def position(self) -> int:
        return self.high_watermark

    def _clean_part(self) -> tuple[str, int]:
        """The log in the store that holds the cleaned part, and the offset at which that part
        ends."""
        cleaned_end, compacted_end = self._view.clean_offsets(self._partition)
        if self._compacted_name is not None and compacted_end:
            return self._compacted_name, compacted_end
        return self.name, cleaned_end

    @property
    def changes(self) -> int:
        return -1

    @property
    def producers(self) -> ProducerStates:
        known = self._view.producers(self._partition)
        return ProducerStates() if known is None else known

    @property
    def last_stable_offset(self) -> int:
        return self.producers.transactions.last_stable_offset(self.high_watermark)

    async def read(self, from_offset: int, max_bytes: int, *, min_one: bool) -> list[bytes]:
        name, end = self._clean_part()
        self._clean_end = end
        if from_offset < end:
            payloads = await read_batches(
                self._logs, name, from_offset, end, max_bytes, min_one=True
            )
            if payloads is None:
                raise LogUnavailable(f"{name}: nothing at offset {from_offset}, it is made again")
            if payloads:
                return within(payloads, max_bytes, min_one)
            from_offset = end
        payloads = await read_batches(
            self._logs, self.name, from_offset, self.high_watermark, max_bytes, min_one=min_one
        )
        return payloads or []

    def aborted(self, from_offset: int, end_offset: int) -> tuple[tuple[int, int], ...]:
        # The cleaned part has no records of aborted transactions any more, and maybe not even the
        # marker up to which a reader would skip the producer's records. No transaction crosses its
        # end.
        found = self.producers.transactions.aborted(from_offset, end_offset)
        return tuple(entry for entry in found if entry[1] >= self._clean_end)

    async def first_at_or_after(self, timestamp_ms: int) -> StoredBatch | None:
        name, end = self._clean_part()
        if name == self.name:
            return await self._logs.first_at_or_after(self.name, timestamp_ms)
        found = await self._logs.first_at_or_after(name, timestamp_ms)
        if found is None:
            found = await self._logs.first_at_or_after(self.name, timestamp_ms)
            if found is not None and found.last_offset < end:
                # The compacted view no longer has this batch: the search goes on behind the cleaned
                # part.
                found = StoredBatch(found.base_offset, end - 1, timestamp_ms, b"")
        return found

    async def with_max_timestamp(self) -> StoredBatch | None:
        name, end = self._clean_part()
        newest = await self._logs.with_max_timestamp(self.name)
        if name == self.name or (newest is not None and newest.base_offset >= end):
            return newest
        return await self._logs.with_max_timestamp(name)

    def add_waiter(self, event: asyncio.Event) -> None:
        self._view.add_waiter(self._partition, event)

    def remove_waiter(self, event: asyncio.Event) -> None:
        self._view.remove_waiter(self._partition, event)
