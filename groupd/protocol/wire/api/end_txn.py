"""EndTxn (26), v0-5. v2 allows PRODUCER_FENCED, v3 is flexible, v4 allows TRANSACTION_ABORTABLE,
v5 bumps the epoch of every transaction and answers with the new one (KIP-890)."""

from __future__ import annotations

from groupd.protocol.messages.transactions import EndTxnReply, EndTxnRequest
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api, code_only
from groupd.protocol.writer import Writer


def read(reader: Reader) -> EndTxnRequest:
    return EndTxnRequest(reader.string(), reader.int64(), reader.int16(), reader.boolean())


def write(writer: Writer, reply: EndTxnReply) -> None:
    writer.throttle_time()
    writer.int16(reply.error)
    if writer.version >= 5:
        writer.int64(reply.producer_id)
        writer.int16(reply.producer_epoch)


API = api(26, EndTxnRequest, "0-5", "3+", read, write, code_only(EndTxnReply))
