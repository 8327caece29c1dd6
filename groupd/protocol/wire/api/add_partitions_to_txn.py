"""AddPartitionsToTxn (24), v0-5. v2 allows PRODUCER_FENCED, v3 is flexible, v4 carries several
transactions, a verify-only flag and an error of the whole request (from brokers only, KIP-890), v5
allows TRANSACTION_ABORTABLE.

v0-3 carry one transaction, which is read into the form of v4.
"""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.transactions import (
    AddedTopic,
    AddedTransaction,
    AddPartitionsToTxnReply,
    AddPartitionsToTxnRequest,
    AddPartitionsTransaction,
    TxnTopic,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.outcomes import write_partition_error
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer

_BATCHED_FROM = 4


def read(reader: Reader) -> AddPartitionsToTxnRequest:
    if reader.version >= _BATCHED_FROM:
        transactions = reader.structs(_read_transaction)
    else:
        transactions = (
            AddPartitionsTransaction(
                reader.string(), reader.int64(), reader.int16(), reader.structs(_read_topic)
            ),
        )
    return AddPartitionsToTxnRequest(transactions)


def _read_transaction(reader: Reader) -> AddPartitionsTransaction:
    transactional_id, producer_id = reader.string(), reader.int64()
    producer_epoch, verify_only = reader.int16(), reader.boolean()
    return AddPartitionsTransaction(
        transactional_id, producer_id, producer_epoch, reader.structs(_read_topic), verify_only
    )


def _read_topic(reader: Reader) -> TxnTopic:
    return TxnTopic(reader.string(), reader.int32_array())


def write(writer: Writer, reply: AddPartitionsToTxnReply) -> Generator[None, None, None]:
    writer.throttle_time()
    if writer.version >= _BATCHED_FROM:
        writer.int16(reply.error)
        results = () if reply.error else reply.transactions
        yield from writer.long_structs_in_steps(results, _write_transaction)
    else:
        yield from writer.long_structs_in_steps(reply.transactions[0].topics, _write_topic)


def _write_transaction(
    writer: Writer, transaction: AddedTransaction
) -> Generator[None, None, None]:
    writer.string(transaction.transactional_id)
    yield from writer.long_structs_in_steps(transaction.topics, _write_topic)


def _write_topic(writer: Writer, topic: AddedTopic) -> Generator[None, None, None]:
    writer.string(topic.name)
    yield from writer.structs_in_steps(topic.partitions, write_partition_error)


def failure(
    request: AddPartitionsToTxnRequest, code: ErrorCode, _: str | None
) -> AddPartitionsToTxnReply:
    """The error on every partition in v0-3, on the whole request in later versions."""
    return AddPartitionsToTxnReply(
        mapped(lambda transaction: all_failed(transaction, code), request.transactions), code
    )


def all_failed(transaction: AddPartitionsTransaction, code: ErrorCode) -> AddedTransaction:
    """The error `code` on each partition of one transaction."""

    def topic(asked: TxnTopic) -> AddedTopic:
        return AddedTopic(asked.name, mapped(lambda item: (item, code), asked.partitions))

    return AddedTransaction(transaction.transactional_id, mapped(topic, transaction.topics))


API = api(24, AddPartitionsToTxnRequest, "0-5", "3+", read, write, failure)
