"""AddPartitionsToTxn (24), v0-5. v2 allows PRODUCER_FENCED, v3 is flexible, v4 carries several
transactions, a verify-only flag and an error of the whole request (from brokers only, KIP-890), v5
allows TRANSACTION_ABORTABLE.

v0-3 carry one transaction, which is read into the form of v4.
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.transactions import (
    AddedTopic,
    AddedTransaction,
    AddPartitionsToTxnReply,
    AddPartitionsToTxnRequest,
    AddPartitionsTransaction,
    TxnTopic,
)
from groupd.protocol.primitives import Reader, Writer
from groupd.protocol.wire.registry import api

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


def write(writer: Writer, reply: AddPartitionsToTxnReply) -> None:
    writer.int32(0)
    if writer.version >= _BATCHED_FROM:
        writer.int16(reply.error)
        results = () if reply.error else reply.transactions
        for transaction in writer.structs(results):
            writer.string(transaction.transactional_id)
            _write_topics(writer, transaction.topics)
    else:
        _write_topics(writer, reply.transactions[0].topics)


def _write_topics(writer: Writer, topics: tuple[AddedTopic, ...]) -> None:
    for topic in writer.structs(topics):
        writer.string(topic.name)
        for partition, error in writer.structs(topic.partitions):
            writer.int32(partition)
            writer.int16(error)


def failure(
    request: AddPartitionsToTxnRequest, code: ErrorCode, _: str | None
) -> AddPartitionsToTxnReply:
    """The error on every partition in v0-3, on the whole request in later versions."""
    return AddPartitionsToTxnReply(
        tuple(all_failed(transaction, code) for transaction in request.transactions), code
    )


def all_failed(transaction: AddPartitionsTransaction, code: ErrorCode) -> AddedTransaction:
    """The error `code` on each partition of one transaction."""
    return AddedTransaction(
        transaction.transactional_id,
        tuple(
            AddedTopic(topic.name, tuple((partition, code) for partition in topic.partitions))
            for topic in transaction.topics
        ),
    )


API = api(24, AddPartitionsToTxnRequest, "0-5", "3+", read, write, failure)
