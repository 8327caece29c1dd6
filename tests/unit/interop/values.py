"""Values for the tests of migration: members, subscriptions and assignments as bytes, and what the
log must reproduce."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import pack
from typing import Any

from groupd.coordinator.core.classic_group.answers import (
    heartbeat_failure,
    join_failure,
    leave_failure,
    sync_failure,
)
from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.metadata_image import TopicImage
from groupd.coordinator.core.state import ShardState
from groupd.protocol.consumer_protocol import (
    EmbeddedAssignment,
    encode_assignment,
    parse_assignment,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
)
from groupd.protocol.records.schema import ClassicMemberMetadata, ClassicProtocol
from tests.unit.consumer_group.harness import snapshot

GROUP = "g"
FOO, BAR = (bytes([number]) * 16 for number in (1, 2))
FOO_TOPIC = TopicImage(FOO, "foo", 6)
BAR_TOPIC = TopicImage(BAR, "bar", 3)
SESSION_MS = 10_000
REBALANCE_MS = 30_000
HOST = "/127.0.0.1"


FAILURES: dict[type, Any] = {
    JoinGroupRequest: join_failure,
    SyncGroupRequest: sync_failure,
    HeartbeatRequest: heartbeat_failure,
    LeaveGroupRequest: leave_failure,
    ConsumerGroupHeartbeatRequest: lambda _, error: ConsumerGroupHeartbeatReply(error=error.code),
}


class Failed:
    """Stands where `runtime` builds the API's error reply for a failed append."""

    def __init__(self, error: ErrorCode) -> None:
        self.error = error


Owned = Mapping[str, Iterable[int]]
Protocols = Iterable[tuple[str, bytes]]


def subscription(
    *topics: str, owned: Owned | None = None, version: int = 1, user_data: bytes | None = None
) -> bytes:
    """A "consumer" subscription, v0 or v1."""

    def text(value: str) -> bytes:
        return pack(">h", len(value)) + value.encode()

    data = pack(">hi", version, len(topics)) + b"".join(map(text, topics))
    data += pack(">i", -1) if user_data is None else pack(">i", len(user_data)) + user_data
    if version >= 1:
        data += pack(">i", len(owned or {}))
        for name, partitions in (owned or {}).items():
            numbers = list(partitions)
            data += text(name) + pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return data


def assignment(partitions: Owned, *, user_data: bytes | None = None) -> bytes:
    named = tuple((name, tuple(partitions[name])) for name in sorted(partitions))
    return encode_assignment(EmbeddedAssignment(1, named, user_data))


def read(data: bytes) -> dict[str, list[int]]:
    return {name: list(partitions) for name, partitions in parse_assignment(data).partitions}


def foo(*partitions: int) -> dict[bytes, dict[int, int]]:
    """Partitions of foo with assignment epoch 10."""
    return {FOO: dict.fromkeys(partitions, 10)} if partitions else {}


def member(
    member_id: str,
    *partitions: int,
    classic: Iterable[str] = (),
    topics: Iterable[str] = ("foo",),
    **changes: Any,
) -> ConsumerGroupMember:
    """STABLE at epoch 10 with partitions of foo; `classic`: names of its protocols, () = it is
    on the consumer protocol."""
    fields: dict[str, Any] = {
        "member_epoch": 10,
        "previous_member_epoch": 10,
        "rebalance_timeout_ms": REBALANCE_MS,
        "client_id": "c",
        "client_host": HOST,
        "subscribed_topic_names": tuple(topics),
        "assigned": foo(*partitions),
    }
    protocols = tuple(ClassicProtocol(name, subscription(*topics)) for name in classic)
    if protocols:
        fields["classic"] = ClassicMemberMetadata(SESSION_MS, protocols)
    return ConsumerGroupMember(member_id, **{**fields, **changes})


def classic_member(member_id: str, *partitions: int, **changes: Any) -> ConsumerGroupMember:
    return member(member_id, *partitions, **{"classic": ("range",), **changes})


def hard_state(state: ShardState) -> dict[str, Any]:
    """What the log must reproduce. Of a classic group that is its last written generation, which
    memory equals while nothing is going on (Stable or Empty)."""
    found = snapshot(state)
    for group_id, group in found.items():
        if isinstance(group, ClassicGroup):
            found[group_id] = classic_state(group)
    return found


def classic_state(group: ClassicGroup) -> dict[str, Any]:
    members = {
        one.member_id: (
            one.group_instance_id,
            one.client_id,
            one.client_host,
            one.rebalance_timeout_ms,
            one.session_timeout_ms,
            one.metadata(group.protocol_name),
            one.assignment,
        )
        for one in group.members.values()
    }
    return {
        "generation": group.generation,
        "protocol": (group.protocol_type, group.protocol_name),
        "leader": group.leader_id,
        "state": group.state,
        "members": members,
    }
