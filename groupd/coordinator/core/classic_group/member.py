"""A member of a classic group: its protocols, its assignment and its parked requests.

Members are plain and mutable: classic handlers change them in place, as Kafka does. Only
`ClassicGroup` writes `protocols` and `join_token`, because it keeps counts of them.
"""

from __future__ import annotations

from msgspec import Struct

from groupd.coordinator.core.types import RequestToken
from groupd.protocol.messages.classic_group import JoinProtocol

Protocols = tuple[JoinProtocol, ...]
"""The protocols that a member offers, the preferred one first."""


def metadata_for(protocols: Protocols, name: str | None) -> bytes:
    for protocol in protocols:
        if protocol.name == name:
            return protocol.metadata
    return b""


class SlotBefore(Struct, frozen=True):
    """A static member before another process took its place; `leader_id` is the group's."""

    member_id: str
    leader_id: str | None
    protocols: Protocols
    rebalance_timeout_ms: int
    session_timeout_ms: int


class ClassicGroupMember:
    """`join_token`, `sync_token`: the parked request, None if there is none.

    `is_new`: the member has not been through a completed join phase yet. The session timer of such
    a member always counts (docs/spec/classic-group.md#3).

    `unwritten`: for each replacement of this static member whose record is not written yet, the
    member as it was before. The order is that in which the records are written.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "is_new",
        "join_token",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_token",
        "unwritten",
    )

    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.is_new = False
        self.join_token: RequestToken | None = None
        self.sync_token: RequestToken | None = None
        self.unwritten: tuple[SlotBefore, ...] = ()

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_waiting(self) -> bool:
        """Whether a Join or a Sync of the member is parked."""
        return self.join_token is not None or self.sync_token is not None

    def protocol_names(self) -> frozenset[str]:
        return frozenset([protocol.name for protocol in self.protocols])

    def metadata(self, protocol_name: str | None) -> bytes:
        """The metadata that the member offers for a protocol; b"" if it does not offer the
        protocol."""
        return metadata_for(self.protocols, protocol_name)

    def first_of(self, candidates: frozenset[str]) -> str | None:
        """The member's vote: the first protocol that it offers and that is in `candidates`."""
        for protocol in self.protocols:
            if protocol.name in candidates:
                return protocol.name
        return None
