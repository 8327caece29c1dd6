"""Metadata (3), v0-13.

v1 adds rack, controller id, the internal flag, and null (not empty) as "all topics"; v2 the cluster
id, v3 throttle time, v4 the switch for automatic creation, v5 offline replicas, v7 the leader
epoch, v8 authorized operations, v9 is flexible, v10 adds topic ids, v11 drops the cluster's
authorized operations, v12 lets a request name a topic by its id (name null), v13 adds the top-level
error.

The layout of v10 and v11 already has ids and null names, but Kafka answers INVALID_REQUEST if a
client uses them. They are decoded as in later versions, so the handler may serve them.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import lru_cache
from struct import Struct

from msgspec.structs import replace

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import (
    MetadataReply,
    MetadataRequest,
    Node,
    PartitionRun,
    TopicInfo,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.schema import array, converted, struct
from groupd.protocol.wire.api.topics import each_partition, single_partitions
from groupd.protocol.wire.registry import api
from groupd.protocol.writer import Writer

_FLEXIBLE_FROM = 9
_AT_ONCE = 50
"""How many partitions are written in one step."""

_PARTITION_V0 = Struct(">hii")
_PARTITION_V7 = Struct(">hiii")


def _write(writer: Writer, reply: MetadataReply) -> Generator[None, None, None]:
    if writer.version >= 3:
        writer.throttle_time()
    for node in writer.structs(reply.nodes):
        _write_node(writer, node)
    if writer.version >= 2:
        writer.nullable_string(reply.cluster_id)
    if writer.version >= 1:
        writer.int32(reply.controller_id)
    yield from writer.long_structs_in_steps(reply.topics, _write_topic)
    if 8 <= writer.version <= 10:
        writer.int32(reply.cluster_authorized_operations)
    if writer.version >= 13:
        writer.int16(reply.error)


def _write_node(writer: Writer, node: Node) -> None:
    writer.int32(node.node_id)
    writer.string(node.host)
    writer.int32(node.port)
    if writer.version >= 1:
        writer.nullable_string(node.rack)


def _write_topic(writer: Writer, topic: TopicInfo) -> Generator[None, None, None]:
    writer.int16(topic.error)
    if writer.version >= 12:
        writer.nullable_string(topic.name)
    else:
        writer.string(topic.name or "")
    if writer.version >= 10:
        writer.uuid(topic.topic_id)
    if writer.version >= 1:
        writer.boolean(topic.internal)
    writer.array_length(topic.partition_count)
    for run in topic.partitions:
        for first in range(run.first, run.end, _AT_ONCE):
            if writer.due():
                yield
            end = min(run.end, first + _AT_ONCE)
            writer.buffer += _partitions(replace(run, first=first, end=end), writer.version)
    if writer.version >= 8:
        writer.int32(topic.authorized_operations)


# Most topics of a cluster have the same number of partitions with the same leaders and replicas. So
# a reply for a thousand topics is made of the same few bytes.
@lru_cache(maxsize=256)
def _partitions(run: PartitionRun, version: int) -> bytes:
    writer = Writer(version >= _FLEXIBLE_FROM)
    writer.int32_array(run.replicas)
    writer.int32_array(run.isr)
    if version >= 5:
        writer.int32_array(run.offline)
    writer.end()
    nodes = bytes(writer.buffer)
    head, leader = int(run.error), run.leader
    if version >= 7:
        pack, epoch = _PARTITION_V7.pack, run.leader_epoch
        found = [pack(head, n, leader, epoch) + nodes for n in range(run.first, run.end)]
    else:
        pack = _PARTITION_V0.pack
        found = [pack(head, n, leader) + nodes for n in range(run.first, run.end)]
    return b"".join(found)


_ASKED = struct(tuple, "1:uuid@10+ 0:string@0-9 0:string?@10+")


def _failure(request: MetadataRequest, code: ErrorCode, _: str | None) -> MetadataReply:
    """The error code on each topic that was asked for by name or id, and at the top for v13."""
    topics = mapped(lambda key: TopicInfo(*key, error=code), request.topics or ())
    return MetadataReply((), None, -1, topics, error=code)


METADATA = api(
    3,
    "0-13",
    f"{_FLEXIBLE_FROM}+",
    struct(
        MetadataRequest,
        "topics:all_if_empty@0 topics:[]topic?@1+ allow_auto_topic_creation:bool@4+ "
        "include_cluster_authorized_operations:bool@8-10 "
        "include_topic_authorized_operations:bool@8+",
        all_if_empty=converted(
            array(_ASKED), read=lambda topics: topics or None, write=lambda topics: topics or ()
        ),
        topic=_ASKED,
    ),
    struct(
        MetadataReply,
        "throttle@3+ nodes:[]node cluster_id:string?@2+ controller_id:int32@1+ topics:[]topic "
        "cluster_authorized_operations:int32@8-10 error:error@13+",
        node=struct(Node, "node_id:int32 host:string port:int32 rack:string?@1+"),
        topic=struct(
            TopicInfo,
            "error:error name:unless_null@0-11 name:string?@12+ topic_id:uuid@10+ "
            "internal:bool@1+ partitions:partitions authorized_operations:int32@8+",
            unless_null=converted("string", write=lambda name: name or ""),
            partitions=converted(
                array(
                    struct(
                        PartitionRun,
                        "error:error first+end:int32 leader:int32 leader_epoch:int32@7+ "
                        "replicas:[]int32 isr:[]int32 offline:[]int32@5+",
                    )
                ),
                read=single_partitions,
                write=each_partition,
            ),
        ),
    ),
    _failure,
    write=_write,
)
