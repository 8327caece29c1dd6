"""DescribeTransactions (65), v0, flexible (KIP-664)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.transactions import (
    DescribedTransaction,
    DescribeTransactionsReply,
    DescribeTransactionsRequest,
)
from groupd.protocol.primitives import Reader, Writer
from groupd.protocol.wire.registry import api


def read(reader: Reader) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(reader.array(Reader.string))


def write(writer: Writer, reply: DescribeTransactionsReply) -> None:
    writer.int32(0)
    for transaction in writer.structs(reply.transactions):
        writer.int16(transaction.error)
        writer.string(transaction.transactional_id)
        writer.string(transaction.state)
        writer.int32(transaction.timeout_ms)
        writer.int64(transaction.start_time_ms)
        writer.int64(transaction.producer_id)
        writer.int16(transaction.producer_epoch)
        for topic in writer.structs(transaction.topics):
            writer.string(topic.name)
            writer.int32_array(topic.partitions)


def failure(
    request: DescribeTransactionsRequest, code: ErrorCode, _: str | None
) -> DescribeTransactionsReply:
    return DescribeTransactionsReply(
        tuple(DescribedTransaction(name, code) for name in request.transactional_ids)
    )


API = api(65, DescribeTransactionsRequest, "0", "0+", read, write, failure)
