"""ACLs over the wire: DescribeAcls (29), CreateAcls (30), DeleteAcls (31).

Types of resources, patterns, operations and permissions are Kafka's codes, as
`groupd.coordinator.core.types` and `groupd.coordinator.security.acls` name them.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.protocol.errors import ErrorCode


class AclBinding(Struct, frozen=True):
    """One ACL: a rule that a principal may, or may not, do an operation on some resources. Two ACLs
    with the same fields are the same ACL."""

    resource_type: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int


class AclFilter(Struct, frozen=True):
    """Selects ACLs. A field that is None, or code 1 (ANY), matches everything."""

    resource_type: int = 1
    name: str | None = None
    pattern: int = 1
    principal: str | None = None
    host: str | None = None
    operation: int = 1
    permission: int = 1


class DescribeAclsRequest(Struct, frozen=True):
    filter: AclFilter


class DescribedAcls(Struct, frozen=True):
    """The ACLs of one resource pattern."""

    resource_type: int
    name: str
    pattern: int
    acls: Sequence[AclBinding]


class DescribeAclsReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    resources: Sequence[DescribedAcls] = ()


class CreateAclsRequest(Struct, frozen=True):
    creations: tuple[AclBinding, ...]


class AclResult(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class CreateAclsReply(Struct, frozen=True):
    """The results are in the order of the request."""

    results: Sequence[AclResult]


class DeleteAclsRequest(Struct, frozen=True):
    filters: tuple[AclFilter, ...]


class DeletedAcls(Struct, frozen=True):
    """The ACLs that one filter has deleted."""

    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    matching: Sequence[AclBinding] = ()


class DeleteAclsReply(Struct, frozen=True):
    """The results are in the order of the request's filters."""

    results: Sequence[DeletedAcls]
