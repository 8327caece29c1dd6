"""Notes in the history of each group what its clients do: what they commit and fetch, where they
read, and which faults hit them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from groupd.coordinator.core.types import Instant
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
from groupd.testing.history import History

PARTITIONS_SHOWN = 20
CLIENTS_MAX = 1000
GROUPS_OF_A_CLIENT = 20

Commit = OffsetCommitRequest | TxnOffsetCommitRequest


class ClientObserver:
    """Watches requests and replies. `owns(group, topic, partition)`: whether a member of the group
    owns the partition."""

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
        """A request of any kind has come in."""
        if isinstance(request, FetchRequest):
            client = self._clients.get(client_id)
            if client is not None:
                self._note_positions(client_id, client, request)
            return
        for group in groups_of(request):
            self._client(client_id).add(group)

    def replied(self, request: Any, reply: Any) -> None:
        """The broker has answered one of the requests in `OBSERVED`."""
        if isinstance(request, OffsetFetchRequest):
            self._note_fetched(request, reply)
        else:
            self._note_commit(request, reply)

    def faulted(self, request: Any, fault: int, spec: FaultSpec, api: str) -> None:
        """A fault has hit a request."""
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
        from its position, so it has got the records before that. A Fetch names no group: the
        client's own group is meant, and if the client has several, the one that owns the
        partition."""
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
    """What is known of one client id: the groups that it has named, and its position in each
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
