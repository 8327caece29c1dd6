"""How the command line asks about groups: what a broker of before Kafka 3.8 does not tell is left
out, and what cannot be read is left alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.coordinator.cli.kafka.group_calls import (
    DESCRIBE_CONSUMER_GROUPS,
    DESCRIBE_GROUPS,
    LIST_GROUPS,
    LIST_TYPED_GROUPS,
    FoundGroup,
    describe_groups,
    list_groups,
)
from groupd.coordinator.core.classic_group.subscription import Assignment, encode_assignment
from groupd.protocol.errors import ErrorCode
from groupd.protocol.reader import Reader
from groupd.protocol.wire.calls import Call
from groupd.protocol.writer import Writer

ASSIGNMENT = encode_assignment(Assignment(0, (("orders", (0, 1)),)))


class Broker:
    """Answers with what `answers` write, by API; has no other ones."""

    def __init__(self, answers: dict[Call, Callable[[Writer], None]]) -> None:
        self._answers = answers
        self.asked: list[Call] = []

    def offers(self, api: Call) -> bool:
        return api in self._answers

    def call(
        self, api: Call, write: Callable[[Writer], None], read: Callable[[Reader], Any]
    ) -> Any:
        self.asked.append(api)
        write(Writer(api.flexible, api.version))
        writer = Writer(api.flexible, api.version)
        self._answers[api](writer)
        return read(Reader(bytes(writer.buffer), 0, api.version, flexible=api.flexible))


def as_connection(broker: Broker) -> BlockingConnection:
    return cast(BlockingConnection, broker)


def listing(*types: str) -> Callable[[Writer], None]:
    def write(writer: Writer) -> None:
        writer.int32(0)
        writer.int16(0)
        for _ in writer.structs(("g",)):
            for text in ("g", "consumer", "Stable", *types):
                writer.string(text)
        writer.end()

    return write


def described(error: int, assignment: bytes) -> Callable[[Writer], None]:
    def write(writer: Writer) -> None:
        writer.int32(0)
        for _ in writer.structs(("g",)):
            writer.int16(error)
            for text in ("g", "Stable", "consumer", "range"):
                writer.string(text)
            for member in writer.structs(("m",)):
                writer.string(member)
                writer.nullable_string(None)
                writer.string("app")
                writer.string("/127.0.0.1")
                writer.bytes_(b"")
                writer.bytes_(assignment)
            writer.int32(0)
        writer.end()

    return write


def test_types_where_the_broker_tells_them() -> None:
    new = Broker({LIST_GROUPS: listing(), LIST_TYPED_GROUPS: listing("Consumer")})
    assert list_groups(as_connection(new)) == {
        "g": FoundGroup("g", "Stable", "consumer", "consumer")
    }
    old = Broker({LIST_GROUPS: listing()})
    assert list_groups(as_connection(old)) == {"g": FoundGroup("g", "Stable", "consumer", None)}


@pytest.mark.parametrize(
    ("assignment", "owned"),
    [(ASSIGNMENT, {"orders": (0, 1)}), (b"", {}), (b"\x00\x00\x00\x00\x00\x07own", {})],
)
def test_a_group_of_an_old_broker_is_a_classic_one(
    assignment: bytes, owned: dict[str, tuple[int, ...]]
) -> None:
    broker = Broker({DESCRIBE_GROUPS: described(0, assignment)})
    groups = [FoundGroup("g", "Stable", "consumer", None)]
    found = describe_groups(as_connection(broker), groups)["g"]
    assert (found.group_type, found.assignor) == ("classic", "range")
    (member,) = found.members
    assert (member.client_id, member.owned, member.epoch) == ("app", owned, None)


def test_other_types_are_not_asked_for_and_gone_ones_are_absent() -> None:
    gone = Broker({DESCRIBE_GROUPS: described(ErrorCode.GROUP_ID_NOT_FOUND, b"")})
    share = [FoundGroup("s", "Stable", "share", "share"), FoundGroup("g", "Dead", "", "classic")]
    assert describe_groups(as_connection(gone), share) == {}
    assert gone.asked == [DESCRIBE_GROUPS]
    refused = Broker({DESCRIBE_GROUPS: described(ErrorCode.GROUP_AUTHORIZATION_FAILED, b"")})
    with pytest.raises(KafkaError, match="group g: GROUP_AUTHORIZATION_FAILED"):
        describe_groups(as_connection(refused), share)
    assert not refused.offers(DESCRIBE_CONSUMER_GROUPS)
