"""Groups as an administrator sees them: FindCoordinator (10), DescribeGroups (15),
ListGroups (16), DeleteGroups (42)."""

from __future__ import annotations

from collections.abc import Sequence

from groupd.protocol.errors import ErrorCode
from groupd.protocol.frozen import dataclass

OPERATIONS_NOT_ASKED = -2147483648
"""`authorized_operations` when the request did not ask for them."""


@dataclass(frozen=True, slots=True)
class FindCoordinatorRequest:
    """`key_type`: 0 group, 1 transaction, 2 share. v0-3 carry one key."""

    keys: tuple[str, ...]
    key_type: int = 0


@dataclass(frozen=True, slots=True)
class FoundCoordinator:
    key: str
    node_id: int = -1
    host: str = ""
    port: int = -1
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class FindCoordinatorReply:
    coordinators: tuple[FoundCoordinator, ...]


@dataclass(frozen=True, slots=True)
class DescribeGroupsRequest:
    groups: tuple[str, ...]
    include_authorized_operations: bool = False


@dataclass(frozen=True, slots=True)
class DescribedMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedMember, ...] = ()
    authorized_operations: int = OPERATIONS_NOT_ASKED


@dataclass(frozen=True, slots=True)
class DescribeGroupsReply:
    groups: tuple[DescribedGroup, ...]


@dataclass(frozen=True, slots=True)
class ListGroupsRequest:
    """Empty filters match all; a shard answers for its own groups."""

    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class ListGroupsReply:
    error: ErrorCode = ErrorCode.NONE
    groups: Sequence[ListedGroup] = ()


@dataclass(frozen=True, slots=True)
class DeleteGroupsRequest:
    group_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeletedGroup:
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteGroupsReply:
    results: tuple[DeletedGroup, ...]
