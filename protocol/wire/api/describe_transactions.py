"""DescribeTransactions (65), v0, flexible (KIP-664)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.transactions import (
    DescribedTransaction,
    DescribeTransactionsReply,
    DescribeTransactionsRequest,
)
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 0


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> DescribeTransactionsRequest:
    request = DescribeTransactionsRequest(reader.array(Reader.string))
    reader.end()
    return request


def encode(reply: DescribeTransactionsReply, _: int) -> bytearray:
    writer = Writer(flexible=True)
    writer.int32(0)
    writer.array_length(len(reply.transactions))
    for transaction in reply.transactions:
        writer.int16(transaction.error)
        writer.string(transaction.transactional_id)
        writer.string(transaction.state)
        writer.int32(transaction.timeout_ms)
        writer.int64(transaction.start_time_ms)
        writer.int64(transaction.producer_id)
        writer.int16(transaction.producer_epoch)
        writer.array_length(len(transaction.topics))
        for topic in transaction.topics:
            writer.string(topic.name)
            writer.int32_array(topic.partitions)
            writer.end()
        writer.end()
    writer.end()
    return writer.buffer


def failure(
    request: DescribeTransactionsRequest, code: ErrorCode, _: str | None
) -> DescribeTransactionsReply:
    return DescribeTransactionsReply(
        tuple(DescribedTransaction(name, code) for name in request.transactional_ids)
    )


API = Api(
    65,
    "DescribeTransactions",
    0,
    0,
    _FLEXIBLE_FROM,
    DescribeTransactionsRequest,
    decode,
    encode,
    failure,
)
