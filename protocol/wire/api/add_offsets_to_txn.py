"""AddOffsetsToTxn (25), v0-4. v2 allows PRODUCER_FENCED, v3 is flexible, v4 allows
TRANSACTION_ABORTABLE."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.transactions import AddOffsetsToTxnReply, AddOffsetsToTxnRequest
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 3


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> AddOffsetsToTxnRequest:
    request = AddOffsetsToTxnRequest(
        reader.string(), reader.int64(), reader.int16(), reader.string()
    )
    reader.end()
    return request


def encode(reply: AddOffsetsToTxnReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(0)
    writer.int16(reply.error)
    writer.end()
    return writer.buffer


def failure(_: AddOffsetsToTxnRequest, code: ErrorCode, __: str | None) -> AddOffsetsToTxnReply:
    return AddOffsetsToTxnReply(code)


API = Api(
    25, "AddOffsetsToTxn", 0, 4, _FLEXIBLE_FROM, AddOffsetsToTxnRequest, decode, encode, failure
)
