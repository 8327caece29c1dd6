"""The durable state of share-partitions, as it stands in the logs of the share coordinator.

An *era* of a share-partition begins when its state is initialized, and ends when it is initialized
anew or deleted. What was delivered in one era counts for nothing in the next one, so a new era
needs a reason: that there was no state, or an operation of an administrator, or that a member's
heartbeat repeats an initialization before anything was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, field

from groupd.coordinator.runtime.coordinator_types import SHARE_TOPIC
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.groups import DeleteGroupsRequest
from groupd.protocol.messages.share_group import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
)
from groupd.protocol.records.batch import iter_batches, iter_records
from groupd.protocol.records.share_state_records import ShareSnapshot, decode_record
from groupd.storage.log import Append
from tests.simulator.shares.store import SharedStore
from tests.simulator.world import Violation, World

Place = tuple[str, TopicId, int]
"""A share-partition: group, topic id, partition."""

FROM_THE_START = (-1, 0)
"""The start offsets with which heartbeats initialize partitions."""


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
    """One record of a share-partition in one era. `ended`: what a member was told of it, "" if
    nothing. `accepted`: the delivery that was accepted. `may_be_over`: an acknowledgement that ends
    it has come to a node. `least`: the highest delivery count that is durable. `most`: of all
    deliveries."""

    holding: Holding | None = None
    ended: str = ""
    accepted: Holding | None = None
    may_be_over: bool = False
    least: int = 0
    most: int = 0


class Operation(Struct, eq=False):
    """A request of an administrator, as it has come to a node. `offsets`: those of an
    AlterShareGroupOffsets, by name of the topic and partition. `names`: the topics of a
    DeleteShareGroupOffsets; None: all topics. `used`: where it has had its effect. `refused`: it
    can have none. `refusable`: there is a member for sure, so it must be refused. `over`: it will
    not have any effect any more."""

    group_id: str
    asked_ms: int
    alters: bool
    offsets: dict[tuple[str, int], int] = field(default_factory=dict)
    names: frozenset[str] | None = None
    used: set[Place] = field(default_factory=set)
    refused: bool = False
    refusable: bool = False
    over: bool = False


class Era(Struct, eq=False):
    """`start_offset`: of the initialization, -1: where the group's settings say. `answered`: an
    administrator was told that it begins there. `reached`: the highest start offset since."""

    state_epoch: int
    start_offset: int
    since_ms: int
    answered: bool = False
    reached: int = -1
    records: dict[int, LedgerRecord] = field(default_factory=dict)

    @property
    def is_begun(self) -> bool:
        """Whether acknowledgements were answered that end records."""
        return any(one.ended for one in self.records.values())

    def record(self, offset: int) -> LedgerRecord:
        found = self.records.get(offset)
        if found is None:
            found = self.records[offset] = LedgerRecord()
        return found


class ShareStates:
    """`has_member(group id)`: whether the group has a member for sure. The names of topics are
    never forgotten."""

    def __init__(self, world: World, has_member: Callable[[str], bool]) -> None:
        self.store: SharedStore
        self.now: dict[Place, Era] = {}
        """The present era of each share-partition that has a state."""
        self.ended_ms: dict[Place, int] = {}
        """When the state of a share-partition was deleted last."""
        self._eras: dict[Place, list[Era]] = {}
        self._operations: list[Operation] = []
        self._settled: dict[Place, int] = {}
        """When the last operation came that was answered without error. Earlier ones must have no
        effect any more."""
        self._world = world
        self._has_member = has_member

    def with_epoch(self, place: Place, state_epoch: int) -> Era | None:
        """The last era that began with this state epoch."""
        eras = self._eras.get(place, ())
        return next((one for one in reversed(eras) if one.state_epoch == state_epoch), None)

    def reached_since(self, place: Place, era: Era) -> int:
        """The highest start offset in this era and those after it. A leader that has loaded one of
        them, perhaps not the last one, takes what is below for over."""
        eras = self._eras[place]
        since = eras[eras.index(era) :]
        return max(max(one.start_offset, one.reached) for one in since)

    def is_deleted(self, place: Place) -> bool:
        """Whether the topic does not exist any more."""
        return self.store.is_deleted(place[1])

    # What becomes durable

    def appended(self, batch: Append) -> None:
        if not batch.name.startswith(SHARE_TOPIC):
            return
        for one in iter_batches(batch.payload):
            for record in iter_records(one):
                key, value = decode_record(record.key or b"", record.value)
                place = key.group_id, key.topic_id, key.partition
                if value is None:
                    self._ended(place)
                    continue
                if isinstance(value, ShareSnapshot):
                    self._snapshot(place, value)
                if (era := self.now.get(place)) is not None:
                    era.reached = max(era.reached, value.start_offset)

    def _ended(self, place: Place) -> None:
        if self.now.pop(place, None) is None or self.is_deleted(place):
            return
        self.ended_ms[place] = self._world.now_ms
        cause = next((one for one in self._pending(place) if not one.alters), None)
        if cause is None:
            raise Violation(f"{name_of(place)}: its state is deleted without a request")
        cause.used.add(place)
        self._world.trace("state is deleted", name_of(place))

    def _snapshot(self, place: Place, value: ShareSnapshot) -> None:
        before = self.now.get(place)
        if before is not None and value.state_epoch == before.state_epoch:
            if value.start_offset < before.reached and (before.is_begun or before.answered):
                raise Violation(
                    f"{name_of(place)}: begins anew at {value.start_offset}, with the same epoch"
                )
            return
        if before is not None and value.state_epoch < before.state_epoch:
            raise Violation(
                f"{name_of(place)}: state epoch {before.state_epoch} becomes {value.state_epoch}"
            )
        era = Era(value.state_epoch, value.start_offset, self._world.now_ms)
        topic_name = self.store.names[place[1]]
        for one in self._pending(place):
            if one.alters and one.offsets[topic_name, place[2]] == era.start_offset:
                one.used.add(place)
                break
        else:
            self._check_reason(place, before, era)
        self._world.trace(
            "state begins", name_of(place), f"epoch {era.state_epoch} at {era.start_offset}"
        )
        self.now[place] = era
        self._eras.setdefault(place, []).append(era)

    def _check_reason(self, place: Place, before: Era | None, era: Era) -> None:
        """Whether an era may begin for which no administrator has asked."""
        if self.is_deleted(place):
            return  # the node does not know it yet
        if era.start_offset not in FROM_THE_START:
            raise Violation(
                f"{name_of(place)}: begins at {era.start_offset}, for which nobody has asked"
            )
        if before is None or not (before.answered or before.is_begun):
            return
        # A deletion that was written down before its call failed: a member may initialize then.
        cause = next((one for one in self._pending(place) if not one.alters), None)
        if cause is None:
            why = "records were acknowledged" if before.is_begun else "its start was altered"
            raise Violation(f"{name_of(place)}: begins anew at {era.start_offset}, although {why}")
        cause.used.add(place)

    def _pending(self, place: Place) -> Iterator[Operation]:
        """The operations that may still have an effect on a share-partition."""
        group_id, topic_id, partition = place
        name, settled_ms = self.store.names[topic_id], self._settled.get(place, -1)
        for one in self._operations:
            if one.alters:
                covers = (name, partition) in one.offsets
            else:
                covers = one.names is None or name in one.names
            if (
                covers
                and one.group_id == group_id
                and one.asked_ms > settled_ms
                and not one.refused
                and place not in one.used
            ):
                yield one

    # What administrators ask, and what they are told

    def asked(self, request: Any) -> Operation | None:
        """A request has come to a node; None if it is none about states."""
        if isinstance(request, AlterShareGroupOffsetsRequest):
            made = Operation(request.group_id, self._world.now_ms, alters=True)
            made.offsets = {
                (topic.name, partition): offset
                for topic in request.topics
                for partition, offset in topic.partitions
            }
        elif isinstance(request, DeleteShareGroupOffsetsRequest):
            made = Operation(request.group_id, self._world.now_ms, alters=False)
            made.names = frozenset(request.topics)
        elif isinstance(request, DeleteGroupsRequest):
            made = Operation(request.group_ids[0], self._world.now_ms, alters=False)
        else:
            return None
        made.refusable = self._has_member(made.group_id)
        self._operations.append(made)
        return made

    def may_change(self) -> bool:
        """Whether an operation of earlier may still have an effect."""
        return not all(one.over for one in self._operations)

    def answered(self, operation: Operation, reply: Any) -> None:
        """The reply to an operation leaves a node."""
        deletes_group = not operation.alters and operation.names is None
        error = reply.results[0].error if deletes_group else reply.error
        # A group that has got members while its states were deleted is not deleted.
        final = (ErrorCode.GROUP_ID_NOT_FOUND,) if deletes_group else _REFUSED
        operation.refused = error in final
        operation.over = operation.refused or error is ErrorCode.NONE
        if error is not ErrorCode.NONE:
            return
        if operation.refusable:
            raise Violation(f"{operation.group_id} has a member, but its offsets are changed")
        if operation.alters:
            for topic in reply.topics:
                for one in topic.partitions:
                    if one.error is ErrorCode.NONE:
                        self._altered(
                            operation, (operation.group_id, topic.topic_id, one.partition)
                        )
        elif operation.names is None:
            for place in [place for place in self._eras if place[0] == operation.group_id]:
                self._deleted(operation, place, begun_since=False)
        else:
            done = {topic.topic_id for topic in reply.topics if topic.error is ErrorCode.NONE}
            for place in self._eras:
                if place[0] == operation.group_id and place[1] in done:
                    self._deleted(operation, place, begun_since=True)

    def _altered(self, operation: Operation, place: Place) -> None:
        if self.is_deleted(place):
            return
        offset = operation.offsets[self.store.names[place[1]], place[2]]
        made = [
            one
            for one in self._eras.get(place, ())
            if one.start_offset == offset and one.since_ms >= operation.asked_ms
        ]
        if not made:
            raise Violation(f"{name_of(place)}: a new offset is answered that is not durable")
        made[-1].answered = True
        self._settle(operation, place)

    def _deleted(self, operation: Operation, place: Place, *, begun_since: bool) -> None:
        """`begun_since`: members may have joined since, so that a new era began."""
        era = self.now.get(place)
        if era is not None and not self.is_deleted(place):
            if not begun_since:
                raise Violation(f"{name_of(place)}: the group is deleted, but has a state")
            if era.since_ms < operation.asked_ms:
                raise Violation(f"{name_of(place)}: the state that was to be deleted is there")
        self._settle(operation, place)

    def _settle(self, operation: Operation, place: Place) -> None:
        self._settled[place] = max(self._settled.get(place, -1), operation.asked_ms)


_REFUSED = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP)


def name_of(place: Place) -> str:
    group, topic_id, partition = place
    return f"{group} {topic_id[:2].hex()}-{partition}"
