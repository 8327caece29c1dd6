"""The requests about users that the command line makes."""

from __future__ import annotations

from collections.abc import Sequence

from groupd.coordinator.cli.kafka.calls import error_name
from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.users import ScramDeletion, ScramUpsertion
from groupd.protocol.reader import Reader
from groupd.protocol.wire.calls import Call
from groupd.protocol.writer import Writer

DESCRIBE_USERS = Call(50, 0, "DescribeUserScramCredentials", flexible=True)
ALTER_USERS = Call(51, 0, "AlterUserScramCredentials", flexible=True)

Credentials = tuple[tuple[int, int], ...]
"""(wire code of the mechanism, iterations) of each."""

_Error = tuple[int, str | None]


def describe_users(
    connection: BlockingConnection, users: Sequence[str]
) -> list[tuple[str, Credentials]]:
    """Those of `users` that exist, with their credentials; all users if none is named."""

    def write(writer: Writer) -> None:
        for user in writer.structs(users):
            writer.string(user)
        writer.end()

    def described(reader: Reader) -> tuple[str, _Error, Credentials]:
        user, error = reader.string(), _read_error(reader)
        return user, error, reader.structs(lambda one: (one.int8(), one.int32()))

    def read(reader: Reader) -> list[tuple[str, Credentials]]:
        reader.int32()
        _check(connection, _read_error(reader))
        found = []
        for user, error, credentials in reader.structs(described):
            if error[0] != ErrorCode.RESOURCE_NOT_FOUND:
                _check(connection, error)
                found.append((user, credentials))
        return found

    return connection.call(DESCRIBE_USERS, write, read)


def alter_user(connection: BlockingConnection, change: ScramDeletion | ScramUpsertion) -> None:
    """Kafka takes one change of a user in a request."""

    def write(writer: Writer) -> None:
        deleted = isinstance(change, ScramDeletion)
        for _ in writer.structs((change,) if deleted else ()):
            writer.string(change.user)
            writer.int8(change.mechanism)
        for one in writer.structs((change,) if isinstance(change, ScramUpsertion) else ()):
            writer.string(one.user)
            writer.int8(one.mechanism)
            writer.int32(one.iterations)
            writer.bytes_(one.salt)
            writer.bytes_(one.salted_password)
        writer.end()

    def result(reader: Reader) -> _Error:
        reader.string()
        return _read_error(reader)

    def read(reader: Reader) -> None:
        reader.int32()
        for error in reader.structs(result):
            _check(connection, error)

    connection.call(ALTER_USERS, write, read)


def _read_error(reader: Reader) -> _Error:
    return reader.int16(), reader.nullable_string()


def _check(connection: BlockingConnection, error: _Error) -> None:
    """Raises KafkaError."""
    code, message = error
    if code:
        text = f"{error_name(code)}: {message}" if message else error_name(code)
        raise KafkaError(f"{connection.where} refused: {text}")
