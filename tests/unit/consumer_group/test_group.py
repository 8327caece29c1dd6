"""What a group offers to offsets and administration, beside the scenarios of `consumer_offsets` and
`consumer_admin`."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.consumer_group import describe
from groupd.coordinator.core.consumer_group.member import MemberState
from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.consumer_group import DescribedConsumerGroup, NamedTopicPartitions
from groupd.protocol.messages.lazily import Lazily
from groupd.protocol.messages.offsets import CommitPartition, commit_topic
from tests.support.access import ByRule, allow_all
from tests.unit.consumer_group.harness import BAR, FOO, GROUP, Shard, shape, topic


def shard_at_10(**changes: Any) -> Shard:
    """m1@10: foo-0 since 8, foo-1 since 10, foo-2 (since 8) pending revocation."""
    shard = Shard(topic("foo", FOO), topic("bar", BAR, 2))
    given: dict[str, Any] = {
        "assigned": {FOO: {0: 8, 1: 10}},
        "pending_revocation": {FOO: {2: 8}},
        "state": MemberState.UNREVOKED_PARTITIONS,
        **changes,
    }
    shard.put_member("m1", **given)
    shard.settle(m1={FOO: (0, 1)})
    return shard


def commit(
    shard: Shard,
    epoch: int,
    *partitions: int,
    skip: int = -1,
) -> ErrorCode:
    topics = [commit_topic("foo", tuple(CommitPartition(p, 1) for p in partitions), FOO)]
    try:
        shard.group.check_offset_commit(
            "m1",
            None,
            epoch,
            topics,
            api_version=9,
            transactional=False,
            too_long={("foo", skip)},
        )
    except ApiError as error:
        return error.code
    return ErrorCode.NONE


def test_a_commit_at_an_older_epoch_leaves_refused_partitions_out() -> None:
    shard = shard_at_10()
    assert commit(shard, 9, 0, 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(shard, 9, 0, 1, skip=1) is ErrorCode.NONE


def test_partitions_that_are_to_be_revoked_may_be_committed_at_an_older_epoch() -> None:
    shard = shard_at_10()
    assert commit(shard, 9, 0, 2) is ErrorCode.NONE
    assert commit(shard, 8, 2) is ErrorCode.NONE
    assert commit(shard, 7, 2) is ErrorCode.STALE_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("member", "epoch", "code"),
    [(None, 0, ErrorCode.UNKNOWN_SERVER_ERROR), ("", 10, ErrorCode.UNKNOWN_MEMBER_ID)],
)
def test_a_fetch_without_a_member_names_no_epoch(
    member: str | None, epoch: int, code: ErrorCode
) -> None:
    group = shard_at_10().group
    group.check_offset_fetch(None, -1)
    with pytest.raises(ApiError) as refused:
        group.check_offset_fetch(member, epoch)
    assert refused.value.code is code


def test_subscribed_topics_keep_their_offsets() -> None:
    group = shard_at_10().group
    assert group.is_subscribed_to("foo")
    assert not group.is_subscribed_to("bar")
    group.check_offset_delete()
    assert group.offset_expiration_base()(42) == 42


def described(shard: Shard, group: str = GROUP, allows: Any = allow_all) -> DescribedConsumerGroup:
    context = RequestContext(1, 1, access=ByRule(allows))
    return describe.describe(shard.state, context, group, include_operations=True)


def test_many_members_are_described_as_they_were_when_asked() -> None:
    shard = Shard(topic("foo", FOO, 6))
    for number in range(describe.MANY_MEMBERS + 1):
        owned = {FOO: {number: 10}} if number < 2 else {}
        shard.put_member(f"m{number:03d}", assigned=owned)
    shard.settle(10, m000={FOO: (0,)}, m001={FOO: (1,)})
    later, at_once = described(shard), described(shard)
    whole = replace(at_once, members=tuple(at_once.members))
    assert isinstance(later.members, Lazily)
    shard.apply(shard.handle(-1, "m000"))
    shard.put_member("m001", assigned={})
    shard.put_member("zz")
    assert "m000" not in shard.group.members
    assert later == whole
    assert [(m.member_id, m.assignment, m.target_assignment) for m in later.members][1] == (
        "m001",
        (NamedTopicPartitions(FOO, "foo", (1,)),),
        (NamedTopicPartitions(FOO, "foo", (1,)),),
    )

    def no_topics(_: Operation, resource: Resource, __: str) -> bool:
        return resource is not Resource.TOPIC

    denied = described(shard, allows=no_topics)
    assert (denied.error, denied.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ())


def test_cg_85_describe_errors() -> None:
    """Also docs/spec/security.md#SE-65: a group with a hidden topic shows no members."""
    shard = shard_at_10()
    shard.state.groups["classic"] = ClassicGroup("classic")
    assert described(shard, "").error is ErrorCode.INVALID_GROUP_ID
    for group in ("missing", "classic"):
        answer = described(shard, group)
        assert answer.error is ErrorCode.GROUP_ID_NOT_FOUND
        assert answer.error_message is not None
    hidden = described(shard, allows=lambda op, kind, name: name != "foo")
    assert (hidden.error, hidden.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ())


def test_a_description_has_operations_and_only_topics_that_exist() -> None:
    shard = shard_at_10(subscribed_topic_names=("foo", "zoo"))
    answer = described(shard)
    assert answer.authorized_operations == sum(1 << code for code in (3, 6, 8, 10, 11))
    assert answer.members[0].subscribed_topic_names == ("foo", "zoo")
    shard.topics(topic("bar", BAR))
    assert described(shard).members[0].assignment == ()


def test_tombstones_of_a_group_with_members_and_expressions() -> None:
    shard = Shard(topic("foo", FOO))
    shard.beat(0, regex="foo")
    shard.finish_task()
    shard.beat(1)
    tombstones = shard.group.tombstones()
    assert shape(tombstones) == ["T8", "T7", "T6", "T5", "T16", "T4", "T3"]
    for record in tombstones:
        shard.replay(record)
    assert shard.state.groups == {}
