"""The fields that the APIs of ACLs (29, 30, 31) share."""

from __future__ import annotations

from groupd.protocol.messages.acls import AclBinding, AclFilter
from groupd.protocol.reader import BadBytes, Reader
from groupd.protocol.writer import Writer

_RESOURCE_TYPES = range(1, 8)
_PATTERNS = range(1, 5)
_OPERATIONS = range(1, 16)
_PERMISSIONS = range(1, 4)


def read_filter(reader: Reader) -> AclFilter:
    resource_type = _code(reader, _RESOURCE_TYPES)
    name = reader.nullable_string()
    pattern = _code(reader, _PATTERNS)
    principal = reader.nullable_string()
    host = reader.nullable_string()
    operation = _code(reader, _OPERATIONS)
    permission = _code(reader, _PERMISSIONS)
    return AclFilter(resource_type, name, pattern, principal, host, operation, permission)


def read_binding(reader: Reader) -> AclBinding:
    resource_type = _code(reader, _RESOURCE_TYPES)
    name = reader.string()
    pattern = _code(reader, _PATTERNS)
    principal = reader.string()
    host = reader.string()
    operation = _code(reader, _OPERATIONS)
    permission = _code(reader, _PERMISSIONS)
    return AclBinding(resource_type, name, pattern, principal, host, operation, permission)


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


def _code(reader: Reader, known: range) -> int:
    """A request with a code that is 0 or not known cannot be read, as in Kafka."""
    code = reader.int8()
    if code not in known:
        raise BadBytes(f"code {code} in an ACL is not known")
    return code
