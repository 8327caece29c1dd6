"""DescribeCluster (60), v0-2. Always flexible; v1 adds the endpoint type (KIP-919), v2 fenced
brokers (KIP-1073): none is ever fenced here."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import DescribeClusterReply, DescribeClusterRequest
from groupd.protocol.wire.encode import Writer
from groupd.protocol.wire.reader import Reader, decoder
from groupd.protocol.wire.registry import Api

_BROKERS = 1
_FLEXIBLE_FROM = 0


@decoder(_FLEXIBLE_FROM)
def decode(reader: Reader) -> DescribeClusterRequest:
    request = DescribeClusterRequest(
        include_cluster_authorized_operations=reader.boolean(),
        endpoint_type=reader.int8() if reader.version >= 1 else _BROKERS,
        include_fenced_brokers=reader.version >= 2 and reader.boolean(),
    )
    reader.end()
    return request


def encode(reply: DescribeClusterReply, version: int) -> bytearray:
    writer = Writer(flexible=True)
    writer.int32(0)
    writer.int16(reply.error)
    writer.nullable_string(reply.error_message)
    if version >= 1:
        writer.int8(reply.endpoint_type)
    writer.string(reply.cluster_id)
    writer.int32(reply.controller_id)
    writer.array_length(len(reply.nodes))
    for node in reply.nodes:
        writer.int32(node.node_id)
        writer.string(node.host)
        writer.int32(node.port)
        writer.nullable_string(node.rack)
        if version >= 2:
            writer.boolean(False)
        writer.end()
    writer.int32(reply.cluster_authorized_operations)
    writer.end()
    return writer.buffer


def failure(
    request: DescribeClusterRequest, code: ErrorCode, message: str | None
) -> DescribeClusterReply:
    return DescribeClusterReply(code, message, request.endpoint_type)


API = Api(
    60, "DescribeCluster", 0, 2, _FLEXIBLE_FROM, DescribeClusterRequest, decode, encode, failure
)
