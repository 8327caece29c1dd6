"""AddPartitionsToTxn (24), v0-5. v2 allows PRODUCER_FENCED, v3 is flexible, v4 carries several
transactions, a verify-only flag and an error of the whole request (from brokers only, KIP-890),
v5 allows TRANSACTION_ABORTABLE.

v0-3 know one transaction, which is read into the form of v4.
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
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 3
_BATCHED_FROM = 4


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> AddPartitionsToTxnRequest:
    if reader.version >= _BATCHED_FROM:
        transactions = reader.array(_read_transaction)
    else:
        transactions = (
            AddPartitionsTransaction(
                reader.string(), reader.int64(), reader.int16(), reader.array(_read_topic)
            ),
        )
    reader.end()
    return AddPartitionsToTxnRequest(transactions)


def _read_transaction(reader: Reader) -> AddPartitionsTransaction:
    transactional_id, producer_id = reader.string(), reader.int64()
    producer_epoch, verify_only = reader.int16(), reader.boolean()
    transaction = AddPartitionsTransaction(
        transactional_id, producer_id, producer_epoch, reader.array(_read_topic), verify_only
    )
    reader.end()
    return transaction


def _read_topic(reader: Reader) -> TxnTopic:
    topic = TxnTopic(reader.string(), reader.int32_array())
    reader.end()
    return topic


def encode(reply: AddPartitionsToTxnReply, version: int) -> bytearray:
    writer = Writer(flexible=version >= _FLEXIBLE_FROM)
    writer.int32(0)
    if version >= _BATCHED_FROM:
        writer.int16(reply.error)
        results = () if reply.error else reply.transactions
        writer.array_length(len(results))
        for transaction in results:
            writer.string(transaction.transactional_id)
            _write_topics(writer, transaction.topics)
            writer.end()
    else:
        _write_topics(writer, reply.transactions[0].topics)
    writer.end()
    return writer.buffer


def _write_topics(writer: Writer, topics: tuple[AddedTopic, ...]) -> None:
    writer.array_length(len(topics))
    for topic in topics:
        writer.string(topic.name)
        writer.array_length(len(topic.partitions))
        for partition, error in topic.partitions:
            writer.int32(partition)
            writer.int16(error)
            writer.end()
        writer.end()


def failure(
    request: AddPartitionsToTxnRequest, code: ErrorCode, _: str | None
) -> AddPartitionsToTxnReply:
    """On every partition for v0-3, on the whole for later ones."""
    return AddPartitionsToTxnReply(
        tuple(all_failed(transaction, code) for transaction in request.transactions), code
    )


def all_failed(transaction: AddPartitionsTransaction, code: ErrorCode) -> AddedTransaction:
    """`code` on each partition of one transaction."""
    return AddedTransaction(
        transaction.transactional_id,
        tuple(
            AddedTopic(topic.name, tuple((partition, code) for partition in topic.partitions))
            for topic in transaction.topics
        ),
    )


API = Api(
    24,
    "AddPartitionsToTxn",
    0,
    5,
    _FLEXIBLE_FROM,
    AddPartitionsToTxnRequest,
    decode,
    encode,
    failure,
)
