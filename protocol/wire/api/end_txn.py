"""EndTxn (26), v0-5. v2 allows PRODUCER_FENCED, v3 is flexible, v4 allows TRANSACTION_ABORTABLE,
v5 bumps the epoch of every transaction and answers with the new one (KIP-890)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.transactions import EndTxnReply, EndTxnRequest
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 3


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> EndTxnRequest:
    request = EndTxnRequest(reader.string(), reader.int64(), reader.int16(), reader.boolean())
    reader.end()
    return request


def encode(reply: EndTxnReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(0)
    writer.int16(reply.error)
    if version >= 5:
        writer.int64(reply.producer_id)
        writer.int16(reply.producer_epoch)
    writer.end()
    return writer.buffer


def failure(_: EndTxnRequest, code: ErrorCode, __: str | None) -> EndTxnReply:
    return EndTxnReply(code)


API = Api(26, "EndTxn", 0, 5, _FLEXIBLE_FROM, EndTxnRequest, decode, encode, failure)
