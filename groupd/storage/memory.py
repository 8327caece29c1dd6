"""A `Store` in memory: for `memory://`, for tests, and for the simulator, which scripts its faults.

A closed store keeps its contents: to start it again is like a restart on the same disk.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

from msgspec import Struct, field

from groupd.storage.log import (
    EXTENTS_MAX,
    Append,
    ConfigEntry,
    LogFenced,
    LogState,
    LogUnavailable,
    MadePartitions,
    Replacement,
    RowExtent,
    SecurityEntry,
    StoredBatch,
    StoredTopic,
    new_cluster_id,
)
from groupd.storage.units import OwnedUnit


class _Log(Struct, gc=False):  # it holds nothing that could refer back to it
    owner_epoch: int = 0
    start_offset: int = 0
    next_offset: int = 0
    clean_offset: int = 0
    batches: list[StoredBatch] = field(default_factory=list)

    def live(self, from_offset: int = 0) -> list[StoredBatch]:
        wanted = max(from_offset, self.start_offset)
        return self.batches[bisect_left(self.batches, wanted, key=lambda b: b.last_offset) :]


class _Fault(Struct, frozen=True):
    error: BaseException
    applied: bool
    log: str = ""


class MemoryStore:
    """See `storage.log.Store`. Faults are scripted with `fail_next_append`, `fail_next_read`,
    `fail_next_replace`, `hold_appends` and `release_appends`."""

    def __init__(self, cluster_id: str | None = None) -> None:
        self.known_cluster_id = cluster_id or new_cluster_id()
        self._logs: dict[str, _Log] = {}
        self._topics: dict[bytes, StoredTopic] = {}
        self._configs: dict[tuple[int, str, str], str] = {}
        self._security: dict[tuple[str, str], str] = {}
        self._next_producer_id = 0
        self._append_faults: deque[_Fault] = deque()
        self._read_faults: deque[BaseException] = deque()
        self._replace_faults: deque[_Fault] = deque()
        self._released: asyncio.Event | None = None
        self._started = False
        self.held_appends = 0
        """How many appends wait for `release_appends`."""

    # Faults -------------------------------------------------------------------------------

    def fail_next_append(
        self, error: BaseException | None = None, *, applied: bool = False, log: str = ""
    ) -> None:
        """The next append raises `error` (LogUnavailable by default), either after it was applied
        or without any effect. With `log` it is the next one to a log whose name begins so. Each
        call lets one more append fail."""
        self._append_faults.append(_Fault(error or LogUnavailable("scripted fault"), applied, log))

    @property
    def append_faults(self) -> int:
        """How many scripted failures have not been used by an append yet."""
        return len(self._append_faults)

    def fail_next_read(self, error: BaseException | None = None) -> None:
        """The next read or timestamp lookup raises `error`. Each call lets one more read fail."""
        self._read_faults.append(error or LogUnavailable("scripted fault"))

    def fail_next_replace(
        self, error: BaseException | None = None, *, applied: bool = False
    ) -> None:
        """As `fail_next_append`, for `replace`."""
        self._replace_faults.append(_Fault(error or LogUnavailable("scripted fault"), applied))

    def hold_appends(self) -> None:
        """From now on appends wait, without being applied, until `release_appends`."""
        if self._released is None:
            self._released = asyncio.Event()

    def release_appends(self) -> None:
        if self._released is not None:
            self._released.set()
            self._released = None

    # Store --------------------------------------------------------------------------------

    async def start(self) -> None:
        self._started = True

    async def lost(self) -> str:
        """Never returns."""
        never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await never

    async def close(self) -> None:
        self._started = False

    def _check_open(self) -> None:
        if not self._started:
            raise LogUnavailable("memory store: not open")

    # PartitionLogs ------------------------------------------------------------------------

    async def open(self, name: str, owned: OwnedUnit | None = None) -> LogState:
        return (await self.open_many([name]))[name]

    async def open_many(
        self, names: Sequence[str], owned: OwnedUnit | None = None
    ) -> dict[str, LogState]:
        self._check_open()
        states = {}
        for name in dict.fromkeys(names):
            log = self._logs.setdefault(name, _Log())
            log.owner_epoch += 1
            states[name] = LogState(
                name, log.owner_epoch, log.start_offset, log.next_offset, log.clean_offset
            )
        return states

    async def append(self, batches: Sequence[Append]) -> None:
        self._check_open()
        if self._released is not None:
            self.held_appends += 1
            try:
                await self._released.wait()
            finally:
                self.held_appends -= 1
            self._check_open()
        fault = self._append_fault(batches)
        if fault is None or fault.applied:
            self._apply(batches)
        if fault is not None:
            raise fault.error

    def _append_fault(self, batches: Sequence[Append]) -> _Fault | None:
        for fault in self._append_faults:
            if any(batch.name.startswith(fault.log) for batch in batches) or not fault.log:
                self._append_faults.remove(fault)
                return fault
        return None

    def _apply(self, batches: Sequence[Append]) -> None:
        ends: dict[str, int] = {}
        fenced: dict[str, None] = {}
        for batch in batches:
            if batch.last_offset < batch.base_offset:
                raise ValueError(f"{batch.name}: batch {batch.base_offset}..{batch.last_offset}")
            log = self._logs.get(batch.name)
            if (
                log is None
                or log.owner_epoch != batch.owner_epoch
                or ends.get(batch.name, log.next_offset) != batch.base_offset
            ):
                fenced[batch.name] = None
            ends[batch.name] = batch.last_offset + 1
        if fenced:
            raise LogFenced(list(fenced))
        for batch in batches:
            log = self._logs[batch.name]
            log.next_offset = batch.last_offset + 1
            log.batches.append(
                StoredBatch(
                    batch.base_offset, batch.last_offset, batch.max_timestamp_ms, batch.payload
                )
            )

    def _readable(self, name: str) -> _Log:
        self._check_open()
        if self._read_faults:
            raise self._read_faults.popleft()
        return self._logs.get(name) or _Log()

    async def read(
        self, name: str, from_offset: int, max_bytes: int, *, min_one: bool = True
    ) -> list[StoredBatch]:
        """Returns no batches for an unknown log."""
        found: list[StoredBatch] = []
        total = 0
        for batch in self._readable(name).live(from_offset):
            total += len(batch.payload)
            if total > max_bytes and not (min_one and not found):
                break
            found.append(batch)
        return found

    async def first_at_or_after(self, name: str, timestamp_ms: int) -> StoredBatch | None:
        batches = self._readable(name).live()
        return next((batch for batch in batches if batch.max_timestamp_ms >= timestamp_ms), None)

    async def with_max_timestamp(self, name: str) -> StoredBatch | None:
        batches = self._readable(name).live()
        return max(batches, key=lambda batch: batch.max_timestamp_ms, default=None)

    async def ends(self, names: Sequence[str]) -> dict[str, tuple[int, int]]:
        self._check_open()
        known = {name: self._logs[name] for name in names if name in self._logs}
        return {name: (log.start_offset, log.next_offset) for name, log in known.items()}

    async def extents(
        self, name: str, from_offset: int, rows_max: int = EXTENTS_MAX
    ) -> list[RowExtent]:
        return [
            RowExtent(row.base_offset, row.last_offset, row.max_timestamp_ms, len(row.payload))
            for row in self._readable(name).live(from_offset)[:rows_max]
        ]

    async def size(self, name: str, end_offset: int) -> int:
        rows = self._readable(name).live()
        return sum(len(row.payload) for row in rows if row.last_offset < end_offset)

    async def truncate_before(self, name: str, offset: int, owner_epoch: int | None = None) -> None:
        """Never moves beyond the log end or backwards. An unknown log is ignored."""
        self._check_open()
        log = self._logs.get(name)
        if log is not None and owner_epoch not in (None, log.owner_epoch):
            raise LogFenced([name])
        if log is not None:
            log.start_offset = max(log.start_offset, min(offset, log.next_offset))
            log.batches = log.live()

    async def replace(self, change: Replacement) -> None:
        self._check_open()
        change.check()
        fault = self._replace_faults.popleft() if self._replace_faults else None
        if fault is None or fault.applied:
            self._swap(change)
        if fault is not None:
            raise fault.error

    def _swap(self, change: Replacement) -> None:
        log = self._logs.get(change.name)
        if (
            log is None
            or log.owner_epoch != change.owner_epoch
            or change.from_offset > log.next_offset
        ):
            raise LogFenced([change.name])
        first = bisect_left(log.batches, change.from_offset, key=lambda b: b.last_offset)
        last = bisect_left(log.batches, change.to_offset, key=lambda b: b.last_offset)
        gone = log.batches[first:last]
        end = min(change.to_offset, log.next_offset)
        if gone and (gone[0].base_offset, gone[-1].last_offset + 1) != (change.from_offset, end):
            raise ValueError(f"{change.name}: {change.from_offset}..{change.to_offset} cuts a row")
        if not gone and change.from_offset != log.next_offset:
            raise ValueError(f"{change.name}: {change.from_offset}..{change.to_offset} cuts a row")
        log.batches[first:last] = change.rows
        log.next_offset = max(log.next_offset, change.to_offset)
        log.clean_offset = change.clean_offset

    async def delete(self, names: Sequence[str], owned: OwnedUnit | None = None) -> None:
        self._check_open()
        for name in names:
            self._logs.pop(name, None)

    # Catalogue ----------------------------------------------------------------------------

    async def cluster_id(self) -> str:
        self._check_open()
        return self.known_cluster_id

    async def topics(self) -> list[StoredTopic]:
        """Returns all topics, sorted by name."""
        self._check_open()
        return sorted(self._topics.values(), key=lambda topic: (topic.name, topic.topic_id))

    async def topics_by_id(self, topic_ids: Sequence[bytes]) -> list[StoredTopic]:
        return [topic for topic in await self.topics() if topic.topic_id in topic_ids]

    async def put_topic(
        self, topic: StoredTopic, made: MadePartitions | None = None
    ) -> StoredTopic:
        self._check_open()
        self._topics[topic.topic_id] = topic
        return topic

    async def delete_topic(self, topic_id: bytes) -> None:
        self._check_open()
        self._topics.pop(topic_id, None)

    async def configs(self) -> list[tuple[int, str, str, str]]:
        """Returns the overrides ordered by resource type, name and key."""
        self._check_open()
        return [(*key, value) for key, value in sorted(self._configs.items())]

    async def configs_of(
        self, resource_type: int, names: Sequence[str]
    ) -> list[tuple[int, str, str, str]]:
        found = await self.configs()
        return [one for one in found if one[0] == resource_type and one[1] in names]

    async def put_configs(self, changes: Sequence[ConfigEntry]) -> None:
        self._check_open()
        for change in changes:
            place = (change.resource_type, change.name, change.key)
            if change.value is None:
                self._configs.pop(place, None)
            else:
                self._configs[place] = change.value

    async def security_entries(self, kind: str) -> list[tuple[str, str]]:
        self._check_open()
        return sorted((key, value) for (of, key), value in self._security.items() if of == kind)

    async def security_entries_of(self, kind: str, keys: Sequence[str]) -> list[tuple[str, str]]:
        return [one for one in await self.security_entries(kind) if one[0] in keys]

    async def change_security(self, changes: Sequence[SecurityEntry]) -> None:
        self._check_open()
        for change in changes:
            if change.value is None:
                self._security.pop((change.kind, change.key), None)
            else:
                self._security[change.kind, change.key] = change.value

    async def log_sizes(self) -> dict[str, int]:
        self._check_open()
        sizes = {
            name: sum(len(batch.payload) for batch in log.live())
            for name, log in self._logs.items()
        }
        return {name: size for name, size in sizes.items() if size}

    async def next_producer_ids(self, count: int) -> int:
        self._check_open()
        if count < 1:
            raise ValueError(f"{count} producer ids")
        first = self._next_producer_id
        self._next_producer_id += count
        return first

    # Contents of another store ------------------------------------------------------------

    def restore_topic(self, topic: StoredTopic) -> None:
        self._topics[topic.topic_id] = topic

    def restore_config(self, resource_type: int, name: str, key: str, value: str) -> None:
        self._configs[resource_type, name, key] = value

    def restore_security(self, kind: str, key: str, value: str) -> None:
        self._security[kind, key] = value

    def restore_log(self, state: LogState) -> None:
        """Call `restore_batch` for its rows next, in order."""
        self._logs[state.name] = _Log(
            state.owner_epoch, state.start_offset, state.next_offset, state.clean_offset
        )

    def restore_batch(self, name: str, batch: StoredBatch) -> None:
        self._logs[name].batches.append(batch)
