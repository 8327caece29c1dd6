"""The calls that brokers make to each other, from the side that asks: AddPartitionsToTxn (24) v5 to
a transaction coordinator, WriteTxnMarkers (27) v2 to the leaders of partitions.

The side that answers is in `api/add_partitions_to_txn.py` and `api/write_txn_markers.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.producers import (
    MarkedTopic,
    MarkerTopic,
    WritableMarker,
    WriteTxnMarkersReply,
    WrittenMarker,
)
from groupd.protocol.messages.transactions import (
    AddedTopic,
    AddedTransaction,
    AddPartitionsToTxnReply,
    AddPartitionsTransaction,
    TxnTopic,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.calls import Ask, Call
from groupd.protocol.writer import Writer

ADD_PARTITIONS = Call(24, 5, "AddPartitionsToTxn", flexible=True)
WRITE_MARKERS = Call(27, 2, "WriteTxnMarkers", flexible=True)


def add_partitions(transactions: Sequence[AddPartitionsTransaction]) -> Ask:
    """Each transactional id at most once. The reply is an AddPartitionsToTxnReply."""

    def write(writer: Writer) -> None:
        for one in writer.structs(transactions):
            writer.string(one.transactional_id)
            writer.int64(one.producer_id)
            writer.int16(one.producer_epoch)
            writer.boolean(one.verify_only)
            _write_topics(writer, one.topics)
        writer.end()

    def read(reader: Reader) -> AddPartitionsToTxnReply:
        reader.int32()  # throttle time: brokers do not wait
        error = _code(reader.int16())
        return AddPartitionsToTxnReply(reader.structs(_transaction), error)

    return Ask(ADD_PARTITIONS, write, read)


def write_markers(markers: Sequence[WritableMarker]) -> Ask:
    """Each producer id at most once. The reply is a WriteTxnMarkersReply."""

    def write(writer: Writer) -> None:
        for one in writer.structs(markers):
            writer.int64(one.producer_id)
            writer.int16(one.producer_epoch)
            writer.boolean(one.committed)
            _write_topics(writer, one.topics)
            writer.int32(one.coordinator_epoch)
            writer.int8(one.transaction_version)
        writer.end()

    def read(reader: Reader) -> WriteTxnMarkersReply:
        return WriteTxnMarkersReply(reader.structs(_marker))

    return Ask(WRITE_MARKERS, write, read)


def _write_topics(writer: Writer, topics: Sequence[TxnTopic | MarkerTopic]) -> None:
    for topic in writer.structs(topics):
        writer.string(topic.name)
        writer.int32_array(topic.partitions)


def _transaction(reader: Reader) -> AddedTransaction:
    return AddedTransaction(
        reader.string(), reader.structs(lambda r: AddedTopic(r.string(), r.structs(_partition)))
    )


def _marker(reader: Reader) -> WrittenMarker:
    return WrittenMarker(
        reader.int64(), reader.structs(lambda r: MarkedTopic(r.string(), r.structs(_partition)))
    )


def _partition(reader: Reader) -> tuple[int, ErrorCode]:
    return reader.int32(), _code(reader.int16())


def _code(number: int) -> ErrorCode:
    """A code that is not known here is what a newer node says."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
