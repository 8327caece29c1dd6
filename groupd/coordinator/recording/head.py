"""The head of a recording: how the broker was started, and a snapshot of what its store held."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import AsyncIterator, Callable, Mapping
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from groupd import __version__
from groupd.coordinator.config.coordinator_config import (
    CoordinatorConfig,
    internal_limits_of,
    settings_of,
)
from groupd.coordinator.core.types import Instant
from groupd.coordinator.recording.plain import to_bytes
from groupd.coordinator.recording.tape import FORMAT, VERSION, CannotRecord, Tape
from groupd.coordinator.security import users
from groupd.coordinator.security.scram_credentials import from_text, keyless
from groupd.storage.log import SECURITY_KINDS, LogCorrupt, LogState, Store, StoredBatch, StoredTopic
from groupd.storage.memory import MemoryStore

if TYPE_CHECKING:
    from groupd.storage.reader import StoreReader

SNAPSHOT_KINDS = frozenset({"topic", "config", "security", "log", "batch"})
READ_BYTES = 4 << 20


class SnapshotTooLarge(Exception):
    """The store is too large for a snapshot. `size`: the bytes of batches that were read so far."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


async def take(store: StoreReader, bytes_max: int) -> AsyncIterator[Mapping[str, Any]]:
    """The entries of the snapshot, one for each topic, setting, ACL, user, quota, log and batch.
    Raises SnapshotTooLarge, LogError."""
    for topic in await store.topics():
        yield {"k": "topic", "topic": [topic.topic_id, topic.name, topic.partitions, topic.configs]}
    for setting in await store.configs():
        yield {"k": "config", "config": setting}
    for kind in SECURITY_KINDS:
        if kind == users.SECRET_KIND:
            continue  # a recording has no logins, so it needs no secrets of users
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
    """A store in memory that is filled with the entries of a snapshot."""

    def next_offset(self, name: str) -> int:
        """The end of a log; 0 if there is no such log."""
        log = self._logs.get(name)
        return 0 if log is None else log.next_offset

    def take_in(self, entry: Mapping[str, Any]) -> None:
        """Add one entry of a snapshot. Raises ValueError, KeyError, TypeError for a wrong entry."""
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
    """The value of a security entry, for a user without its keys. Raises LogCorrupt."""
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


SERVE = "serve"
HARNESS = "harness"
SNAPSHOT_BYTES_MAX = 64 << 20
"""The largest size in bytes of all batches in a store for a recording to begin."""


class Head(Struct, frozen=True):
    """The contents of the head. `mode`: `serve`, or `harness`, in which faults stand between the
    connections and the broker. `reader` opens a store on disk for the snapshot."""

    mode: str = SERVE
    reader: Callable[[], StoreReader] | None = None
    snapshot_bytes_max: int = SNAPSHOT_BYTES_MAX
    seed: str = field(default_factory=lambda: token_hex(16))


async def begin(
    tape: Tape, head: Head, config: CoordinatorConfig, store: Store, now: Instant
) -> None:
    """Write the head before anything else is written. Raises CannotRecord, storage.log.LogError."""
    in_memory = isinstance(store, MemoryStore)
    entries: list[Mapping[str, Any]] = [
        {
            FORMAT: VERSION,
            "version": __version__,
            "python": platform.python_version(),
            "mode": head.mode,
            "seed": head.seed,
            "at": (now.monotonic_ms, now.wall_ms),
            "store": "memory" if in_memory else "outside",
            "cluster": await store.cluster_id(),
            "config": settings_of(config),
            "constants": internal_limits_of(config),
        }
    ]
    if not in_memory and head.reader is not None:
        entries += await _snapshot(tape, head)
    await asyncio.to_thread(tape.begin, entries)


async def _snapshot(tape: Tape, head: Head) -> list[Mapping[str, Any]]:
    assert head.reader is not None
    reader = head.reader()
    await reader.start()
    try:
        return [entry async for entry in take(reader, head.snapshot_bytes_max)]
    except SnapshotTooLarge:
        raise CannotRecord(
            f"recording {tape.path}: the store holds more than {head.snapshot_bytes_max >> 20} "
            "MiB, all of which would have to stand in the recording; record with an empty "
            "--data-dir"
        ) from None
    finally:
        await reader.close()
