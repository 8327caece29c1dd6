"""WriteTxnMarkers (27), v1-2: the transaction coordinator tells the logs how a transaction ended.
v2 adds the transaction version (KIP-1228). Both are flexible."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.producers import (
    MarkedTopic,
    MarkerTopic,
    WritableMarker,
    WriteTxnMarkersReply,
    WriteTxnMarkersRequest,
    WrittenMarker,
)
from groupd.protocol.primitives import Reader, Writer
from groupd.protocol.wire.registry import api


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


def write(writer: Writer, reply: WriteTxnMarkersReply) -> None:
    for marker in writer.structs(reply.markers):
        writer.int64(marker.producer_id)
        for topic in writer.structs(marker.topics):
            writer.string(topic.name)
            for partition, error in writer.structs(topic.partitions):
                writer.int32(partition)
                writer.int16(error)


def failure(
    request: WriteTxnMarkersRequest, code: ErrorCode, _: str | None
) -> WriteTxnMarkersReply:
    """The error code on every partition."""
    return WriteTxnMarkersReply(
        tuple(
            WrittenMarker(
                marker.producer_id,
                tuple(
                    MarkedTopic(
                        topic.name, tuple((partition, code) for partition in topic.partitions)
                    )
                    for topic in marker.topics
                ),
            )
            for marker in request.markers
        )
    )


API = api(27, WriteTxnMarkersRequest, "1-2", "1+", read, write, failure)
