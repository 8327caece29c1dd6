"""ShareStateShard: one partition of `__share_group_state` at work, which is a unit of a cluster. It
is a `LogShard`; beside that it keeps its log short (docs/spec/share-group.md#3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import starmap

import structlog
from msgspec import Struct, field

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.slices import REQUEST_ITEMS, SLICE_ITEMS, chunks
from groupd.coordinator.core.types import Outcome
from groupd.coordinator.runtime.coordinator_types import SHARE_COORDINATOR
from groupd.coordinator.runtime.journal import EncodedWrite, measured
from groupd.coordinator.runtime.log_replay import replay_log
from groupd.coordinator.runtime.log_shard import LogShard
from groupd.coordinator.runtime.machine import LoadedMachine
from groupd.coordinator.runtime.shard_state import CoordinatorState, RuntimeParts
from groupd.coordinator.runtime.shard_tasks import ShardTasks
from groupd.coordinator.runtime.stats import Durations
from groupd.coordinator.share_state.machine import ShareStateMachine, ShareStateRecord
from groupd.protocol.messages import TopicId
from groupd.protocol.records.share_state_records import (
    SharePartitionKey,
    decode_record,
    encode_record,
)
from groupd.storage.log import LogError, LogState, PartitionLogs
from groupd.storage.units import OwnedUnit

log = structlog.get_logger("groupd.share_state")


class ShareStateCounts(Struct):
    """Since the start. `writes`: partitions of WriteShareGroupState. `latency`: how long such
    requests took, in ns. `pruned`: by number of the shard the offset up to which its log was
    pruned last."""

    writes: int = 0
    latency: Durations = field(default_factory=Durations)
    pruned: dict[int, int] = field(default_factory=dict)


class ShareStateShardParts(Struct, frozen=True):
    """What all shards of share-partitions of a node share: the `parts` of every shard, and more.
    `make()`: a machine without state. `on_loaded()`: a shard has been loaded."""

    config: CoordinatorConfig
    logs: PartitionLogs
    parts: RuntimeParts
    counts: ShareStateCounts
    make: Callable[[], ShareStateMachine]
    on_loaded: Callable[[], None]


class ShareStateShard(LogShard[ShareStateMachine]):
    """A shard of share-partitions. `owned`: its unit in a cluster. To end it, call `close`, then
    `closed` and `ended`; or `close`, `closed` and `written` if another node takes over; or
    `drop`."""

    kind = "share-state"

    def __init__(
        self, number: int, shared: ShareStateShardParts, owned: OwnedUnit | None = None
    ) -> None:
        super().__init__(
            number,
            SHARE_COORDINATOR.topic.log_name(number),
            shared.make(),
            shared.config,
            shared.parts,
            shared.config.share_write_timeout_ms,
        )
        self.tasks = ShardTasks()
        self._shared = shared
        self._owned = owned

    @property
    def active(self) -> bool:
        return self.state is CoordinatorState.ACTIVE

    # Loading ------------------------------------------------------------------------------

    async def read_log(self, opened: LogState | None) -> LoadedMachine[ShareStateMachine]:
        logs = self._shared.logs
        opened = opened or await logs.open(self.log_name, self._owned)
        machine = self._shared.make()

        def apply(key: bytes, value: bytes | None, offset: int) -> int:
            place, change = decode_record(key, value)
            machine.replay(place, change, offset)
            kept = machine.kept.get(place)
            # An update is merged into all batches of the state, a snapshot brings them along.
            return 1 + (len(value or b"") + len(kept.batches if kept else ())) // 500

        return _loaded(machine, opened, await replay_log(logs, opened, apply))

    def begin(self, opened: LogState) -> None:
        """Serve at once. The log must be open and empty."""
        self.serve(_loaded(self.machine, opened, 0))

    def on_active(self) -> None:
        self._shared.on_loaded()

    def encode(self, records: Sequence[ShareStateRecord]) -> EncodedWrite:
        return measured(
            list(starmap(encode_record, records)),
            [key.group_id for key, _ in records],
        )

    # The log is kept short ----------------------------------------------------------------

    async def write_cold(self) -> None:
        """Write a snapshot of each share-partition that had none for the configured time. If all of
        them are cold nothing is won by that: then only those of deleted topics are written, as
        tombstones."""
        machine, now = self.machine, self.clock.now()
        before_ms = now.wall_ms - self._config.share_cold_snapshot_interval_ms
        cold, gone, hot = [], [], False
        for some in self._chunks(machine):
            for key in some:
                if (kept := machine.kept.get(key)) is not None:
                    hot = hot or kept.created_ms == kept.written_ms
                    if kept.written_ms <= before_ms:
                        cold.append(key)
                        if not machine.exists(key.topic_id, key.partition):
                            gone.append(key)
            await asyncio.sleep(0)
        await self._write_each(machine, cold if hot else gone, partial(machine.snapshot, now=now))

    async def forget(self, topic_ids: Collection[TopicId]) -> None:
        """Write tombstones for the share-partitions of topics that were deleted."""
        machine, gone = self.machine, []
        for some in self._chunks(machine):
            gone += [key for key in some if key.topic_id in topic_ids]
            await asyncio.sleep(0)
        await self._write_each(machine, gone, machine.forget)

    async def prune(self) -> None:
        """Cut off the records before the last snapshots of all share-partitions. If the log fails
        on the way nothing is cut off, and the next attempt does it."""
        machine, keep_from = self.machine, self._journal.next_offset
        # Meanwhile snapshots only move on, so offsets that were seen too early do no harm.
        for some in self._chunks(machine):
            offsets = [machine.kept[key].snapshot_offset for key in some if key in machine.kept]
            keep_from = min([keep_from, *offsets])
            await asyncio.sleep(0)
        if keep_from <= self.start_offset or not await self.flushed() or not self.runs(machine):
            return
        try:
            await self._shared.logs.truncate_before(self.log_name, keep_from, self.owner_epoch)
        except LogError as error:
            log.warning("the log cannot be pruned", log=self.log_name, reason=str(error))
            return
        if self.runs(machine):
            self.start_offset = keep_from
            self._shared.counts.pruned[self.partition] = keep_from
        log.info("log pruned", log=self.log_name, from_offset=keep_from)

    def _chunks(self, machine: ShareStateMachine) -> Iterator[list[SharePartitionKey]]:
        """The keys of the machine, some at a time, as long as it is in use."""
        for some in chunks(list(machine.kept), SLICE_ITEMS):
            if not self.runs(machine):
                return
            yield some

    async def _write_each(
        self,
        machine: ShareStateMachine,
        keys: Sequence[SharePartitionKey],
        make: Callable[[SharePartitionKey], Outcome],
    ) -> None:
        """Write what `make` returns for each key. They are writes of their own, because together
        they may not fit into a batch."""
        for some in chunks(keys, REQUEST_ITEMS):
            for key in some:
                if not self.runs(machine):
                    return
                self.input(partial(make, key))
            await asyncio.sleep(0)

    # Ends -----------------------------------------------------------------------------------

    async def ended(self) -> None:
        """Wait after `close` until no work of the shard runs."""
        self.tasks.cancel()
        await self.tasks.ended()

    async def written(self) -> None:
        """Wait, too, until the shard writes nothing any more."""
        await super().written()
        # The tasks end by themselves. A cancelled one might still prune the log while the next
        # owner has it.
        await self.tasks.ended()

    def drop(self) -> None:
        super().drop()
        self.tasks.cancel()


def _loaded(
    machine: ShareStateMachine, opened: LogState, records: int
) -> LoadedMachine[ShareStateMachine]:
    return LoadedMachine(
        machine, Outcome(), records, opened.start_offset, opened.next_offset, opened.owner_epoch
    )
