"""Replays a recording with this build and finds where the replies differ. Everything happens in
this thread, without sockets and without waiting. The entries go in one by one, each at its recorded
time. Each reply is compared with the recorded reply to the same request, in whatever order they
come. It is also a difference if a reply comes more than `SLACK_MS` earlier or later than the
recorded one, or not at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from groupd.coordinator.config.coordinator_config import (
    FIELDS_BY_KEY,
    CoordinatorConfig,
    with_internal_limits,
    with_settings,
)
from groupd.coordinator.config.settings import LISTENER_PREFIX, ConfigError
from groupd.coordinator.logs import log_through_stdlib
from groupd.coordinator.recording.difference import (
    Difference,
    FieldDifference,
    RequestFacts,
    differences,
)
from groupd.coordinator.recording.plain import to_tree
from groupd.coordinator.recording.reader import BadRecording, RecordingFile, TapeEntry, survey
from groupd.coordinator.recording.replay_world import SLACK_MS
from groupd.coordinator.recording.replayed import ReplayedBroker

EVENTS_BEFORE = 8
"""How many earlier requests are shown before a difference."""


class _Reply(Struct):
    """A reply. `at`: when it was given, in monotonic and in real time."""

    tree: Any
    crc: int | None
    copies: int
    number: int
    at: tuple[int, int]


class RecordingReplay:
    """One replay of one recording. `settings` override the recorded configuration."""

    def __init__(self, path: str | Path, settings: Mapping[str, str] | None = None) -> None:
        """Raises BadRecording."""
        self.file = RecordingFile(path)
        script = survey(self.file)
        self.inputs, self.requests = script.inputs, script.requests
        self.torn = self.file.torn
        self.end = self.file.end
        config = _config(self.file, settings or {})
        self.broker = ReplayedBroker(self.file, config, script, self._replied)
        self.compared = 0
        self._got: dict[int, _Reply] = {}
        self._recorded: dict[int, _Reply] = {}
        self._settled: set[int] = set()
        self._facts: dict[int, RequestFacts] = {}
        self._recent: deque[RequestFacts] = deque(maxlen=200)

    def differences(self, until: int | None = None) -> Iterator[Difference]:
        """All differences, in the order in which they are found. Works only once. `until`: the
        number of the last request to look at. Raises BadRecording."""
        last = self.inputs if until is None else until
        try:
            yield from (found for found in self._run(last) if found.request.number <= last)
        finally:
            self.broker.close()

    def _run(self, last: int) -> Iterator[Difference]:
        for entry in self.file.entries():
            if entry["k"] == "reply":
                yield from self._expect(entry)
            if "n" not in entry:
                self.broker.note(entry)
                continue
            if entry["n"] > last and not any(number <= last for number in self._facts):
                break
            yield from self._overdue(self.broker.begin(entry))
            facts = self.broker.feed(entry)
            if facts is not None:
                self._facts[facts.number] = facts
                self._recent.append(facts)
        yield from self._left(cut=last < self.inputs or self.file.end != "stopped")

    # Replies ------------------------------------------------------------------------------

    def _replied(self, request: int, reply: Any, crc: int | None, copies: int) -> None:
        world = self.broker.world
        at = (world.instant.monotonic_ms, world.real_ms)
        self._got[request] = _Reply(reply, crc, copies, world.number, at)

    def _expect(self, entry: TapeEntry) -> Iterator[Difference]:
        world = self.broker.world
        request = entry.get("to")
        if not isinstance(request, int):
            raise self.file.bad("answers no request")
        at = (world.instant.monotonic_ms, world.real_ms)
        reply = _Reply(entry.get("m"), entry.get("crc"), entry.get("copies", 1), world.number, at)
        if request in self._settled:
            self._settled.discard(request)
            return
        self._recorded[request] = reply
        yield from self._compare(request)

    def _compare(self, request: int) -> Iterator[Difference]:
        """Compare the replies of both sides to the request, if both have come."""
        got, recorded = self._got.get(request), self._recorded.get(request)
        if got is None or recorded is None:
            return
        del self._got[request], self._recorded[request]
        self.compared += 1
        fields = tuple(_compared(recorded, got))
        if fields:
            yield self._difference(request, fields)
        else:
            self._facts.pop(request, None)

    def _overdue(self, now: tuple[int, int]) -> Iterator[Difference]:
        """The differences for replies that only one side has given although the other should have
        by now. Replies that both sides have given since the last call are compared."""
        for request in list(self._recorded):
            yield from self._compare(request)
            recorded = self._recorded.get(request)
            if recorded is not None and _apart(recorded.at, now):
                del self._recorded[request]
                self._settled.add(request)
                yield self._alone(request, recorded.tree, None)
        for request, got in list(self._got.items()):
            if request in self._settled:
                del self._got[request]
                self._settled.discard(request)
            elif _apart(got.at, now):
                del self._got[request]
                self._settled.add(request)
                yield self._alone(request, None, got.tree)

    def _left(self, *, cut: bool) -> Iterator[Difference]:
        """The differences for replies that are left at the end. `cut`: the recording may lack
        replies."""
        for request in list(self._recorded):
            yield from self._compare(request)
        for request, recorded in self._recorded.items():
            yield self._alone(request, recorded.tree, None)
        if not cut:
            for request, got in self._got.items():
                if request not in self._settled:
                    yield self._alone(request, None, got.tree)

    def _alone(self, request: int, recorded: Any, got: Any) -> Difference:
        """The difference for a reply that only one side gave in time."""
        nothing = "(no reply by then)"
        field = FieldDifference(
            "", nothing if recorded is None else recorded, nothing if got is None else to_tree(got)
        )
        return self._difference(request, (field,))

    def _difference(self, request: int, fields: tuple[FieldDifference, ...]) -> Difference:
        facts = self._facts.pop(request, None) or self.broker.unknown(request)
        before = [one for one in self._recent if one.number < request and _related(one, facts)]
        groups = facts.groups[:1]
        events = [event for group in groups for event in self.broker.events(group)]
        return Difference(facts, fields, tuple(before[-EVENTS_BEFORE:]), tuple(events))


def replay(path: str | Path, *, config: Mapping[str, object] | None = None) -> Difference | None:
    """The first difference between a recording and what this build does; None if there is none.
    `config`: settings by Kafka's names that override the recorded ones. Raises BadRecording."""
    log_through_stdlib()
    settings = {
        key: str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in (config or {}).items()
    }
    return next(RecordingReplay(path, settings).differences(), None)


