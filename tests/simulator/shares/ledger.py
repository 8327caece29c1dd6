"""Who has got which record, and what members were told about their acknowledgements. It knows
nothing of how the product keeps records: it is told of acquisitions, of requests as they come to a
node, and of replies as they leave.

The rules: nobody gets a record that another member holds; nobody gets a record again once an
acknowledgement that ends it was answered without error; a record is accepted once; delivery counts
stay within the limit, and do not go below what was made durable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.share_fetch import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    AcknowledgementBatch,
    AcquiredRecords,
    ShareAcknowledgeReply,
    ShareAcknowledgeRequest,
    ShareFetchReply,
    ShareFetchRequest,
)
from tests.simulator.world import Violation, World

Place = tuple[str, TopicId, int]
"""A share-partition: group, topic id, partition."""

CLOCK_SHARE = 0.95
"""A lock lasts at least for this share of its time, by true time: a node's clock may be fast."""

ENDS = (ACCEPT, GAP, REJECT)


class Holding(Struct, eq=False):
    """A record that a member has acquired. `leader`: the leader that has given it, for one time of
    leading. `given_back`: the member may not hold it any more."""

    member: str
    leader: object
    node_id: int
    since_ms: int
    count: int
    given_back: bool = False


class LedgerRecord(Struct, eq=False):
    """One record of a share-partition. `ended`: what a member was told of it, "" if nothing.
    `accepted`: the delivery that was accepted. `may_be_over`: an acknowledgement that ends it has
    come to a node. `least`: the highest delivery count that is durable. `most`: of all
    deliveries."""

    holding: Holding | None = None
    ended: str = ""
    accepted: Holding | None = None
    may_be_over: bool = False
    least: int = 0
    most: int = 0


class Acknowledged(Struct, frozen=True):
    """An acknowledgement of one record, as it has come to a node at `at_ms`. `holding`: the
    delivery that it is about; None if another member has got the record since, or nobody."""

    place: Place
    offset: int
    kind: int
    at_ms: int
    holding: Holding | None


