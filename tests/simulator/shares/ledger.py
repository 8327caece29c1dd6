"""Who has got which record, and what members were told about their acknowledgements. It knows
nothing of how the product keeps records: it is told of acquisitions, of requests as they come to a
node, and of replies as they leave.

The rules, for each era of a share-partition (see `states`): nobody gets a record that another
member holds; nobody gets a record again once an acknowledgement that ends it was answered without
error; a record is accepted once; delivery counts stay within the limit, and do not go below what
was made durable; nobody gets a record below the start. A leader that does not know of a new era yet
may deliver in the old one, but no acknowledgement ends anything there
(docs/spec/share-group.md#SG-106).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from groupd.coordinator.topics.topic import log_name
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
from tests.simulator.shares.states import (
    Era,
    Holding,
    LedgerRecord,
    Place,
    ShareStates,
    name_of,
)
from tests.simulator.world import Violation, World

CLOCK_SHARE = 0.95
"""A lock lasts at least for this share of its time, by true time: a node's clock may be fast."""

ENDS = (ACCEPT, GAP, REJECT)


class Acknowledged(Struct, frozen=True):
    """An acknowledgement of one record, as it has come to a node at `at_ms`. `holding`: the
    delivery of `record` that it is about; None if another member has got the record since, or
    nobody."""

    place: Place
    offset: int
    kind: int
    at_ms: int
    record: LedgerRecord | None = None
    holding: Holding | None = None


