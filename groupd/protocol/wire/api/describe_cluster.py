"""DescribeCluster (60), v0-2. Always flexible; v1 adds the endpoint type (KIP-919), v2 fenced
brokers (KIP-1073); here no broker is ever fenced."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import DescribeClusterReply, DescribeClusterRequest
from groupd.protocol.reader import Reader
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer

_BROKERS = 1


def read(reader: Reader) -> DescribeClusterRequest:
    return DescribeClusterRequest(
        include_cluster_authorized_operations=reader.boolean(),
        endpoint_type=reader.int8() if reader.version >= 1 else _BROKERS,
        include_fenced_brokers=reader.version >= 2 and reader.boolean(),
    )


def write(writer: Writer, reply: DescribeClusterReply) -> None:
    writer.throttle_time()
    writer.int16(reply.error)
    writer.nullable_string(reply.error_message)
    if writer.version >= 1:
        writer.int8(reply.endpoint_type)
    writer.string(reply.cluster_id)
    writer.int32(reply.controller_id)
    for node in writer.structs(reply.nodes):
        writer.int32(node.node_id)
        writer.string(node.host)
        writer.int32(node.port)
        writer.nullable_string(node.rack)
        if writer.version >= 2:
            writer.boolean(False)
    writer.int32(reply.cluster_authorized_operations)


def failure(
    request: DescribeClusterRequest, code: ErrorCode, message: str | None
) -> DescribeClusterReply:
    return DescribeClusterReply(code, message, request.endpoint_type)


API = api(60, DescribeClusterRequest, "0-2", "0+", read, write, failure)
