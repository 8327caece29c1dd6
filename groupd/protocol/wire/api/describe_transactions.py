"""DescribeTransactions (65), v0, flexible (KIP-664)."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.transactions import (
    DescribedTransaction,
    DescribeTransactionsReply,
    DescribeTransactionsRequest,
    TxnTopic,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> DescribeTransactionsRequest:
    return DescribeTransactionsRequest(reader.array(Reader.string))


def write(writer: Writer, reply: DescribeTransactionsReply) -> Generator[None, None, None]:
    writer.throttle_time()
    yield from writer.long_structs_in_steps(reply.transactions, _write_transaction)


def _write_transaction(
    writer: Writer, transaction: DescribedTransaction
) -> Generator[None, None, None]:
    writer.int16(transaction.error)
    writer.string(transaction.transactional_id)
    writer.string(transaction.state)
    writer.int32(transaction.timeout_ms)
    writer.int64(transaction.start_time_ms)
    writer.int64(transaction.producer_id)
    writer.int16(transaction.producer_epoch)
    yield from writer.structs_in_steps(transaction.topics, _write_topic)


def _write_topic(writer: Writer, topic: TxnTopic) -> None:
    writer.string(topic.name)
    writer.int32_array(topic.partitions)


def failure(
    request: DescribeTransactionsRequest, code: ErrorCode, _: str | None
) -> DescribeTransactionsReply:
    return DescribeTransactionsReply(
        mapped(lambda name: DescribedTransaction(name, code), request.transactional_ids)
    )


API = api(65, DescribeTransactionsRequest, "0", "0+", read, write, failure)
