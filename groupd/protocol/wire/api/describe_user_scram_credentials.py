"""DescribeUserScramCredentials (50), v0. Always flexible."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.messages.users import (
    DescribedUser,
    DescribeUserScramCredentialsReply,
    DescribeUserScramCredentialsRequest,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_and_message
from groupd.protocol.writer import Writer


def read(reader: Reader) -> DescribeUserScramCredentialsRequest:
    return DescribeUserScramCredentialsRequest(reader.nullable_structs(Reader.string))


def write(writer: Writer, reply: DescribeUserScramCredentialsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    writer.int16(reply.error)
    writer.nullable_string(reply.error_message)
    yield from writer.structs_in_steps(reply.results, _write_user)


def _write_user(writer: Writer, found: DescribedUser) -> None:
    writer.string(found.user)
    writer.int16(found.error)
    writer.nullable_string(found.error_message)
    for mechanism, iterations in writer.structs(found.credentials):
        writer.int8(mechanism)
        writer.int32(iterations)


API = api(
    50,
    DescribeUserScramCredentialsRequest,
    "0",
    "0+",
    read,
    write,
    code_and_message(DescribeUserScramCredentialsReply),
)
