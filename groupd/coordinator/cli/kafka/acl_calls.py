"""The requests about ACLs that the command line makes."""

from __future__ import annotations

from collections.abc import Sequence

from groupd.coordinator.cli.kafka.calls import error_name
from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.protocol.messages.acls import AclBinding, AclFilter
from groupd.protocol.reader import Reader
from groupd.protocol.wire.calls import Call
from groupd.protocol.writer import Writer

DESCRIBE_ACLS = Call(29, 3, "DescribeAcls", flexible=True)
CREATE_ACLS = Call(30, 3, "CreateAcls", flexible=True)
DELETE_ACLS = Call(31, 3, "DeleteAcls", flexible=True)

Error = tuple[int, str | None]
"""A code and its message."""


def describe_acls(connection: BlockingConnection, wanted: AclFilter) -> list[AclBinding]:
    """The ACLs that the filter matches."""

    def write(writer: Writer) -> None:
        _write_filter(writer, wanted)
        writer.end()

    def resource(reader: Reader) -> list[AclBinding]:
        head = reader.int8(), reader.string(), reader.int8()
        return list(reader.structs(lambda one: _read_entry(one, *head)))

    def read(reader: Reader) -> list[AclBinding]:
        reader.int32()
        _check(connection, (_read_error(reader),))
        return [acl for acls in reader.structs(resource) for acl in acls]

    return connection.call(DESCRIBE_ACLS, write, read)


def create_acls(connection: BlockingConnection, acls: Sequence[AclBinding]) -> None:
    """Raises KafkaError if any of them is refused; the others are made."""

    def write(writer: Writer) -> None:
        for acl in writer.structs(acls):
            writer.int8(acl.resource_type)
            writer.string(acl.name)
            writer.int8(acl.pattern)
            writer.string(acl.principal)
            writer.string(acl.host)
            writer.int8(acl.operation)
            writer.int8(acl.permission)
        writer.end()

    def read(reader: Reader) -> None:
        reader.int32()
        _check(connection, reader.structs(_read_error))

    connection.call(CREATE_ACLS, write, read)


def delete_acls(connection: BlockingConnection, filters: Sequence[AclFilter]) -> list[AclBinding]:
    """The ACLs that were deleted, each once, also if several filters match it."""

    def write(writer: Writer) -> None:
        for wanted in writer.structs(filters):
            _write_filter(writer, wanted)
        writer.end()

    def match(reader: Reader) -> tuple[Error, AclBinding]:
        error = _read_error(reader)
        return error, _read_entry(reader, reader.int8(), reader.string(), reader.int8())

    def result(reader: Reader) -> tuple[Error, tuple[tuple[Error, AclBinding], ...]]:
        return _read_error(reader), reader.structs(match)

    def read(reader: Reader) -> list[AclBinding]:
        reader.int32()
        results = reader.structs(result)
        _check(connection, [error for error, _ in results])
        found = [one for _, matching in results for one in matching]
        _check(connection, [error for error, _ in found])
        return list(dict.fromkeys(acl for _, acl in found))

    return connection.call(DELETE_ACLS, write, read)


def _write_filter(writer: Writer, wanted: AclFilter) -> None:
    writer.int8(wanted.resource_type)
    writer.nullable_string(wanted.name)
    writer.int8(wanted.pattern)
    writer.nullable_string(wanted.principal)
    writer.nullable_string(wanted.host)
    writer.int8(wanted.operation)
    writer.int8(wanted.permission)


def _read_entry(reader: Reader, resource_type: int, name: str, pattern: int) -> AclBinding:
    principal, host = reader.string(), reader.string()
    return AclBinding(resource_type, name, pattern, principal, host, reader.int8(), reader.int8())


def _read_error(reader: Reader) -> Error:
    return reader.int16(), reader.nullable_string()


def _check(connection: BlockingConnection, errors: Sequence[Error]) -> None:
    """Raises KafkaError for the first error that there is."""
    for error, message in errors:
        if error:
            text = f"{error_name(error)}: {message}" if message else error_name(error)
            raise KafkaError(f"{connection.where} refused: {text}")
