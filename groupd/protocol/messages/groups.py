"""Groups as an administrator sees them: FindCoordinator (10), DescribeGroups (15),
ListGroups (16), DeleteGroups (42)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.protocol.errors import ErrorCode

OPERATIONS_NOT_ASKED = -2147483648
"""The value of `authorized_operations` if the request did not ask for them."""


class FindCoordinatorRequest(Struct, frozen=True):
    """`key_type`: 0 group, 1 transaction, 2 share group. v0-3 carry one key."""

    keys: tuple[str, ...]
    key_type: int = 0


class FoundCoordinator(Struct, frozen=True):
    key: str
    node_id: int = -1
    host: str = ""
    port: int = -1
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class FindCoordinatorReply(Struct, frozen=True):
    coordinators: Sequence[FoundCoordinator]


class DescribeGroupsRequest(Struct, frozen=True):
    groups: tuple[str, ...]
    include_authorized_operations: bool = False


class DescribedMember(Struct, frozen=True):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(Struct, frozen=True):
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: Sequence[DescribedMember] = ()
    authorized_operations: int = OPERATIONS_NOT_ASKED


class DescribeGroupsReply(Struct, frozen=True):
    groups: Sequence[DescribedGroup]


class ListGroupsRequest(Struct, frozen=True):
    """Empty filters match everything. Each shard answers for its own groups."""

    states_filter: tuple[str, ...] = ()
    types_filter: tuple[str, ...] = ()


class ListedGroup(Struct, frozen=True):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


class ListGroupsReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    groups: Sequence[ListedGroup] = ()


class DeleteGroupsRequest(Struct, frozen=True):
    group_ids: tuple[str, ...]


class DeletedGroup(Struct, frozen=True):
    group_id: str
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class DeleteGroupsReply(Struct, frozen=True):
    results: Sequence[DeletedGroup]
