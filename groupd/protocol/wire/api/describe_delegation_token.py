"""DescribeDelegationToken (41), v1-3. v2 is flexible; v3 only adds fields of tokens (KIP-373)."""

from __future__ import annotations

from groupd.protocol.messages.delegation_tokens import (
    DescribeDelegationTokenReply,
    DescribeDelegationTokenRequest,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> DescribeDelegationTokenRequest:
    return DescribeDelegationTokenRequest(reader.nullable_structs(_read_principal))


def _read_principal(reader: Reader) -> tuple[str, str]:
    return reader.string(), reader.string()


def write(writer: Writer, reply: DescribeDelegationTokenReply) -> None:
    writer.int16(reply.error)
    writer.array_length(0)
    writer.throttle_time()


API = api(
    41,
    DescribeDelegationTokenRequest,
    "1-3",
    "2+",
    read,
    write,
    code_only(DescribeDelegationTokenReply),
)
