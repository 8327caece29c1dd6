"""Share groups in a shard: what replay makes of records, answers that come late, many groups whose
topics are deleted, and what logs and pages show. The rules are in `tests/scenarios`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.errors import ReplayError
from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage, TopicImage
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.shard_requests import DeleteGroup
from groupd.coordinator.core.share_group import records
from groupd.coordinator.core.share_group.group import DELETED_TOPICS, ShareGroup
from groupd.coordinator.core.share_group.member import ShareGroupMember
from groupd.coordinator.core.share_group.offsets import SHARE_STATE_DELETION
from groupd.coordinator.core.share_group.soft_state import ShareSoftState, soft_of
from groupd.coordinator.core.share_group.state_partitions import StatePartitions
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import (
    AppliedAt,
    EventKind,
    Instant,
    Outcome,
    OutsideCall,
    RequestContext,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.share_group import (
    AlteredShareTopic,
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    ShareGroupHeartbeatRequest,
)
from groupd.protocol.messages.share_state import (
    ShareStateReply,
    ShareStateResult,
    ShareStateTopic,
)
from groupd.protocol.records.schema import Record
from tests.support.inspected import inspect_group

NOW = Instant(1_000, 1_700_000_000_000)
FOO, BAR = b"f" * 16, b"b" * 16
IMAGE = MetadataImage([TopicImage(FOO, "foo", 2), TopicImage(BAR, "bar", 1)], version=1)


class Shard:
    """A shard whose records are applied at once. `calls`: those that nobody has answered."""

    def __init__(self, image: MetadataImage = IMAGE, **config: Any) -> None:
        settings = CoordinatorConfig(share_assignment_interval_ms=0, **config)
        self.log: list[Record] = []
        self.calls: list[OutsideCall] = []
        self.replies: list[Any] = []
        self.shard = GroupCoordinatorShard(ShardState(settings, lambda: "id", {}, image=image))

    @property
    def state(self) -> ShardState:
        return self.shard.state

    def group(self, group_id: str = "g") -> ShareGroup:
        group = self.state.groups[group_id]
        assert isinstance(group, ShareGroup)
        return group

    def put(self, records: Sequence[Record]) -> None:
        for record in records:
            self.shard.replay(record, AppliedAt(len(self.log)))
            self.log.append(record)

    def settle(self, outcome: Outcome) -> Outcome:
        self.put(outcome.records)
        self.calls += outcome.calls
        self.replies += [reply for _, reply in outcome.replies]
        return outcome

    def request(self, request: Any, now: Instant = NOW) -> Outcome:
        return self.settle(self.shard.handle(RequestContext(7, 1, "client"), request, now))

    def beat(self, epoch: int, *names: str, member: str = "m", group: str = "g") -> Any:
        request = ShareGroupHeartbeatRequest(group, member, epoch, None, names or None)
        self.request(request)
        return self.replies[-1]

    def answer(self, answer: Any = None) -> Outcome:
        """Answers the oldest call, by default without errors."""
        call = self.calls.pop(0)
        if answer is None:
            deletion = call.whom == SHARE_STATE_DELETION
            answer = ErrorCode.NONE if deletion else done(call.request)
        return self.settle(self.shard.answered(call, answer, NOW))

    def loaded(self) -> Shard:
        """Another shard that has read the same log."""
        other = Shard(self.state.image)
        other.put(self.log)
        other.settle(other.shard.on_loaded(NOW))
        return other

    def due(self, kind: str) -> list[DeadlineKey]:
        keys = [key for key, at_ms in self.state.deadlines.items() if at_ms <= NOW.monotonic_ms]
        return [key for key in keys if key[0] == kind]


def done(request: Any, error: ErrorCode = ErrorCode.NONE) -> ShareStateReply:
    return ShareStateReply(
        [
            ShareStateTopic(
                topic.topic_id,
                [
                    ShareStateResult(one if isinstance(one, int) else one.partition, error)
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@pytest.fixture
def shard() -> Shard:
    """Group g with member m, which has all of foo."""
    made = Shard()
    made.beat(0, "foo")
    made.answer()
    made.beat(2)
    return made


def shown(group: ShareGroup) -> tuple[Any, ...]:
    return (
        group.group_epoch,
        group.assignment_epoch,
        group.assignment_timestamp_ms,
        group.metadata_hash,
        group.members,
        group.targets,
        group.state_partitions,
        group.name_subscribers,
    )


def test_a_log_gives_the_same_group_again(shard: Shard) -> None:
    assert shown(shard.loaded().group()) == shown(shard.group())
    assert dict(shard.group().members["m"].assigned) == {FOO: (0, 1)}


def test_records_in_another_order_after_a_compaction(shard: Shard) -> None:
    """Of each key only the last record is there, and tombstones of things that are gone."""
    latest = {record.key: record for record in shard.log}
    other = Shard()
    other.put([records.current_member_tombstone("g", "x"), records.group_epoch_tombstone("h")])
    other.put(sorted(latest.values(), key=lambda record: type(record.key).__name__))
    assert shown(other.group()) == shown(shard.group())


GONE = [
    records.group_epoch_tombstone("g"),
    records.member_metadata_tombstone("g", "m"),
    records.target_epoch_tombstone("g"),
]


@pytest.mark.parametrize("record", GONE, ids=lambda record: type(record.key).__name__)
def test_records_that_contradict_the_group_fail_the_shard(shard: Shard, record: Record) -> None:
    with pytest.raises(ReplayError):
        shard.put([record])


def test_a_member_with_a_target_and_a_group_of_another_type(shard: Shard) -> None:
    shard.put([records.current_member_tombstone("g", "m")])
    with pytest.raises(ReplayError, match="with a target"):
        shard.put([records.member_metadata_tombstone("g", "m")])
    empty = Shard()
    empty.put([records.group_epoch("h", 2, 0)])
    with pytest.raises(ReplayError, match="before its target"):
        empty.put([records.group_epoch_tombstone("h")])
    consumer = Shard()
    consumer.state.groups["g"] = consumer.state.simple_group("g")
    with pytest.raises(ReplayError, match="not a share group"):
        consumer.put([records.group_epoch("g", 2, 0)])


def test_an_answer_that_comes_after_the_topic_was_deleted(shard: Shard) -> None:
    shard.beat(3, "foo", "bar")
    left = MetadataImage([IMAGE.by_name["foo"]], version=2)
    shard.settle(shard.shard.on_metadata(MetadataDelta(left, deleted=(("bar", BAR),)), NOW))
    (key,) = shard.due(DELETED_TOPICS)
    shard.settle(shard.shard.expire(key, NOW))
    assert shard.answer().records == [], "bar is not initializing any more"
    assert dict(shard.group().initialized) == {FOO: frozenset({0, 1})}


ALTER = AlterShareGroupOffsetsRequest("g", (AlteredShareTopic("foo", ((0, 5),)),))
DELETE_OFFSETS = DeleteShareGroupOffsetsRequest("g", ("foo",))
DELETE_GROUP = DeleteGroup("g")
CHANGES = (ALTER, DELETE_OFFSETS, DELETE_GROUP)


def refused(shard: Shard, request: Any) -> bool:
    """Whether the client is to try again."""
    try:
        shard.request(request)
    except ApiError as error:
        return error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return False


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: type(one).__name__)
def test_a_change_of_offsets_waits_until_a_heartbeat_has_its_answer(change: Any) -> None:
    """What the share coordinator begins after it has deleted the state would be left over, with a
    state epoch that fences the next group of that name."""
    shard = asked_twice()
    shard.beat(-1)
    before = len(shard.log)
    for _ in list(shard.calls):
        assert refused(shard, change)
        shard.answer()
    assert not refused(shard, change)
    assert len(shard.calls) == 1
    assert before < len(shard.log)


@pytest.mark.parametrize("change", CHANGES, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("answer", [None, ApiError(ErrorCode.NOT_COORDINATOR)], ids=str)
def test_while_offsets_are_changed_nothing_else_begins(
    shard: Shard, change: Any, answer: Any
) -> None:
    """A deletion that is tried again would delete what was initialized meanwhile, and what was
    initialized after a deletion would be left over."""
    shard.beat(-1)
    shard.request(change)
    join = ShareGroupHeartbeatRequest("g", "m", 0, None, ("foo",))
    before = len(shard.log)
    assert all(refused(shard, other) for other in (join, *CHANGES))
    assert (len(shard.log), len(shard.calls)) == (before, 1)
    shard.answer(answer)
    assert not refused(shard, join)
    assert shard.beat(0, "foo", member="n", group="h").error is ErrorCode.NONE


def asked_twice() -> Shard:
    """Two calls about foo are under way, the second one because the first takes so long."""
    shard = Shard()
    shard.beat(0, "foo")
    later = Instant(NOW.monotonic_ms + 30_000, NOW.wall_ms)
    shard.request(ShareGroupHeartbeatRequest("g", "m", 2), later)
    assert len(shard.calls) == 2
    return shard


def test_members_get_partitions_only_once_no_call_can_begin_their_state_anew() -> None:
    """What members had acknowledged after the first answer would be lost with the second call,
    which has a higher state epoch or another start offset (the simulator has found it)."""
    shard = asked_twice()
    assert shard.answer().records == []
    assert not shard.group().initialized
    shard.answer()
    assert shard.group().initialized == {FOO: frozenset({0, 1})}
    assert not soft_of(shard.state).unanswered


def test_a_heartbeat_whose_records_are_refused_is_not_waited_for() -> None:
    """A record may be too large for the log; then the call is never made, but answered."""
    shard = Shard()
    request = ShareGroupHeartbeatRequest("g", "m0", 0, None, ("foo", "long" * 1000))
    (call,) = shard.shard.handle(RequestContext(7, 1, "client"), request, NOW).calls
    shard.shard.answered(call, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR), NOW)
    shard.beat(0, "foo")
    later = Instant(NOW.monotonic_ms + 30_000, NOW.wall_ms)
    shard.request(ShareGroupHeartbeatRequest("g", "m", 2), later)
    for _ in list(shard.calls):
        shard.answer()
    assert shard.group().initialized == {FOO: frozenset({0, 1})}
    assert not soft_of(shard.state).unanswered


def test_the_last_of_two_calls_fails() -> None:
    shard = asked_twice()
    shard.answer()
    shard.answer(done(shard.calls[0].request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    assert not shard.group().initialized
    shard.beat(2)
    shard.answer()
    assert shard.group().initialized == {FOO: frozenset({0, 1})}


def test_of_many_groups_each_forgets_a_deleted_topic_by_itself() -> None:
    shard = Shard()
    for number in range(300):
        shard.beat(0, "foo", group=f"g{number:03d}")
        shard.answer()
    other = MetadataImage([IMAGE.by_name["bar"]], version=2)
    outcome = shard.shard.on_metadata(MetadataDelta(other, deleted=(("foo", FOO),)), NOW)
    assert outcome.records == [], "together they may be too large for one batch"
    keys = shard.due(DELETED_TOPICS)
    assert len(keys) == 300
    for key in keys:
        (record,) = shard.settle(shard.shard.expire(key, NOW)).records
        assert record == records.state_partitions(key[1], StatePartitions())
    assert shard.shard.expire(keys[0], NOW).records == []


def test_a_topic_that_was_deleted_while_nobody_served_the_group_bumps_nothing(
    shard: Shard,
) -> None:
    recreated = MetadataImage([TopicImage(b"n" * 16, "foo", 2)], version=2)
    other = Shard(recreated)
    other.put(shard.log)
    other.settle(other.shard.on_loaded(NOW))
    assert other.beat(3).member_epoch == 4, "the hash of the topics has changed"
    other.answer()
    assert other.beat(4).member_epoch == 5, "the new topic is initialized"
    assert other.beat(5).member_epoch == 5
    assert other.beat(5).member_epoch == 5


def test_after_a_load_the_share_coordinator_has_its_full_time() -> None:
    shard = Shard()
    shard.beat(0, "foo")
    other = shard.loaded()
    other.beat(2)
    assert other.calls == []
    later = Instant(NOW.monotonic_ms + 30_000, NOW.wall_ms + 30_000)
    other.request(ShareGroupHeartbeatRequest("g", "m", 2), later)
    (call,) = other.calls
    assert {one.start_offset for topic in call.request.topics for one in topic.partitions} == {0}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE), ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (OSError("nobody"), ErrorCode.UNKNOWN_SERVER_ERROR),
        ("a cow", ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_changes_of_offsets_without_an_answer_can_be_repeated(
    shard: Shard, answer: Any, code: ErrorCode
) -> None:
    shard.beat(-1)
    for request in (ALTER, DELETE_OFFSETS):
        shard.request(request)
        shard.answer(answer)
        assert shard.replies[-1].error is code
        shard.request(request)
        shard.answer()
        assert shard.replies[-1].error is ErrorCode.NONE
    assert shard.group().state_partitions == StatePartitions()


def test_what_is_initialized_stays_so_if_new_offsets_are_refused(shard: Shard) -> None:
    """Otherwise its members would have no steady heartbeats any more."""
    shard.beat(-1)
    shard.request(ALTER)
    shard.answer(done(shard.calls[0].request, ErrorCode.NOT_COORDINATOR))
    known = shard.group().state_partitions
    assert known == StatePartitions({}, {FOO: frozenset({0, 1})}, names={FOO: "foo"})


def test_offsets_of_partitions_that_are_not_initialized_yet_are_deleted_too(shard: Shard) -> None:
    grown = MetadataImage([TopicImage(FOO, "foo", 3), IMAGE.by_name["bar"]], version=2)
    shard.settle(shard.shard.on_metadata(MetadataDelta(grown, changed=frozenset({"foo"})), NOW))
    shard.beat(3)
    other = shard.loaded()
    other.beat(-1)
    other.request(DELETE_OFFSETS)
    ((topic,),) = [call.request.topics for call in other.calls]
    assert topic.partitions == [0, 1, 2]
    known = other.group().state_partitions
    assert known == StatePartitions(deleting=frozenset({FOO}), names={FOO: "foo"})


def test_nothing_is_kept_of_a_group_that_is_gone(shard: Shard) -> None:
    shard.beat(-1)
    shard.request(ALTER)
    shard.answer(done(shard.calls[0].request, ErrorCode.NOT_COORDINATOR))
    gone = MetadataImage([IMAGE.by_name["bar"]], version=2)
    shard.settle(shard.shard.on_metadata(MetadataDelta(gone, deleted=(("foo", FOO),)), NOW))
    assert soft_of(shard.state) != ShareSoftState()
    shard.request(DELETE_GROUP)
    shard.answer()
    assert shard.state.groups == {}
    assert soft_of(shard.state) == ShareSoftState()


def test_a_heartbeat_begins_with_some_topics_and_the_next_one_goes_on() -> None:
    counts = {"a": 1500, "b": 1500, "c": 5000, "d": 1}
    topics = [TopicImage(name.encode() * 16, name, count) for name, count in counts.items()]
    shard = Shard(MetadataImage(topics, version=1))
    shard.beat(0, *counts)
    begun = []
    while shard.calls:
        begun.append(len(shard.calls[0].request.topics))
        shard.answer()
        shard.beat(shard.group().members["m"].member_epoch)
    assert begun == [2, 1, 1]
    assert {one[0] for one in shard.group().initialized} == set(b"abcd")


def test_unassigned_partitions_are_looked_for_once_for_all_members() -> None:
    """Otherwise each member of a large group would look for them at each new epoch."""
    shard = Shard()
    looked = 0

    class Counted(ShareGroup):
        __slots__ = ()

        def _find_unassigned(self, image: MetadataImage) -> bool:
            nonlocal looked
            looked += 1
            return super()._find_unassigned(image)

    shard.state.groups["g"] = Counted("g")
    members = [f"m{number}" for number in range(10)]
    for member in members:
        shard.beat(0, "foo", member=member)
    shard.answer()
    epoch = shard.beat(shard.group().group_epoch, member=members[-1]).member_epoch
    before = looked
    for member in members[:-1]:
        assert (
            shard.beat(shard.group().members[member].member_epoch, member=member).member_epoch
            == epoch
        )
    assert looked == before + 1


def test_an_assignor_that_gives_what_nobody_may_have_is_refused() -> None:
    class Wrong:
        name = "wrong"

        def __init__(self) -> None:
            self.result: dict[str, Any] = {}

        def assign(self, *_: Any) -> dict[str, Any]:
            return self.result

    shard, wrong = Shard(), Wrong()
    shard.state.share_assignor = wrong
    faults = {
        "x is not a member": {"x": {}},
        "not subscribed": {"m": {BAR: (0,)}},
        "not initialized": {"m": {FOO: (0,)}},
    }
    for fault, wrong.result in faults.items():
        outcome = shard.request(ShareGroupHeartbeatRequest("g", "m", 0, None, ("foo",)))
        (event,) = outcome.events
        assert event.kind is EventKind.ASSIGNOR_FAILED
        assert fault in event.cause
        assert (outcome.records, shard.replies[-1].error) == ([], ErrorCode.UNKNOWN_SERVER_ERROR)


def test_it_is_inspected(shard: Shard) -> None:
    page = inspect_group(shard.state, "g", NOW)
    assert page is not None
    assert (page["type"], page["state"], page["group_epoch"]) == ("share", "Stable", 3)
    assert page["initialized"] == {"foo": [0, 1]}
    assert [one["owned"] for one in page["members"]] == [{"foo": [0, 1]}]
    assert page["blocked"] == []
    shard.beat(3, "foo", "bar")
    page = inspect_group(shard.state, "g", NOW)
    assert page is not None
    assert [one["why"] for one in page["blocked"]] == ["the state of bar is being initialized"]
    shard.answer()
    page = inspect_group(shard.state, "g", NOW)
    assert page is not None
    assert [one["why"] for one in page["blocked"]] == [
        "the next heartbeat makes a target with the initialized partitions"
    ]


def test_a_steady_heartbeat_writes_nothing(shard: Shard) -> None:
    before = len(shard.log)
    for _ in range(3):
        assert shard.beat(3).assignment is None
    assert (len(shard.log), shard.calls) == (before, [])
    assert shard.group().members["m"] == ShareGroupMember(
        "m", 3, 2, None, "client", "/127.0.0.1", ("foo",), {FOO: (0, 1)}
    )
