"""CreateDelegationToken (38), v1-3. v2 is flexible, v3 adds the owner and who asks (KIP-373)."""

from __future__ import annotations

from groupd.protocol.messages.delegation_tokens import (
    NO_TIME_MS,
    CreateDelegationTokenReply,
    CreateDelegationTokenRequest,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> CreateDelegationTokenRequest:
    owner_type = owner_name = None
    if reader.version >= 3:
        owner_type, owner_name = reader.nullable_string(), reader.nullable_string()
    renewers = reader.structs(_read_principal)
    return CreateDelegationTokenRequest(renewers, reader.int64(), owner_type, owner_name)


def _read_principal(reader: Reader) -> tuple[str, str]:
    return reader.string(), reader.string()


def write(writer: Writer, reply: CreateDelegationTokenReply) -> None:
    writer.int16(reply.error)
    principals = (reply.owner, reply.requester) if writer.version >= 3 else (reply.owner,)
    for principal_type, name in principals:
        writer.string(principal_type)
        writer.string(name)
    for _ in ("issued", "expires", "can be renewed until"):
        writer.int64(NO_TIME_MS)
    writer.string("")
    writer.bytes_(b"")
    writer.throttle_time()


API = api(
    38,
    CreateDelegationTokenRequest,
    "1-3",
    "2+",
    read,
    write,
    code_only(CreateDelegationTokenReply),
)
