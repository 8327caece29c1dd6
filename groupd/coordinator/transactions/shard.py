"""TransactionShard: some of the transactional ids, with their log and the ends of their
transactions. One shard is a unit in a cluster.

It is a `LogShard` whose machine is a table of ids. A change takes effect in memory when its record
is durable, not before. If an append fails, or its result is unknown, every waiting change is
refused with NOT_COORDINATOR. Then the table is read from the log again, which also settles the
unknown result.

A shard whose log is empty first takes over its ids from the log that held all ids before there were
shards (`legacy`), in one append, and serves then.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import structlog
from msgspec import Struct
from msgspec.structs import replace

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.slices import chunks
from groupd.coordinator.core.types import AppendError, Completion, Outcome, RequestContext
from groupd.coordinator.producers.transactions import MarkerTarget
from groupd.coordinator.runtime.coordinator_types import transactions_log_name
from groupd.coordinator.runtime.journal import EncodedWrite, Journal, measured
from groupd.coordinator.runtime.log_replay import replay_log
from groupd.coordinator.runtime.log_shard import LogShard
from groupd.coordinator.runtime.machine import LoadedMachine
from groupd.coordinator.runtime.shard_state import REFUSALS, CoordinatorState, RuntimeParts
from groupd.coordinator.runtime.shard_tasks import ShardTasks
from groupd.coordinator.transactions.loading import LegacyLog, into
from groupd.coordinator.transactions.machine import TransactionMachine, TransactionRecord
from groupd.coordinator.transactions.markers import MarkerCounts, MarkerSender
from groupd.coordinator.transactions.metadata import (
    PREPARED,
    TransactionAnswer,
    TransactionChange,
    TransactionMetadata,
    TransactionState,
    to_record,
)
from groupd.coordinator.transactions.table import TransactionTable
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.storage.log import LogError, LogState, PartitionLogs
from groupd.storage.units import OwnedUnit

log = structlog.get_logger("groupd.transactions")

_FIRST_OWNER_EPOCH = 1

HEADROOM_BYTES = 64
"""How many bytes the record of an open transaction leaves free, so that the records of its end
always fit."""

RECORDS_MIN = 10_000
RECORDS_PER_ID = 4
"""A log is trimmed when it has more than `RECORDS_MIN` records, and more than this many for each
id."""

CHUNK = 200
"""How many ids are handled before other work gets a turn."""

_COUNTED = {
    TransactionState.COMPLETE_COMMIT: "committed",
    TransactionState.COMPLETE_ABORT: "aborted",
    TransactionState.DEAD: "expired",
}


class TransactionShardParts(Struct, frozen=True):
    """What all shards of transactional ids of a node share: the `parts` of every shard, and more.
    `ids_in_all()`: how many ids there are in all shards of this node. `on_loaded()`: a shard has
    been loaded. `on_settled(id)`: the id takes changes again."""

    config: CoordinatorConfig
    logs: PartitionLogs
    parts: RuntimeParts
    markers: MarkerTarget
    legacy: LegacyLog
    counts: Counter[str]
    marker_counts: MarkerCounts
    ids_in_all: Callable[[], int]
    on_loaded: Callable[[], None]
    on_settled: Callable[[str], None]


class TransactionShard(LogShard[TransactionMachine]):
    """A shard of transactional ids at work. `owned`: its unit in a cluster. To end it, call
    `close`, then `closed` and `ended`; or `close`, `closed` and `written` if another node takes
    over; or `drop`."""

    kind = "transactions"

    def __init__(
        self,
        number: int,
        shared: TransactionShardParts,
        owned: OwnedUnit | None = None,
    ) -> None:
        self._shared = shared
        machine = self._fresh()
        name = transactions_log_name(number)
        super().__init__(number, name, machine, shared.config, shared.parts)
        self.coordinator_epoch = -1
        """The coordinator epoch of markers: 0 at the first start, as in Kafka. It grows whenever
        the log gets another owner, so that markers of a former owner are fenced."""
        self.markers = MarkerSender(self, shared.markers, self.clock, shared.marker_counts)
        self.trimmer = Trimmer(self, shared.logs)
        self.tasks = ShardTasks()
        self._owned = owned

    def _fresh(self) -> TransactionMachine:
        return TransactionMachine(TransactionTable(self._shared.config, self._shared.ids_in_all))

    @property
    def table(self) -> TransactionTable:
        """The table. A reload replaces it."""
        return self.machine.table

    @property
    def active(self) -> bool:
        return self.state is CoordinatorState.ACTIVE

    def serving(self) -> TransactionTable:
        """Returns the table. Raises ApiError while the shard does not serve."""
        if not self.active:
            raise ApiError(REFUSALS[self.state])
        return self.machine.table

    def serves(self, table: TransactionTable) -> bool:
        """Whether `table` is still in use. Work that began with another table must end."""
        return self.machine.table is table and self.active

    @property
    def busy(self) -> bool:
        """Whether there is work for which `ended` waits."""
        return self.tasks.busy or self.markers.under_way

    # Loading ------------------------------------------------------------------------------

    async def read_log(self, opened: LogState | None) -> LoadedMachine[TransactionMachine]:
        logs = self._shared.logs
        opened = opened or await logs.open(self.log_name, self._owned)
        first_epoch = await self._shared.legacy.epochs()
        machine, end_offset = self._fresh(), opened.next_offset
        if end_offset:
            loaded = await replay_log(logs, opened, into(machine.table))
        else:
            loaded = end_offset = await self._take_over(machine.table, opened.owner_epoch)
        if self.state is not CoordinatorState.CLOSED:
            self.coordinator_epoch = first_epoch + opened.owner_epoch - _FIRST_OWNER_EPOCH
        return _loaded(machine, opened, end_offset, loaded)

    def begin(self, opened: LogState) -> None:
        """Serve at once. The log must be open and empty, and there must be no legacy log."""
        self.coordinator_epoch = opened.owner_epoch - _FIRST_OWNER_EPOCH
        self.serve(_loaded(self.machine, opened, 0, 0))

    async def _take_over(self, table: TransactionTable, owner_epoch: int) -> int:
        """Write this shard's ids from the legacy log. Returns how many they are. Raises as `load`
        does. It is one append, so a process that dies leaves this log empty or complete."""
        journal = Journal(0, self._config.message_max_bytes)
        now = self.clock.now()
        for some in chunks(await self._shared.legacy.ids_of(self.partition)):
            for transactional_id, metadata in some:
                table.replay(transactional_id, metadata, journal.next_offset)
                record = measured([to_record(transactional_id, metadata)], (transactional_id,))
                journal.accept(record, [], None, now.monotonic_ms)
            await asyncio.sleep(0)
        if not journal.idle:
            await self._writer.append(journal.take(self.log_name, owner_epoch, now.wall_ms))
            log.info("ids taken over", log=self.log_name, ids=len(table.entries))
        return journal.next_offset

    def on_active(self) -> None:
        for transactional_id in self.table.prepared():
            self.markers.begin(transactional_id)
        self._shared.on_loaded()

    # Appends ------------------------------------------------------------------------------

    def append(self, change: TransactionChange) -> asyncio.Future[TransactionAnswer]:
        """Make `change` durable, then let it take effect. The result of the future is its answer.
        The future fails with ApiError: NOT_COORDINATOR if the log has failed,
        COORDINATOR_NOT_AVAILABLE if it takes too long, UNKNOWN_SERVER_ERROR if the record is too
        large, which undoes the change."""
        waiting = _WaitingChange()
        context = RequestContext(waiting, 0)
        self._apply(self.machine.handle(context, change, self.clock.now()))
        return waiting.future

    def rewrite(self, transactional_id: str, metadata: TransactionMetadata) -> None:
        """Write the present record of an id again, so that older records are not needed any
        more."""
        self._apply(self.machine.rewrite(transactional_id, metadata))

    def encode(self, records: Sequence[TransactionRecord]) -> EncodedWrite:
        names = [transactional_id for transactional_id, _ in records]
        encoded = measured([to_record(name, metadata) for name, metadata in records], names)
        open_ = sum(_is_ongoing(metadata) for _, metadata in records)
        return replace(encoded, size_bytes=encoded.size_bytes + HEADROOM_BYTES * open_)

    def _complete(self, completion: Completion, error: AppendError | None) -> None:
        change: TransactionChange = completion.data
        self.machine.appended(completion, error, self.clock.now())
        if error is None:
            self._applied(change)

    def _applied(self, change: TransactionChange) -> None:
        state = TransactionState.DEAD if change.metadata is None else change.metadata.state
        if state in PREPARED:
            if self.active:  # else the next start does it
                self.markers.begin(change.transactional_id)
        else:
            self._shared.on_settled(change.transactional_id)
        if (counted := _COUNTED.get(state)) is not None:
            self._shared.counts[counted] += 1
        if self.active and self.trimmer.due():
            self.tasks.start(self.trimmer.trim())

    # Ends -----------------------------------------------------------------------------------

    async def ended(self) -> None:
        """Wait after `close` until no work of the shard runs. Markers under way get a moment to be
        written."""
        await self.markers.close()
        self.tasks.cancel()
        await self.tasks.ended()

    async def written(self) -> None:
        """Wait, too, until the shard writes nothing any more. The next owner writes the markers of
        transactions that are not complete."""
        await super().written()
        await self.markers.close(0)
        # The tasks end by themselves. A cancelled one might still trim the log while the next owner
        # has it.
        await self.tasks.ended()

    def drop(self) -> None:
        super().drop()
        self.markers.cancel()
        self.tasks.cancel()


class Trimmer:
    """Trims the log: writes every id once more and cuts off the older records. `due()` is cheap;
    `trim()` is one pass."""

    __slots__ = ("_busy", "_failed_at", "_logs", "_shard", "records_min")

    def __init__(self, shard: TransactionShard, logs: PartitionLogs) -> None:
        self._shard = shard
        self._logs = logs
        self._busy = False
        self._failed_at = 0
        self.records_min = RECORDS_MIN

    def due(self) -> bool:
        # After a failed pass the next one waits until as many records are new: each pass writes
        # every id.
        records = self._shard.durable_offset - max(self._shard.start_offset, self._failed_at)
        ids = len(self._shard.table.entries)
        return not self._busy and records > max(self.records_min, RECORDS_PER_ID * ids)

    async def trim(self) -> None:
        """Trim the log. If the log fails on the way, nothing is cut off."""
        self._busy = True
        try:
            await self._trim()
        except LogError as error:
            self._failed_at = self._shard.durable_offset
            log.warning("the log cannot be trimmed", log=self._shard.log_name, reason=str(error))
        finally:
            self._busy = False

    async def _trim(self) -> None:
        machine, keep_from = self._shard.machine, self._shard.durable_offset
        table, owner_epoch = machine.table, self._shard.owner_epoch
        old = [name for name, entry in table.entries.items() if entry.offset < keep_from]
        for start in range(0, len(old), CHUNK):
            if not self._shard.runs(machine):
                return
            for transactional_id in old[start : start + CHUNK]:
                entry = table.entries.get(transactional_id)
                if entry is not None and entry.offset < keep_from:
                    self._shard.rewrite(transactional_id, entry.metadata)
            await asyncio.sleep(0)
        if not self._shard.runs(machine) or not await self._shard.flushed():
            return
        await self._logs.truncate_before(self._shard.log_name, keep_from, owner_epoch)
        if self._shard.runs(machine):
            self._shard.start_offset = keep_from
        log.info(
            "log trimmed", log=self._shard.log_name, from_offset=keep_from, ids=len(table.entries)
        )


def _loaded(
    machine: TransactionMachine, opened: LogState, end_offset: int, records: int
) -> LoadedMachine[TransactionMachine]:
    return LoadedMachine(
        machine, Outcome(), records, opened.start_offset, end_offset, opened.owner_epoch
    )


def _is_ongoing(metadata: TransactionMetadata | None) -> bool:
    return metadata is not None and metadata.state is TransactionState.ONGOING


class _WaitingChange:
    """A change that waits for its record. It is answered and refused like a `Waiter`."""

    __slots__ = ("future",)

    request = asked = None

    def __init__(self) -> None:
        self.future: asyncio.Future[TransactionAnswer] = asyncio.get_running_loop().create_future()
        self.future.add_done_callback(_looked_at)

    def answer(self, reply: Any) -> None:
        if not self.future.done():
            self.future.set_result(reply)

    def fail(self, code: ErrorCode, message: str | None = None) -> None:
        if not self.future.done():
            self.future.set_exception(ApiError(code, message))


def _looked_at(future: asyncio.Future[TransactionAnswer]) -> None:
    """Read the future's error, because its caller may be gone. The failure has been logged
    already."""
    if not future.cancelled():
        future.exception()