class ShareLedger:
    """`lock_ms`, `limit`: settings of all groups. `leads(node id, topic id, partition)`: whether a
    node may give records of a partition to members now."""

    def __init__(
        self,
        world: World,
        lock_ms: int,
        limit: int,
        leads: Callable[[int, TopicId, int], bool],
    ) -> None:
        self.places: dict[Place, dict[int, LedgerRecord]] = {}
        self.acquisitions = self.accepts = 0
        self.at_rest = False
        """Nothing may be delivered any more."""
        self._world = world
        self._lock_ms = int(lock_ms * CLOCK_SHARE)
        self._limit = limit
        self._leads = leads
        self._held: dict[tuple[int, str], list[Holding]] = {}

    def record(self, place: Place, offset: int) -> LedgerRecord:
        records = self.places.setdefault(place, {})
        found = records.get(offset)
        if found is None:
            found = records[offset] = LedgerRecord()
        return found

    # Acquisitions

    def acquired(
        self,
        node_id: int,
        leader: object,
        place: Place,
        member: str,
        ranges: Sequence[AcquiredRecords],
    ) -> None:
        if ranges and not self._leads(node_id, *place[1:]):
            raise Violation(f"{_name(place)}: node {node_id} gives records and does not lead")
        for one in ranges:
            for offset in range(one.first_offset, one.last_offset + 1):
                self._acquire(node_id, leader, place, member, offset, one.delivery_count)

    def _acquire(
        self, node_id: int, leader: object, place: Place, member: str, offset: int, count: int
    ) -> None:
        self.acquisitions += 1
        record = self.record(place, offset)
        name = f"{_name(place)} at {offset}"
        before = record.holding
        if self.at_rest:
            raise Violation(f"{name}: {member} gets it after everything was over")
        if record.ended:
            raise Violation(f"{name}: {member} gets it (x{count}) although it was {record.ended}")
        if before is not None and self._holds(before, leader):
            raise Violation(f"{name}: {member} gets it (x{count}) while {before.member} holds it")
        if not record.least < count <= self._limit:
            raise Violation(
                f"{name}: delivered x{count}; x{record.least} is durable, the limit {self._limit}"
            )
        record.most = max(record.most, count)
        record.holding = Holding(member, leader, node_id, self._world.now_ms, count)
        self._held.setdefault((node_id, member), []).append(record.holding)

    def _holds(self, holding: Holding, leader: object) -> bool:
        """Whether a member holds a record for sure. Another leader does not know of its lock."""
        over_ms = holding.since_ms + self._lock_ms
        same = holding.leader is leader and not holding.given_back
        return same and self._world.now_ms < over_ms

    def session_over(self, node_id: int, member: str) -> None:
        """A member's session at a node ends: what it holds there is given back."""
        for holding in self._held.pop((node_id, member), ()):
            holding.given_back = True

    # Acknowledgements

    def handled(self, node_id: int, request: Any) -> list[Acknowledged]:
        """A request comes to a node. Returns what it acknowledges."""
        if not isinstance(request, ShareFetchRequest | ShareAcknowledgeRequest):
            return []
        found: list[Acknowledged] = []
        for topic in request.topics:
            for asked in topic.partitions:
                place = request.group_id or "", topic.topic_id, asked.partition
                for batch in asked.batches:
                    for offset, kind in _each(batch):
                        found.append(self._asked(place, offset, kind, request.member_id or ""))
        if request.session_epoch == -1:
            self.session_over(node_id, request.member_id or "")
        return found

    def _asked(self, place: Place, offset: int, kind: int, member: str) -> Acknowledged:
        record = self.record(place, offset)
        holding = record.holding
        if holding is None or holding.member != member:
            return Acknowledged(place, offset, kind, self._world.now_ms, None)
        if kind != RENEW:
            holding.given_back = True
        if kind in ENDS:
            record.may_be_over = True
        return Acknowledged(place, offset, kind, self._world.now_ms, holding)

    def answered(self, request: Any, asked: Sequence[Acknowledged], reply: Any) -> None:
        """A reply leaves a node."""
        if not asked or reply.error is not ErrorCode.NONE:
            return
        errors: dict[tuple[TopicId, int], ErrorCode] = {}
        if isinstance(reply, ShareFetchReply):
            for fetched in reply.topics:
                for some in fetched.partitions:
                    errors[fetched.topic_id, some.partition] = some.acknowledge_error
        elif isinstance(reply, ShareAcknowledgeReply):
            for results in reply.topics:
                for result in results.partitions:
                    errors[results.topic_id, result.partition] = result.error
        for one in asked:
            error = errors.get(one.place[1:])
            if error is None:
                raise Violation(f"{_name(one.place)}: an acknowledgement has no result")
            if error is ErrorCode.NONE:
                self._done(one, request.member_id)

    def _done(self, one: Acknowledged, member: str) -> None:
        """A member was told that its acknowledgement is durable."""
        record, holding = self.record(one.place, one.offset), one.holding
        name = f"{_name(one.place)} at {one.offset}"
        if one.kind in ENDS:
            if holding is not None and record.holding is not holding:
                raise Violation(
                    f"{name}: {member} is told that its acknowledgement {one.kind} is durable, but "
                    f"{_member(record.holding)} has got the record since"
                )
            if one.kind == ACCEPT and holding is not None:
                if record.accepted not in (None, holding):
                    raise Violation(f"{name}: accepted twice, now by {member}")
                record.accepted = holding
                self.accepts += 1
            record.ended = "accepted" if one.kind == ACCEPT else "rejected"
        elif holding is not None and record.holding is holding:
            if one.kind == RELEASE:
                record.least = max(record.least, holding.count)
            elif not holding.given_back:
                holding.since_ms = max(holding.since_ms, one.at_ms)

    # The end

    def lost(self, place: Place, end: int) -> str:
        """Why not all records below the offset `end` are delivered or archived; "" if they are."""
        for offset in range(end):
            record = self.record(place, offset)
            if not record.most:
                return f"{_name(place)} at {offset}: nobody has ever got it"
            if not record.ended and not record.may_be_over and record.most < self._limit:
                return f"{_name(place)} at {offset}: delivered x{record.most}, and not ended"
        return ""


def _each(batch: AcknowledgementBatch) -> Iterator[tuple[int, int]]:
    offsets = range(batch.first_offset, batch.last_offset + 1)
    types = batch.types * len(offsets) if len(batch.types) == 1 else batch.types
    return zip(offsets, types, strict=True)


def _name(place: Place) -> str:
    group, topic_id, partition = place
    return f"{group} {topic_id[-1]}-{partition}"


def _member(holding: Holding | None) -> str:
    return "nobody" if holding is None else f"{holding.member} (x{holding.count})"
