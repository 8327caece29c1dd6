"""WriteTxnMarkers (27), v1-2: the transaction coordinator's word to the logs. v2 adds the
transaction version (KIP-1228). Both are flexible.
"""

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
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_FLEXIBLE_FROM = 1


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> WriteTxnMarkersRequest:
    markers = reader.array(_marker)
    reader.end()
    return WriteTxnMarkersRequest(markers)


def _marker(reader: Reader) -> WritableMarker:
    marker = WritableMarker(
        producer_id=reader.int64(),
        producer_epoch=reader.int16(),
        committed=reader.boolean(),
        topics=reader.array(_topic),
        coordinator_epoch=reader.int32(),
        transaction_version=reader.int8() if reader.version >= 2 else 0,
    )
    reader.end()
    return marker


def _topic(reader: Reader) -> MarkerTopic:
    name = reader.string()
    partitions = reader.int32_array()
    reader.end()
    return MarkerTopic(name, partitions)


def encode(reply: WriteTxnMarkersReply, _: int) -> bytearray:
    writer = Writer(flexible=True)
    writer.array_length(len(reply.markers))
    for marker in reply.markers:
        writer.int64(marker.producer_id)
        writer.array_length(len(marker.topics))
        for topic in marker.topics:
            writer.string(topic.name)
            writer.array_length(len(topic.partitions))
            for partition, error in topic.partitions:
                writer.int32(partition)
                writer.int16(error)
                writer.end()
            writer.end()
        writer.end()
    writer.end()
    return writer.buffer


def failure(
    request: WriteTxnMarkersRequest, code: ErrorCode, _: str | None
) -> WriteTxnMarkersReply:
    """The code at every partition."""
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


API = Api(
    27, "WriteTxnMarkers", 1, 2, _FLEXIBLE_FROM, WriteTxnMarkersRequest, decode, encode, failure
)
