"""Repeats in a replay what a test did to its broker: faults, moves of the clock, failing appends, a
restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

from msgspec.structs import fields

from groupd.coordinator.daemon.parts import DaemonParts
from groupd.coordinator.faults.errors import HarnessError
from groupd.coordinator.faults.layer import FaultLayer, FaultTable
from groupd.coordinator.faults.spec import FaultSpec, make_spec
from groupd.coordinator.faults.topics import topics_of
from groupd.coordinator.faults.traffic import Liveness, Traffic
from groupd.coordinator.recording.reader import BadRecording, RecordingFile, TapeEntry
from groupd.coordinator.recording.world import WorldClock
from groupd.coordinator.server.slot import Requests
from groupd.storage.memory import MemoryStore

_DEFAULTS = {entry.name: entry.default for entry in fields(FaultSpec)}


class Restartable(Protocol):
    """What interventions need of a replayed broker."""

    file: RecordingFile

    @property
    def parts(self) -> DaemonParts: ...

    @property
    def memory(self) -> MemoryStore: ...

    def forget_everything(self) -> None: ...


class Interventions:
    """The layers that the harness puts around a broker, for a replay."""

    def __init__(self, replayed: Restartable, clock: WorldClock) -> None:
        self._replayed = replayed
        self._clock = clock
        self._faults = FaultTable(_nobody)
        self._liveness = Liveness(lambda: replayed.parts.broker)

    def wrap(self, requests: Requests) -> Requests:
        self._liveness.forget()
        traffic = Traffic(requests, self._liveness, _nobody)
        return FaultLayer(traffic, self._faults, self._clock, self._liveness, self._topics_of)

    def _topics_of(self, request: Any) -> Iterator[str]:
        parts = self._replayed.parts
        return topics_of(request, parts.data_plane, parts.share_partitions)

    def action_of(self, kind: str, entry: TapeEntry) -> Callable[[], Any]:
        """Returns a function that does what the entry says. Raises BadRecording."""
        store = self._replayed.memory
        match kind:
            case "fault":
                return partial(_if_allowed, self._faults.add, self._spec(entry["spec"]))
            case "release-fault":
                return partial(_if_allowed, self._faults.release, int(entry["fault"]))
            case "remove-fault":
                return partial(self._faults.remove, int(entry["fault"]))
            case "silence":
                group, member = entry["member"]
                return partial(self._liveness.silence, (str(group), str(member)))
            case "renew":
                return partial(self._liveness.renew, int(entry["ms"]))
            case "fail-append":
                applied, log = bool(entry["applied"]), str(entry.get("log", ""))
                return partial(store.fail_next_append, applied=applied, log=log)
            case "forget-share-group":
                return partial(self._forget_share_group, str(entry["group"]))
            case "hold-appends":
                return store.hold_appends
            case "release-appends":
                return store.release_appends
            case "new-store":
                return self._replayed.forget_everything
            case "open-log":
                return partial(self._open_log, str(entry["topic"]), int(entry["partition"]))
        raise self._replayed.file.bad(f"is of an unknown kind, {kind!r}")

    def _forget_share_group(self, group: str) -> None:
        self._replayed.parts.share_partitions.forget_group(group)

    def _spec(self, tree: Any) -> FaultSpec:
        given = {
            name: value
            for name, value in tree.items()
            if name in ("applied", "seed") or (name in _DEFAULTS and value != _DEFAULTS[name])
        }
        try:
            return make_spec(given.pop("action"), given)
        except HarnessError as error:
            raise BadRecording(f"{self._replayed.file.path}: {error}") from None

    def _open_log(self, name: str, partition: int) -> None:
        plane = self._replayed.parts.data_plane
        topic = plane.catalogue.topic(name)
        if topic is not None:
            opening = plane.partitions.readable(topic, partition)
            task = asyncio.get_running_loop().create_task(opening)
            task.add_done_callback(_looked_at)


def _if_allowed(act: Callable[[Any], Any], given: Any) -> None:
    try:
        act(given)
    except HarnessError:
        return  # the harness refused it in the recording, too


def _looked_at(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


def _nobody(*_: object) -> None:
    """Does nothing, because in a replay nothing waits for this."""
