"""What happened in each group, for the reports of failing tests and for `events`: the coordinator's
events, and what clients did (the offsets that they committed and fetched, where they read, which
faults hit them).

The history is bounded: the coordinator's events of a group, what clients did in a group (counted
apart, so that commits do not push out rebalances), the number of groups, and the events of all
groups. The group that has been quiet for longest is forgotten first. The history outlives restarts
of the broker.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Any

from msgspec import Struct, field

from groupd.coordinator.core.types import Event, EventKind, Instant
from groupd.coordinator.faults.layer import groups_of, members_of
from groupd.coordinator.faults.spec import ERROR, FaultSpec
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.data import FetchRequest
from groupd.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
)
from groupd.testing.answers import GroupEvent

EVENTS_PER_GROUP = 100
TRAFFIC_PER_GROUP = 100
GROUPS_MAX = 2000
EVENTS_MAX = 20_000
REBALANCES = frozenset({EventKind.TARGET_INSTALLED, EventKind.REBALANCE_COMPLETED})
PARTITIONS_SHOWN = 20
CLIENTS_MAX = 1000
GROUPS_OF_A_CLIENT = 20
Commit = OffsetCommitRequest | TxnOffsetCommitRequest


class _Group(Struct):
    events: deque[GroupEvent] = field(default_factory=lambda: deque(maxlen=EVENTS_PER_GROUP))
    traffic: deque[GroupEvent] = field(default_factory=lambda: deque(maxlen=TRAFFIC_PER_GROUP))
    rebalances: int = 0


class History:
    """The events of every group; the group that was active last comes last."""

    def __init__(self) -> None:
        self._groups: OrderedDict[str, _Group] = OrderedDict()
        self._sequence = 0
        self._count = 0

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def latest(self, count: int) -> list[str]:
        """The `count` groups that were active last, the most recently active one last."""
        return list(self._groups)[-count:]

    def of(self, group: str) -> list[GroupEvent]:
        """The events of a group, oldest first; empty for a group without events."""
        found = self._groups.get(group)
        if found is None:
            return []
        return sorted([*found.events, *found.traffic], key=itemgetter("sequence"))

    def rebalances(self, group: str) -> int:
        """The number of rebalances: target assignments of a consumer group, completed generations
        of a classic group."""
        found = self._groups.get(group)
        return 0 if found is None else found.rebalances

    def add(self, event: Event, wall_ms: int) -> None:
        """Add an event of the coordinator. Commits are left out, because their events do not name
        the offsets; `note` adds them."""
        group = self._touch(event.group_id)
        if event.kind in REBALANCES:
            group.rebalances += 1
        if event.kind is not EventKind.OFFSETS_COMMITTED:
            made = self._make(wall_ms, event.kind.value, event.member_id, event.epoch)
            made["cause"], made["details"] = event.cause, dict(event.details)
            self._append(group.events, made)

    def note(
        self,
        group_id: str,
        event: str,
        wall_ms: int,
        *,
        member_id: str = "",
        epoch: int = -1,
        cause: str = "",
        details: Mapping[str, object],
    ) -> None:
        """Add something that a client did in the group."""
        made = self._make(wall_ms, event, member_id, epoch)
        made["cause"], made["details"] = cause, details
        self._append(self._touch(group_id).traffic, made)

    def _touch(self, group_id: str) -> _Group:
        group = self._groups.get(group_id)
        if group is None:
            group = self._groups[group_id] = _Group()
        self._groups.move_to_end(group_id)
        return group

    def _make(self, wall_ms: int, event: str, member_id: str, epoch: int) -> GroupEvent:
        self._sequence += 1
        return GroupEvent(
            sequence=self._sequence,
            timestamp_ms=wall_ms,
            event=event,
            member_id=member_id,
            epoch=epoch,
            cause="",
            details={},
        )

    def _append(self, events: deque[GroupEvent], made: GroupEvent) -> None:
        self._count += len(events) < (events.maxlen or 0)
        events.append(made)
        while len(self._groups) > GROUPS_MAX or self._count > EVENTS_MAX:
            _, gone = self._groups.popitem(last=False)
            self._count -= len(gone.events) + len(gone.traffic)


class ClientObserver:
    """Watches requests and replies, and notes in the history what clients do. `owns(group, topic,
    partition)`: whether a member of the group owns the partition."""

    def __init__(
        self,
        history: History,
        now: Callable[[], Instant],
        catalogue: Callable[[], TopicCatalogue],
        owns: Callable[[str, str, int], bool],
    ) -> None:
        self._history = history
        self._now = now
        self._catalogue = catalogue
        self._owns = owns
        self._clients: OrderedDict[str, _Client] = OrderedDict()

    def asked(self, client_id: str, request: Any) -> None:
        """Take note of any request that has come in."""
        if isinstance(request, FetchRequest):
            client = self._clients.get(client_id)
            if client is not None:
                self._note_positions(client_id, client, request)
            return
        for group in groups_of(request):
            self._client(client_id).add(group)

    def replied(self, request: Any, reply: Any) -> None:
        """Take note of the reply to a request of one of the types in `OBSERVED`."""
        if isinstance(request, OffsetFetchRequest):
            self._note_fetched(request, reply)
        else:
            self._note_commit(request, reply)

    def faulted(self, request: Any, fault: int, spec: FaultSpec, api: str) -> None:
        """Take note of a request that a fault has hit."""
        members = list(members_of(request))
        facts: dict[str, object] = {"action": spec.action}
        if spec.action == ERROR:
            facts["error"] = spec.code.name
        for group in groups_of(request):
            self._note(
                group,
                "fault-hit",
                member_id=members[0] if members else "",
                cause=f"fault {fault} took {api}",
                details=facts,
            )

    def _note_commit(self, request: Commit, reply: Any) -> None:
        offsets = {
            f"{self._name(topic.topic_id, topic.name)}-{part.partition}": part.offset
            for topic in request.topics
            for part in topic.partitions
        }
        results: dict[ErrorCode, dict[str, object]] = {}
        for topic in reply.topics:
            for part in topic.partitions:
                place = f"{self._name(topic.topic_id, topic.name)}-{part.partition}"
                results.setdefault(part.error, {})[place] = offsets.get(place)
        pending = isinstance(request, TxnOffsetCommitRequest)
        for error, found in results.items():
            details = {"offsets": _some(found)}
            accepted = error is ErrorCode.NONE
            self._note(
                request.group_id,
                "offsets-committed" if accepted else "commit-refused",
                member_id=request.member_id,
                epoch=request.generation_or_epoch,
                cause="pending until its transaction ends" if accepted and pending else "",
                details=details if accepted else {"error": error.name, **details},
            )

    def _note_fetched(self, request: OffsetFetchRequest, reply: Any) -> None:
        asked = {group.group_id: group for group in request.groups}
        for group in reply.groups:
            if group.error is not ErrorCode.NONE:
                details: dict[str, object] = {"error": group.error.name}
            else:
                found: dict[str, object] = {}
                for topic in group.topics:
                    name = self._name(topic.topic_id, topic.name)
                    for part in topic.partitions[:PARTITIONS_SHOWN]:
                        found[f"{name}-{part.partition}"] = part.offset
                details = {"offsets": _some(found)}
            who = asked.get(group.group_id)
            self._note(
                group.group_id,
                "offsets-fetched",
                member_id=(who.member_id or "") if who is not None else "",
                details=details,
            )

    def _note_positions(self, client_id: str, client: _Client, request: FetchRequest) -> None:
        """Note the partitions where the client now reads from another offset. A consumer fetches
        from its position, so it has received the records before that. A Fetch names no group. So it
        counts for the client's group, and if the client has several, for those with a member that
        owns the partition."""
        moved: dict[str, dict[str, object]] = {}
        for topic in request.topics:
            name = self._name(topic.topic_id, topic.name)
            for part in topic.partitions:
                if not client.moves((name, part.partition), part.fetch_offset):
                    continue
                groups = list(client.groups)
                if len(groups) > 1:
                    groups = [one for one in groups if self._owns(one, name, part.partition)]
                for group in groups:
                    moved.setdefault(group, {})[f"{name}-{part.partition}"] = part.fetch_offset
        for group, found in moved.items():
            details = {"client_id": client_id, "offsets": _some(found)}
            self._note(group, "reads-from", details=details)

    def _client(self, client_id: str) -> _Client:
        client = self._clients.get(client_id)
        if client is None:
            client = self._clients[client_id] = _Client()
            if len(self._clients) > CLIENTS_MAX:
                self._clients.popitem(last=False)
        return client

    def _note(self, group: str, event: str, **given: Any) -> None:
        self._history.note(group, event, self._now().wall_ms, **given)

    def _name(self, topic_id: TopicId, name: str) -> str:
        if name:
            return name
        topic = self._catalogue().topic_by_id(topic_id)
        return topic_id.hex() if topic is None else topic.name


class _Client:
    """What is known about one client id: the groups that it has named, and its position in each
    partition."""

    PLACES_MAX = 10_000

    def __init__(self) -> None:
        self.groups: OrderedDict[str, None] = OrderedDict()
        self._positions: dict[tuple[str, int], int] = {}

    def add(self, group: str) -> None:
        self.groups[group] = None
        if len(self.groups) > GROUPS_OF_A_CLIENT:
            self.groups.popitem(last=False)

    def moves(self, place: tuple[str, int], offset: int) -> bool:
        """Whether the client now reads the partition from another offset than before."""
        before = self._positions.get(place)
        if before == offset or (before is None and len(self._positions) >= self.PLACES_MAX):
            return False
        self._positions[place] = offset
        return True


def _some(found: Mapping[str, object]) -> dict[str, object]:
    """The first `PARTITIONS_SHOWN` entries, and under "more" how many were left out."""
    items: Iterable[tuple[str, object]] = list(found.items())[:PARTITIONS_SHOWN]
    left_out = len(found) - PARTITIONS_SHOWN
    return {**dict(items), **({"more": left_out} if left_out > 0 else {})}
