"""A store outside the world. Its operations run on the real event loop, and the end of each
operation is an input. The n-th `append` has the key `append#n`, and other operations likewise. The
recording also notes that an operation began. So a replay can tell an operation that never ended
from one that the recorded build never began.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from groupd.storage.log import (
    EXTENTS_MAX,
    Append,
    ConfigEntry,
    LogState,
    MadePartitions,
    Replacement,
    RowExtent,
    SecurityEntry,
    Store,
    StoredBatch,
    StoredTopic,
)
from groupd.storage.units import OwnedUnit

T = TypeVar("T")


class Outside(Protocol):
    """Runs the operations of a store that is outside the world."""

    @property
    def inside(self) -> bool: ...

    async def operate(self, key: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Called inside the world: run `work()` outside and return its result or raise its
        error."""
        ...


class OutsideStore:
    """A `Store`. Calls from outside the world go to the store directly."""

    def __init__(self, store: Store, outside: Outside) -> None:
        self._store = store
        self._outside = outside
        self._counts: Counter[str] = Counter()

    async def _do(self, name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if not self._outside.inside:
            return await work()
        self._counts[name] += 1
        return await self._outside.operate(f"{name}#{self._counts[name]}", work)

    async def start(self) -> None:
        await self._store.start()

    async def lost(self) -> str:
        return await self._store.lost()

    async def close(self) -> None:
        await self._store.close()

    async def open(self, name: str, owned: OwnedUnit | None = None) -> LogState:
        return (await self.open_many([name]))[name]

    async def open_many(
        self, names: Sequence[str], owned: OwnedUnit | None = None
    ) -> dict[str, LogState]:
        return await self._do("open", lambda: self._store.open_many(names, owned))

    async def append(self, batches: Sequence[Append]) -> None:
        await self._do("append", lambda: self._store.append(batches))

    async def read(
        self, name: str, from_offset: int, max_bytes: int, *, min_one: bool = True
    ) -> list[StoredBatch]:
        return await self._do(
            "read", lambda: self._store.read(name, from_offset, max_bytes, min_one=min_one)
        )

    async def first_at_or_after(self, name: str, timestamp_ms: int) -> StoredBatch | None:
        return await self._do("find", lambda: self._store.first_at_or_after(name, timestamp_ms))

    async def with_max_timestamp(self, name: str) -> StoredBatch | None:
        return await self._do("latest", lambda: self._store.with_max_timestamp(name))

    async def ends(self, names: Sequence[str]) -> dict[str, tuple[int, int]]:
        return await self._do("ends", lambda: self._store.ends(names))

    async def extents(
        self, name: str, from_offset: int, rows_max: int = EXTENTS_MAX
    ) -> list[RowExtent]:
        return await self._do("extents", lambda: self._store.extents(name, from_offset, rows_max))

    async def size(self, name: str, end_offset: int) -> int:
        return await self._do("size", lambda: self._store.size(name, end_offset))

    async def truncate_before(self, name: str, offset: int, owner_epoch: int | None = None) -> None:
        await self._do("truncate", lambda: self._store.truncate_before(name, offset, owner_epoch))

    async def replace(self, change: Replacement) -> None:
        await self._do("replace", lambda: self._store.replace(change))

    async def delete(self, names: Sequence[str], owned: OwnedUnit | None = None) -> None:
        await self._do("delete", lambda: self._store.delete(names, owned))

    async def cluster_id(self) -> str:
        return await self._do("cluster-id", self._store.cluster_id)

    async def topics(self) -> list[StoredTopic]:
        return await self._do("topics", self._store.topics)

    async def topics_by_id(self, topic_ids: Sequence[bytes]) -> list[StoredTopic]:
        return await self._do("topics-by-id", lambda: self._store.topics_by_id(topic_ids))

    async def put_topic(
        self, topic: StoredTopic, made: MadePartitions | None = None
    ) -> StoredTopic:
        return await self._do("put-topic", lambda: self._store.put_topic(topic, made))

    async def delete_topic(self, topic_id: bytes) -> None:
        await self._do("delete-topic", lambda: self._store.delete_topic(topic_id))

    async def configs(self) -> list[tuple[int, str, str, str]]:
        return await self._do("configs", self._store.configs)

    async def configs_of(
        self, resource_type: int, names: Sequence[str]
    ) -> list[tuple[int, str, str, str]]:
        return await self._do("configs-of", lambda: self._store.configs_of(resource_type, names))

    async def put_configs(self, changes: Sequence[ConfigEntry]) -> None:
        await self._do("put-configs", lambda: self._store.put_configs(changes))

    async def security_entries(self, kind: str) -> list[tuple[str, str]]:
        return await self._do("security-entries", lambda: self._store.security_entries(kind))

    async def security_entries_of(self, kind: str, keys: Sequence[str]) -> list[tuple[str, str]]:
        return await self._do(
            "security-entries-of", lambda: self._store.security_entries_of(kind, keys)
        )

    async def change_security(self, changes: Sequence[SecurityEntry]) -> None:
        await self._do("change-security", lambda: self._store.change_security(changes))

    async def log_sizes(self) -> dict[str, int]:
        return await self._do("log-sizes", self._store.log_sizes)

    async def next_producer_ids(self, count: int) -> int:
        return await self._do("producer-ids", lambda: self._store.next_producer_ids(count))
