"""SaslAuthenticate (36), v0-2. v1 adds the lifetime of the session (KIP-368), v2 is flexible."""

from __future__ import annotations

from groupd.protocol.messages.sasl import SaslAuthenticateReply, SaslAuthenticateRequest
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_and_message
from groupd.protocol.writer import Writer


def read(reader: Reader) -> SaslAuthenticateRequest:
    return SaslAuthenticateRequest(reader.secret())


def write(writer: Writer, reply: SaslAuthenticateReply) -> None:
    writer.int16(reply.error)
    writer.nullable_string(reply.error_message)
    writer.bytes_(reply.auth_bytes)
    if writer.version >= 1:
        writer.int64(reply.session_lifetime_ms)


API = api(
    36,
    SaslAuthenticateRequest,
    "0-2",
    "2+",
    read,
    write,
    code_and_message(SaslAuthenticateReply),
    secrets=True,
)
