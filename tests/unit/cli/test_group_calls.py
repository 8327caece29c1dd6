"""How the command line asks about groups: what a broker of before Kafka 3.8 does not tell is left
out, and what cannot be read is left alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest

from groupd.coordinator.cli.groups.from_kafka import group_page
from groupd.coordinator.cli.kafka.calls import (
    FoundGroup,
    alter_share_offsets,
    describe_groups,
    list_groups,
    share_offsets,
)
from groupd.coordinator.cli.kafka.cluster import KafkaCluster
from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.coordinator.moves.plan import Current
from groupd.protocol.consumer_protocol import EmbeddedAssignment, encode_assignment
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicPartition
from groupd.protocol.messages.consumer_group import NamedTopicPartitions
from groupd.protocol.messages.groups import (
    DescribedGroup,
    DescribedMember,
    DescribeGroupsReply,
    DescribeGroupsRequest,
    ListedGroup,
    ListGroupsReply,
    ListGroupsRequest,
)
from groupd.protocol.messages.share_group import (
    AlteredShareOffsets,
    AlteredShareTopic,
    AlterShareGroupOffsetsReply,
    AlterShareGroupOffsetsRequest,
    DescribedShareGroup,
    DescribedShareMember,
    DescribedShareOffset,
    DescribedShareOffsets,
    DescribedShareOffsetsGroup,
    DescribeShareGroupOffsetsReply,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeReply,
    ShareGroupDescribeRequest,
    ShareOffsetResult,
)

TOPIC_ID = b"\x01" * 16
ASSIGNMENT = encode_assignment(EmbeddedAssignment(0, (("orders", (0, 1)),)))


class Broker:
    """Answers everything with `reply`, or with the one of `replies` for the type of the request."""

    def __init__(self, reply: Any = None, replies: Mapping[type, Any] = {}) -> None:
        self._reply = reply
        self._replies = replies
        self.asked: list[Any] = []

    def call(self, request: Any, version: int | None = None) -> Any:
        self.asked.append(request)
        return self._replies.get(type(request), self._reply)


class OneBroker:
    """A `KafkaCluster` of this broker, whose partitions end at 30."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def coordinator(self, group_id: str) -> BlockingConnection:
        return as_connection(self._broker)

    def bounds(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        return dict.fromkeys(places, (0, 30))


def as_connection(broker: Broker) -> BlockingConnection:
    return cast(BlockingConnection, broker)


def describing(error: ErrorCode, assignment: bytes) -> Broker:
    member = DescribedMember("m", None, "app", "/127.0.0.1", b"", assignment)
    group = DescribedGroup("g", error, None, "Stable", "consumer", "range", (member,))
    return Broker(DescribeGroupsReply((group,)))


@pytest.mark.parametrize(("told", "group_type"), [("Consumer", "consumer"), ("", None)])
def test_types_where_the_broker_tells_them(told: str, group_type: str | None) -> None:
    broker = Broker(ListGroupsReply(groups=(ListedGroup("g", "consumer", "Stable", told),)))
    found = list_groups(as_connection(broker))
    assert found == {"g": FoundGroup("g", "Stable", "consumer", group_type)}


@pytest.mark.parametrize(
    ("assignment", "owned"),
    [(ASSIGNMENT, {"orders": (0, 1)}), (b"", {}), (b"\x00\x00\x00\x00\x00\x07own", {})],
)
def test_a_group_of_an_old_broker_is_a_classic_one(
    assignment: bytes, owned: dict[str, tuple[int, ...]]
) -> None:
    broker = describing(ErrorCode.NONE, assignment)
    groups = [FoundGroup("g", "Stable", "consumer", None)]
    found = describe_groups(as_connection(broker), groups)["g"]
    assert (found.group_type, found.assignor) == ("classic", "range")
    (member,) = found.members
    assert (member.client_id, member.owned, member.epoch) == ("app", owned, None)


def test_other_types_are_not_asked_for_and_gone_ones_are_absent() -> None:
    gone = describing(ErrorCode.GROUP_ID_NOT_FOUND, b"")
    other = [FoundGroup("s", "Stable", "s", "streams"), FoundGroup("g", "Dead", "", "classic")]
    assert describe_groups(as_connection(gone), other) == {}
    assert gone.asked == [DescribeGroupsRequest(("g",))]
    refused = describing(ErrorCode.GROUP_AUTHORIZATION_FAILED, b"")
    with pytest.raises(KafkaError, match="group g: GROUP_AUTHORIZATION_FAILED"):
        describe_groups(as_connection(refused), other)


def test_a_partition_that_several_members_share_has_no_owner() -> None:
    def member(name: str, *partitions: int) -> DescribedShareMember:
        assigned = (NamedTopicPartitions(TOPIC_ID, "orders", partitions),)
        return DescribedShareMember(name, None, 2, "app", "/127.0.0.1", ("orders",), assigned)

    members = (member("a", 0), member("b", 0, 1))
    group = DescribedShareGroup("s", state="Stable", assignor_name="simple", members=members)
    offset = DescribedShareOffset(0, start_offset=7, lag=20)
    offset_v0 = DescribedShareOffset(1, start_offset=7)
    topics = [DescribedShareOffsets("orders", [offset, offset_v0])]
    replies: dict[type, Any] = {
        ListGroupsRequest: ListGroupsReply(groups=(ListedGroup("s", "share", "Stable", "Share"),)),
        ShareGroupDescribeRequest: ShareGroupDescribeReply([group]),
        DescribeShareGroupOffsetsRequest: DescribeShareGroupOffsetsReply(
            [DescribedShareOffsetsGroup("s", topics)]
        ),
    }
    cluster = cast(KafkaCluster, OneBroker(Broker(replies=replies)))
    found, offsets = group_page(cluster, "s", now_ms=0)
    assert [one["owned"] for one in found["members"]] == [{"orders": [0]}, {"orders": [0, 1]}]
    names = ("partition", "committed_offset", "end_offset", "lag", "member_id")
    assert [tuple(row[name] for name in names) for row in offsets["partitions"]] == [
        (0, 7, 30, 20, None),
        (1, 7, 30, None, "b"),
    ]


def test_start_offsets_of_a_share_group() -> None:
    known = DescribedShareOffset(2, start_offset=7, lag=3)
    failed = DescribedShareOffset(1, 0, error=ErrorCode.LEADER_NOT_AVAILABLE)
    topic = DescribedShareOffsets("orders", [DescribedShareOffset(0), failed, known])
    told = Broker(DescribeShareGroupOffsetsReply([DescribedShareOffsetsGroup("s", [topic])]))
    assert share_offsets(as_connection(told), "s") == {("orders", 2): known}
    group = DescribedShareOffsetsGroup("s", error=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused = Broker(DescribeShareGroupOffsetsReply([group]))
    with pytest.raises(KafkaError, match="start offsets of s cannot be read: GROUP_AUTHORIZATION"):
        share_offsets(as_connection(refused), "s")


def test_new_start_offsets_of_a_share_group() -> None:
    wanted = {("orders", 0): Current(4), ("orders", 1): Current(7)}
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    results = [ShareOffsetResult(0), ShareOffsetResult(1, unknown)]
    told = Broker(AlterShareGroupOffsetsReply(topics=[AlteredShareOffsets("orders", results)]))
    errors = alter_share_offsets(as_connection(told), "s", wanted)
    assert errors == {("orders", 0): ErrorCode.NONE, ("orders", 1): unknown}
    topic = AlteredShareTopic("orders", ((0, 4), (1, 7)))
    assert told.asked == [AlterShareGroupOffsetsRequest("s", (topic,))]
    refused = Broker(AlterShareGroupOffsetsReply(ErrorCode.NON_EMPTY_GROUP))
    errors = alter_share_offsets(as_connection(refused), "s", wanted)
    assert errors == dict.fromkeys(wanted, ErrorCode.NON_EMPTY_GROUP), "of the whole request"
