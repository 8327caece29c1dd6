"""The snapshot in a recording's head: what the store held when the recording began. It is taken
from a store and read back into memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

from groupd.coordinator.recording.plain import to_bytes
from groupd.coordinator.security import users
from groupd.coordinator.security.sasl import salt_secret
from groupd.coordinator.security.scram_credentials import from_text, keyless
from groupd.storage.log import SECURITY_KINDS, LogCorrupt, LogState, StoredBatch, StoredTopic
from groupd.storage.memory import MemoryStore

SNAPSHOT_KINDS = frozenset({"topic", "config", "security", "log", "batch"})
READ_BYTES = 4 << 20


class SnapshotTooLarge(Exception):
    """The store holds too much. `size`: the bytes of batches read so far."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class Snapshotable(Protocol):
    """The methods of `storage.reader.StoreReader` that a snapshot needs."""

    async def cluster_id(self) -> str: ...
    async def topics(self) -> list[StoredTopic]: ...
    async def configs(self) -> list[tuple[int, str, str, str]]: ...
    async def security_entries(self, kind: str) -> list[tuple[str, str]]: ...
    async def states(self) -> list[LogState]: ...
    async def read(
        self, name: str, from_offset: int, max_bytes: int, *, min_one: bool = True
    ) -> list[StoredBatch]: ...


async def take(store: Snapshotable, bytes_max: int) -> AsyncIterator[Mapping[str, Any]]:
    """The entries of the snapshot, one for each topic, setting, ACL, user, quota, log and batch.
    Raises SnapshotTooLarge, LogError."""
    for topic in await store.topics():
        yield {"k": "topic", "topic": [topic.topic_id, topic.name, topic.partitions, topic.configs]}
    for setting in await store.configs():
        yield {"k": "config", "config": setting}
    for kind in SECURITY_KINDS:
        if kind == salt_secret.KIND:
            continue  # a recording has no logins
        for key, value in await store.security_entries(kind):
            yield {"k": "security", "security": [kind, key, _without_keys(kind, value)]}
    size = 0
    for state in await store.states():
        yield {"k": "log", "log": state}
        offset = state.start_offset
        while offset < state.next_offset:
            rows = await store.read(state.name, offset, READ_BYTES)
            if not rows:
                break
            for row in rows:
                size += len(row.payload)
                if size > bytes_max:
                    raise SnapshotTooLarge(size)
                yield {"k": "batch", "log": state.name, "batch": row}
            offset = rows[-1].last_offset + 1


class Restored(MemoryStore):
    """A store in memory that is filled from the entries of a snapshot."""

    def next_offset(self, name: str) -> int:
        """The end of a log; 0 when there is no such log."""
        log = self._logs.get(name)
        return 0 if log is None else log.next_offset

    def take_in(self, entry: Mapping[str, Any]) -> None:
        """Take in one entry. Raises ValueError, KeyError, TypeError for anything that is not such
        an entry."""
        match entry["k"]:
            case "topic":
                topic_id, name, partitions, configs = entry["topic"]
                pairs = tuple((str(key), str(value)) for key, value in configs)
                topic = StoredTopic(to_bytes(topic_id), str(name), int(partitions), pairs)
                self.restore_topic(topic)
            case "config":
                kind, name, key, value = entry["config"]
                self.restore_config(int(kind), str(name), str(key), str(value))
            case "security":
                kind, key, value = map(str, entry["security"])
                self.restore_security(kind, key, value)
            case "log":
                self.restore_log(LogState(**_fields(entry["log"])))
            case "batch":
                fields = _fields(entry["batch"])
                payload = to_bytes(fields.pop("payload"))
                self.restore_batch(str(entry["log"]), StoredBatch(**fields, payload=payload))
            case other:
                raise ValueError(f"no entry {other!r}")


def _without_keys(kind: str, value: str) -> str:
    """Raises LogCorrupt."""
    if kind != users.KIND:
        return value
    try:
        return keyless(from_text(value).iterations).to_text()
    except ValueError as error:
        raise LogCorrupt(f"a user's credential: {error}") from None


def _fields(tree: Any) -> dict[str, Any]:
    if not isinstance(tree, dict):
        raise ValueError("no object")
    return {str(key): value for key, value in tree.items() if key != "@"}