class ShareLedger:
    """`lock_ms`, `limit`: settings of all groups. `leads(node id, topic id, partition)`: whether a
    node may give records of a partition to members now."""

    def __init__(
        self,
        world: World,
        states: ShareStates,
        lock_ms: int,
        limit: int,
        leads: Callable[[int, TopicId, int], bool],
    ) -> None:
        self.acquisitions = self.accepts = 0
        self.at_rest = False
        """Nothing may be delivered any more."""
        self._world = world
        self._states = states
        self._eras: dict[object, Era] = {}
        """By leader."""
        self._last: dict[Place, dict[int, LedgerRecord]] = {}
        """By share-partition and offset: the record as it was delivered last."""
        self._lock_ms = int(lock_ms * CLOCK_SHARE)
        self._limit = limit
        self._leads = leads
        self._held: dict[tuple[int, str], list[Holding]] = {}

    # Acquisitions

    def loaded(self, leader: object, place: Place, state_epoch: int) -> None:
        """A leader has read the state of a share-partition."""
        era = self._states.with_epoch(place, state_epoch)
        if era is None:
            raise Violation(f"{name_of(place)}: no state has epoch {state_epoch}")
        self._eras[leader] = era

    def acquired(
        self,
        node_id: int,
        leader: object,
        place: Place,
        member: str,
        ranges: Sequence[AcquiredRecords],
    ) -> None:
        if ranges and not self._leads(node_id, *place[1:]):
            raise Violation(f"{name_of(place)}: node {node_id} gives records and does not lead")
        era, last = self._eras[leader], self._last.setdefault(place, {})
        for one in ranges:
            if one.first_offset < era.start_offset:
                raise Violation(f"{name_of(place)} at {one.first_offset}: below the start")
            for offset in range(one.first_offset, one.last_offset + 1):
                record = last[offset] = era.record(offset)
                why = self._acquire(node_id, leader, record, member, one.delivery_count)
                if why:
                    raise Violation(f"{name_of(place)} at {offset}: {member} gets it {why}")

    def _acquire(
        self, node_id: int, leader: object, record: LedgerRecord, member: str, count: int
    ) -> str:
        """Why the member must not get the record; "" if it may."""
        self.acquisitions += 1
        before = record.holding
        if self.at_rest:
            return "after everything was over"
        if record.ended:
            return f"(x{count}) although it was {record.ended}"
        if before is not None and self._holds(before, leader):
            return f"(x{count}) while {before.member} holds it"
        if not record.least < count <= self._limit:
            return f"x{count}; x{record.least} is durable, the limit {self._limit}"
        record.most = max(record.most, count)
        record.holding = Holding(member, leader, node_id, self._world.now_ms, count)
        self._held.setdefault((node_id, member), []).append(record.holding)
        return ""

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
        record = self._last.get(place, {}).get(offset)
        holding = None if record is None else record.holding
        if record is None or holding is None or holding.member != member:
            return Acknowledged(place, offset, kind, self._world.now_ms)
        if kind != RENEW:
            holding.given_back = True
        if kind in ENDS:
            record.may_be_over = True
        return Acknowledged(place, offset, kind, self._world.now_ms, record, holding)

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
                raise Violation(f"{name_of(one.place)}: an acknowledgement has no result")
            if error is ErrorCode.NONE:
                self._done(one, request.member_id)

    def _done(self, one: Acknowledged, member: str) -> None:
        """A member was told that its acknowledgement is durable."""
        record, holding = one.record, one.holding
        if record is None or holding is None:
            return
        name = f"{name_of(one.place)} at {one.offset}"
        if one.kind in ENDS:
            if record.holding is not holding:
                raise Violation(
                    f"{name}: {member} is told that its acknowledgement {one.kind} is durable, but "
                    f"{_member(record.holding)} has got the record since"
                )
            if not record.ended:  # otherwise it is over already, and this one changes nothing
                self._check_era(one, holding)
            if one.kind == ACCEPT:
                if record.accepted not in (None, holding):
                    raise Violation(f"{name}: accepted twice, now by {member}")
                record.accepted = holding
                self.accepts += 1
            record.ended = "accepted" if one.kind == ACCEPT else "rejected"
        elif record.holding is holding:
            if one.kind == RELEASE:
                record.least = max(record.least, holding.count)
            elif not holding.given_back:
                holding.since_ms = max(holding.since_ms, one.at_ms)

    def _check_era(self, one: Acknowledged, holding: Holding) -> None:
        """An acknowledgement that is answered must count. What is below the start of an era since,
        or of the log, is over anyhow."""
        era, now = self._eras[holding.leader], self._states.now.get(one.place)
        log_start, _ = self._states.store.end_of(log_name(*one.place[1:]))
        if now is era or self._states.is_deleted(one.place) or one.offset < log_start:
            return
        since_ms = self._states.ended_ms[one.place] if now is None else now.since_ms
        if since_ms < one.at_ms and self._states.reached_since(one.place, era) <= one.offset:
            raise Violation(
                f"{name_of(one.place)} at {one.offset}: an acknowledgement of {holding.member} is "
                f"answered, but it belongs to the state with epoch {era.state_epoch} of earlier"
            )

    # The end

    def is_behind(self, leader: object, place: Place) -> bool:
        """Whether a leader does not know of the present era."""
        return self._eras[leader] is not self._states.now.get(place)

    def lost(self, place: Place, start: int, end: int) -> str:
        """Why not all records of the log, from `start` to the offset `end`, are delivered or
        archived; "" if they are."""
        era = self._states.now.get(place)
        if era is None:
            return f"{name_of(place)}: has no state" if end else ""
        for offset in range(max(start, era.start_offset), end):
            record = era.record(offset)
            if not record.most:
                return f"{name_of(place)} at {offset}: nobody has ever got it"
            if not record.ended and not record.may_be_over and record.most < self._limit:
                return f"{name_of(place)} at {offset}: delivered x{record.most}, and not ended"
        return ""


def _each(batch: AcknowledgementBatch) -> Iterator[tuple[int, int]]:
    offsets = range(batch.first_offset, batch.last_offset + 1)
    types = batch.types * len(offsets) if len(batch.types) == 1 else batch.types
    return zip(offsets, types, strict=True)


def _member(holding: Holding | None) -> str:
    return "nobody" if holding is None else f"{holding.member} (x{holding.count})"