def _compared(recorded: _Reply, got: _Reply) -> Iterator[FieldDifference]:
    found = False
    for difference in differences(recorded.tree, to_tree(got.tree)):
        found = True
        yield difference
    if found:
        return
    if recorded.copies != got.copies:
        yield FieldDifference("(copies)", recorded.copies, got.copies)
    elif recorded.crc != got.crc:
        yield FieldDifference("(encoded bytes, CRC-32)", recorded.crc, got.crc)
    elif _apart(recorded.at, got.at):
        yield FieldDifference("(answered by input)", recorded.number, got.number)


def _apart(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return any(abs(left - right) > SLACK_MS for left, right in zip(one, other, strict=True))


def _related(one: RequestFacts, other: RequestFacts) -> bool:
    if not other.groups:
        return one.connection == other.connection
    return bool(set(one.groups) & set(other.groups))


def _config(file: RecordingFile, settings: Mapping[str, str]) -> CoordinatorConfig:
    recorded = file.header.get("config")
    if not isinstance(recorded, dict):
        raise BadRecording(f"{file.path}: has no configuration in its head")
    # A build with other settings may have made the recording.
    given = {
        key: str(value)
        for key, value in recorded.items()
        if key in FIELDS_BY_KEY or key.startswith(LISTENER_PREFIX)
    }
    constants = file.header.get("constants")
    base = with_internal_limits(
        CoordinatorConfig(), constants if isinstance(constants, dict) else {}
    )
    key = "group.consumer.assignors"
    foreign = [name for name in given.get(key, "").split(",") if ":" in name]
    if foreign and key not in settings:
        raise BadRecording(
            f"{file.path}: names assignors of its own ({', '.join(foreign)}), which are code: add "
            f"--set {key}={given[key]} if you trust them"
        )
    try:
        return with_settings(base, {**given, **settings})
    except ConfigError as error:
        raise BadRecording(f"{file.path}: {error}") from None
