"""The head of a recording: how the broker was started, and what its store held."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from secrets import token_hex
from typing import Any, Protocol

from msgspec import Struct, field

from groupd.coordinator.config.coordinator_config import (
    CoordinatorConfig,
    constants_of,
    settings_of,
)
from groupd.coordinator.core.types import Instant
from groupd.coordinator.recording.snapshot import Snapshotable, SnapshotTooLarge, take
from groupd.coordinator.recording.tape import FORMAT, VERSION, CannotRecord, Tape
from groupd.storage.log import Store
from groupd.storage.memory import MemoryStore

SERVE = "serve"
HARNESS = "harness"
SNAPSHOT_BYTES_MAX = 64 << 20
"""The largest size of the batches in a store, in bytes, at which a recording may begin."""


class SnapshotReader(Snapshotable, Protocol):
    async def start(self) -> None: ...
    async def close(self) -> None: ...


class Head(Struct, frozen=True):
    """What the head says. `mode`: `serve`, or `harness`, where faults stand between the connections
    and the broker. `reader` opens a store on disk for the snapshot."""

    mode: str = SERVE
    reader: Callable[[], SnapshotReader] | None = None
    snapshot_bytes_max: int = SNAPSHOT_BYTES_MAX
    seed: str = field(default_factory=lambda: token_hex(16))


async def begin(
    tape: Tape, head: Head, config: CoordinatorConfig, store: Store, now: Instant
) -> None:
    """Write the head, before anything else is written. Raises CannotRecord,
    storage.log.LogError."""
    in_memory = isinstance(store, MemoryStore)
    entries: list[Mapping[str, Any]] = [
        {
            FORMAT: VERSION,
            "version": groupd_version(),
            "python": platform.python_version(),
            "mode": head.mode,
            "seed": head.seed,
            "at": (now.monotonic_ms, now.wall_ms),
            "store": "memory" if in_memory else "outside",
            "cluster": await store.cluster_id(),
            "config": settings_of(config),
            "constants": constants_of(config),
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


def groupd_version() -> str:
    try:
        return version("groupd")
    except PackageNotFoundError:
        return "source"
