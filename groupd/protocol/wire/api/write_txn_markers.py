"""WriteTxnMarkers (27), v1-2: the transaction coordinator tells the logs how a transaction ended.
v2 adds the transaction version (KIP-1228). Both are flexible."""

from __future__ import annotations

from collections.abc import Generator

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.producers import (
    MarkedTopic,
    MarkerTopic,
    WritableMarker,
    WriteTxnMarkersReply,
    WriteTxnMarkersRequest,
    WrittenMarker,
)
from groupd.protocol.reader import Reader
from groupd.protocol.wire.outcomes import write_partition_error
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer


def read(reader: Reader) -> WriteTxnMarkersRequest:
    markers = reader.structs(_marker)
    return WriteTxnMarkersRequest(markers)


def _marker(reader: Reader) -> WritableMarker:
    return WritableMarker(
        producer_id=reader.int64(),
        producer_epoch=reader.int16(),
        committed=reader.boolean(),
        topics=reader.structs(_topic),
        coordinator_epoch=reader.int32(),
        transaction_version=reader.int8() if reader.version >= 2 else 0,
    )


def _topic(reader: Reader) -> MarkerTopic:
    name = reader.string()
    partitions = reader.int32_array()
    return MarkerTopic(name, partitions)


def write(writer: Writer, reply: WriteTxnMarkersReply) -> Generator[None, None, None]:
    yield from writer.long_structs_in_steps(reply.markers, _write_marker)


def _write_marker(writer: Writer, marker: WrittenMarker) -> Generator[None, None, None]:
    writer.int64(marker.producer_id)
    yield from writer.long_structs_in_steps(marker.topics, _write_topic)


def _write_topic(writer: Writer, topic: MarkedTopic) -> Generator[None, None, None]:
    writer.string(topic.name)
    yield from writer.structs_in_steps(topic.partitions, write_partition_error)


def failure(
    request: WriteTxnMarkersRequest, code: ErrorCode, _: str | None
) -> WriteTxnMarkersReply:
    """The error code on every partition."""

    def topic(asked: MarkerTopic) -> MarkedTopic:
        return MarkedTopic(asked.name, mapped(lambda item: (item, code), asked.partitions))

    def marker(asked: WritableMarker) -> WrittenMarker:
        return WrittenMarker(asked.producer_id, mapped(topic, asked.topics))

    return WriteTxnMarkersReply(mapped(marker, request.markers))


API = api(27, WriteTxnMarkersRequest, "1-2", "1+", read, write, failure)
