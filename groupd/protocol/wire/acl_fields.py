"""The fields that the APIs of ACLs (29, 30, 31) share."""

from __future__ import annotations

from typing import TypeVar

from groupd.protocol.messages.acls import AclBinding, AclFilter
from groupd.protocol.reader import BadBytes, Reader
from groupd.protocol.writer import Writer

A = TypeVar("A", AclBinding, AclFilter)

_RESOURCE_TYPES = range(1, 8)
_PATTERNS = range(1, 5)
_OPERATIONS = range(1, 16)
_PERMISSIONS = range(1, 4)


def read_filter(reader: Reader) -> AclFilter:
    return AclFilter(
        reader.int8(),
        reader.nullable_string(),
        reader.int8(),
        reader.nullable_string(),
        reader.nullable_string(),
        reader.int8(),
        reader.int8(),
    )


def read_binding(reader: Reader) -> AclBinding:
    return AclBinding(
        reader.int8(),
        reader.string(),
        reader.int8(),
        reader.string(),
        reader.string(),
        reader.int8(),
        reader.int8(),
    )


def with_known_codes(items: tuple[A, ...]) -> tuple[A, ...]:
    """The items. A request in which a code is 0 or not known cannot be read, as in Kafka: raises
    BadBytes."""
    for item in items:
        if not (
            item.resource_type in _RESOURCE_TYPES
            and item.pattern in _PATTERNS
            and item.operation in _OPERATIONS
            and item.permission in _PERMISSIONS
        ):
            raise BadBytes("a code in an ACL is not known")
    return items


def write_entry(writer: Writer, acl: AclBinding) -> None:
    """The ACL without its resource."""
    writer.string(acl.principal)
    writer.string(acl.host)
    writer.int8(acl.operation)
    writer.int8(acl.permission)


def write_resource(writer: Writer, resource_type: int, name: str, pattern: int) -> None:
    writer.int8(resource_type)
    writer.string(name)
    writer.int8(pattern)
