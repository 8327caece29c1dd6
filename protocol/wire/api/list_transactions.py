"""ListTransactions (66), v0-2, flexible (KIP-664). v1 adds the filter by duration (KIP-994), v2
the one by a pattern of the transactional id (KIP-1152)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.transactions import ListTransactionsReply, ListTransactionsRequest
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 0


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> ListTransactionsRequest:
    request = ListTransactionsRequest(
        states=reader.array(Reader.string),
        producer_ids=reader.array(Reader.int64),
        duration_ms=reader.int64() if reader.version >= 1 else -1,
        pattern=reader.nullable_string() if reader.version >= 2 else None,
    )
    reader.end()
    return request


def encode(reply: ListTransactionsReply, _: int) -> bytearray:
    writer = Writer(flexible=True)
    writer.int32(0)
    writer.int16(reply.error)
    writer.array(reply.unknown_states, writer.string)
    writer.array_length(len(reply.transactions))
    for transaction in reply.transactions:
        writer.string(transaction.transactional_id)
        writer.int64(transaction.producer_id)
        writer.string(transaction.state)
        writer.end()
    writer.end()
    return writer.buffer


def failure(_: ListTransactionsRequest, code: ErrorCode, __: str | None) -> ListTransactionsReply:
    return ListTransactionsReply(error=code)


API = Api(
    66, "ListTransactions", 0, 2, _FLEXIBLE_FROM, ListTransactionsRequest, decode, encode, failure
)
