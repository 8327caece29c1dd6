"""AddOffsetsToTxn (25), v0-4. v2 allows PRODUCER_FENCED, v3 is flexible, v4 allows
TRANSACTION_ABORTABLE."""

from __future__ import annotations

from groupd.protocol.messages.transactions import AddOffsetsToTxnReply, AddOffsetsToTxnRequest
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(reader.string(), reader.int64(), reader.int16(), reader.string())


def write(writer: Writer, reply: AddOffsetsToTxnReply) -> None:
    writer.throttle_time()
    writer.int16(reply.error)


API = api(25, AddOffsetsToTxnRequest, "0-4", "3+", read, write, code_only(AddOffsetsToTxnReply))
