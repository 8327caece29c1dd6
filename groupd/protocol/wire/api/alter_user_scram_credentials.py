"""AlterUserScramCredentials (51), v0. Always flexible."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.users import (
    AlteredUser,
    AlterUserScramCredentialsReply,
    AlterUserScramCredentialsRequest,
    ScramDeletion,
    ScramUpsertion,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        reader.structs(_read_deletion), reader.structs(_read_upsertion)
    )


def _read_deletion(reader: Reader) -> ScramDeletion:
    return ScramDeletion(reader.string(), reader.int8())


def _read_upsertion(reader: Reader) -> ScramUpsertion:
    user, mechanism, iterations = reader.string(), reader.int8(), reader.int32()
    salt, salted_password = reader.secret(), reader.secret()
    return ScramUpsertion(user, mechanism, iterations, salt, salted_password)


def write(writer: Writer, reply: AlterUserScramCredentialsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from writer.structs_in_steps(reply.results, _write_user)


def _write_user(writer: Writer, altered: AlteredUser) -> None:
    writer.string(altered.user)
    writer.int16(altered.error)
    writer.nullable_string(altered.error_message)


def failure(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> AlterUserScramCredentialsReply:
    """The error on every user, once."""
    named = [*(one.user for one in request.deletions), *(one.user for one in request.upsertions)]
    return AlterUserScramCredentialsReply(
        mapped(lambda user: AlteredUser(user, code, message), tuple(dict.fromkeys(named)))
    )


API = api(51, AlterUserScramCredentialsRequest, "0", "0+", read, write, failure, secrets=True)
