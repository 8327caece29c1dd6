"""ExpireDelegationToken (40), v1-2. v2 is flexible."""

from __future__ import annotations

from groupd.protocol.messages.delegation_tokens import (
    NO_TIME_MS,
    DelegationTokenExpiryReply,
    ExpireDelegationTokenRequest,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> ExpireDelegationTokenRequest:
    return ExpireDelegationTokenRequest(reader.secret(), reader.int64())


def write(writer: Writer, reply: DelegationTokenExpiryReply) -> None:
    writer.int16(reply.error)
    writer.int64(NO_TIME_MS)
    writer.throttle_time()


API = api(
    40,
    ExpireDelegationTokenRequest,
    "1-2",
    "2+",
    read,
    write,
    code_only(DelegationTokenExpiryReply),
    secrets=True,
)
