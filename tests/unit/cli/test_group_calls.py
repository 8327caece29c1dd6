"""How the command line asks about groups: what a broker of before Kafka 3.8 does not tell is left
out, and what cannot be read is left alone."""

from __future__ import annotations

from typing import Any, cast

import pytest

from groupd.coordinator.cli.kafka.calls import FoundGroup, describe_groups, list_groups
from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.protocol.consumer_protocol import EmbeddedAssignment, encode_assignment
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.groups import (
    DescribedGroup,
    DescribedMember,
    DescribeGroupsReply,
    DescribeGroupsRequest,
    ListedGroup,
    ListGroupsReply,
)

ASSIGNMENT = encode_assignment(EmbeddedAssignment(0, (("orders", (0, 1)),)))


class Broker:
    """Answers everything with `reply`."""

    def __init__(self, reply: Any) -> None:
        self._reply = reply
        self.asked: list[Any] = []

    def call(self, request: Any, version: int | None = None) -> Any:
        self.asked.append(request)
        return self._reply


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
    share = [FoundGroup("s", "Stable", "share", "share"), FoundGroup("g", "Dead", "", "classic")]
    assert describe_groups(as_connection(gone), share) == {}
    assert gone.asked == [DescribeGroupsRequest(("g",))]
    refused = describing(ErrorCode.GROUP_AUTHORIZATION_FAILED, b"")
    with pytest.raises(KafkaError, match="group g: GROUP_AUTHORIZATION_FAILED"):
        describe_groups(as_connection(refused), share)
