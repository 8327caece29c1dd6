"""SaslHandshake (17), v0-1. Never flexible. The versions differ only in what follows: after v0 the
client sends bare tokens, after v1 it sends SaslAuthenticate (`docs/spec/security.md#2.1`)."""

from __future__ import annotations

from groupd.protocol.messages.sasl import SaslHandshakeReply, SaslHandshakeRequest
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> SaslHandshakeRequest:
    return SaslHandshakeRequest(reader.string())


def write(writer: Writer, reply: SaslHandshakeReply) -> None:
    writer.int16(reply.error)
    writer.array(reply.mechanisms, Writer.string)


API = api(17, SaslHandshakeRequest, "0-1", "none", read, write, code_only(SaslHandshakeReply))
