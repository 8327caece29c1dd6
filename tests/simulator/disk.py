"""The simulated log: what survives a crash, and how an append can go wrong.

An append is applied as a whole, or not at all, some time after it was asked for; the asker learns
of success, of a clean failure, or of a failure that leaves open whether it was applied. A crash
of the asker does not stop what is already on its way.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from groupd.protocol.records.batch import BatchRecord, iter_batches, iter_records
from groupd.protocol.records.batch_builder import encode_batch
from groupd.storage.log import Append, LogError, LogFenced, LogState, LogUnavailable, StoredBatch
from groupd.storage.units import OwnedUnit
from tests.simulator.loop import VirtualLoop
from tests.simulator.options import Options
from tests.simulator.world import World

SLOW_APPEND_MS = 8000
FOREIGN_CRASH_MS = 2


@dataclass(slots=True)
class DiskLog:
    owner_epoch: int = 0
    next_offset: int = 0
    batches: list[StoredBatch] = field(default_factory=list)


class Disk:
    """`on_durable(log name, batch)` runs when a batch is on disk; `crash` kills the process."""

    def __init__(self, world: World, options: Options) -> None:
        self.logs: dict[str, DiskLog] = {}
        self.healed = False
        self.appends = 0
        self.faults = 0
        self.on_durable: Callable[[str, StoredBatch], None] = lambda name, batch: None
        self.crash: Callable[[], None] = lambda: None
        self._world = world
        self._options = options

    def open_many(self, names: Sequence[str]) -> dict[str, LogState]:
        states = {}
        for name in names:
            log = self.logs.setdefault(name, DiskLog())
            log.owner_epoch += 1
            states[name] = LogState(name, log.owner_epoch, 0, log.next_offset)
        return states

    def start_append(
        self, loop: VirtualLoop, batches: Sequence[Append], done: asyncio.Future[None]
    ) -> None:
        """Draws what happens to this append, and when."""
        world, options = self._world, self._options
        self.appends += 1
        delay_ms = 0 if self.healed else world.between(0, options.append_max_ms)
        applied, error = True, None
        if not self.healed:
            if world.chance(options.slow_append):
                delay_ms += world.between(0, SLOW_APPEND_MS)
            if world.chance(options.failed_append):
                applied, error = False, LogUnavailable("the simulated append failed")
            elif world.chance(options.ambiguous_append):
                applied, error = world.chance(0.5), LogUnavailable("the outcome is unknown")
        if error is not None:
            self.faults += 1
            world.trace("append will fail", f"applied={applied}", f"in {delay_ms} ms")
        if not self.healed and world.chance(options.crash_at_append):
            # The crash comes before the write, or between the write and its answer.
            early = world.between(-FOREIGN_CRASH_MS, FOREIGN_CRASH_MS)
            world.after(max(0, delay_ms + early), self.crash)
        world.after(delay_ms, self._finish, loop, tuple(batches), applied, error, done)

    def _finish(
        self,
        loop: VirtualLoop,
        batches: Sequence[Append],
        applied: bool,
        error: LogError | None,
        done: asyncio.Future[None],
    ) -> None:
        if applied:
            try:
                self._apply(batches)
            except LogFenced as fenced:
                error = fenced
        loop.enter(_settle, done, error)

    def _apply(self, batches: Sequence[Append]) -> None:
        ends: dict[str, int] = {}
        fenced: dict[str, None] = {}
        for batch in batches:
            log = self.logs[batch.name]
            expected = ends.get(batch.name, log.next_offset)
            if log.owner_epoch != batch.owner_epoch or expected != batch.base_offset:
                fenced[batch.name] = None
            ends[batch.name] = batch.last_offset + 1
        if fenced:
            raise LogFenced(list(fenced))
        for batch in batches:
            log = self.logs[batch.name]
            stored = StoredBatch(
                batch.base_offset, batch.last_offset, batch.max_timestamp_ms, batch.payload
            )
            log.batches.append(stored)
            log.next_offset = batch.last_offset + 1
            self.on_durable(batch.name, stored)

    def read(self, name: str, from_offset: int) -> list[StoredBatch]:
        batches = self.logs[name].batches
        start = bisect_left(batches, from_offset, key=lambda batch: batch.last_offset)
        return batches[start:]

    def compact(self, name: str) -> None:
        """Folds a random prefix: the last record of each key stays, tombstones go."""
        log = self.logs[name]
        cut = self._world.between(0, len(log.batches))
        last: dict[bytes | None, StoredBatch | None] = {}
        for stored in log.batches[:cut]:
            for batch in iter_batches(stored.payload):
                for raw in iter_records(batch):
                    last.pop(raw.key, None)
                    last[raw.key] = None if raw.value is None else _alone(stored, raw)
        kept = [stored for stored in last.values() if stored is not None]
        if cut and (not kept or kept[-1].last_offset != log.batches[cut - 1].last_offset):
            # Readers find the end of a log by its last batch: that one is never folded away.
            kept = [one for one in kept if one.base_offset < log.batches[cut - 1].base_offset]
            kept.append(log.batches[cut - 1])
        log.batches[:cut] = kept


def _alone(stored: StoredBatch, raw: BatchRecord) -> StoredBatch:
    payload = encode_batch(raw.offset, 0, stored.max_timestamp_ms, [(raw.key, raw.value)])
    return StoredBatch(raw.offset, raw.offset, stored.max_timestamp_ms, bytes(payload))


def _settle(done: asyncio.Future[None], error: LogError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)


class DiskClient:
    """One process's way to the disk; the part of `storage.log.PartitionLogs` that shards use."""

    def __init__(self, disk: Disk, world: World, options: Options, loop: VirtualLoop) -> None:
        self._disk = disk
        self._world = world
        self._options = options
        self._loop = loop

    async def open(self, name: str, owned: OwnedUnit | None = None) -> LogState:
        return (await self.open_many([name]))[name]

    async def open_many(
        self, names: Sequence[str], owned: OwnedUnit | None = None
    ) -> dict[str, LogState]:
        await self._pause()
        return self._disk.open_many(names)

    async def append(self, batches: Sequence[Append]) -> None:
        done: asyncio.Future[None] = self._loop.create_future()
        self._disk.start_append(self._loop, batches, done)
        await done

    async def read(
        self, name: str, from_offset: int, max_bytes: int, *, min_one: bool = True
    ) -> list[StoredBatch]:
        await self._pause()
        if not self._disk.healed and self._world.chance(self._options.failed_read):
            self._world.trace("read fails", name)
            raise LogUnavailable("the simulated read failed")
        return self._disk.read(name, from_offset)

    async def _pause(self) -> None:
        delay_ms = 0 if self._disk.healed else self._world.between(0, self._options.append_max_ms)
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)
