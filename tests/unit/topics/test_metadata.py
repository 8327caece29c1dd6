"""Metadata, DescribeCluster, DescribeTopicPartitions."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.core.partitioning import OFFSETS_TOPIC
from groupd.coordinator.core.types import Operation, Resource
from groupd.coordinator.runtime.coordinator_types import SHARE_TOPIC, TRANSACTIONS_TOPIC
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    Node,
    PartitionRun,
)
from groupd.protocol.messages.groups import OPERATIONS_NOT_ASKED
from groupd.storage.memory import MemoryStore


def named(*names, **fields):
    return MetadataRequest(tuple((name, NO_TOPIC_ID) for name in names), **fields)


async def test_all_topics_with_the_internal_ones(cluster):
    await cluster.create("b", 2)
    await cluster.create("a")
    reply = await cluster.ask(MetadataRequest(None))
    assert [(info.name, info.internal, info.partition_count) for info in reply.topics] == [
        (OFFSETS_TOPIC, True, 50),
        (SHARE_TOPIC, True, 50),
        (TRANSACTIONS_TOPIC, True, 50),
        ("a", False, 1),
        ("b", False, 2),
    ]
    assert (reply.nodes, reply.controller_id) == ((Node(0, "127.0.0.1", 9092),), 0)
    assert len(reply.cluster_id) == 22
    assert reply.topics[4].partitions == (PartitionRun(0, 2, 0, 0, (0,), (0,)),)


async def test_no_topics_is_not_all_topics(cluster):
    assert (await cluster.ask(MetadataRequest(()))).topics == ()


async def test_nodes_may_be_known_later(cluster):
    cluster.nodes.append(Node(1, "127.0.0.1", 9093))
    assert len((await cluster.ask(MetadataRequest(()))).nodes) == 2


async def test_auto_creation_answers_at_once(cluster):
    reply = await cluster.ask(named("new"))
    assert (reply.topics[0].error, reply.topics[0].partition_count) == (ErrorCode.NONE, 1)
    assert reply.topics[0].topic_id == cluster.plane.catalogue.topic("new").topic_id


async def test_concurrent_auto_creations_agree(cluster):
    replies = await asyncio.gather(*(cluster.ask(named("new")) for _ in range(4)))
    assert len({reply.topics[0].topic_id for reply in replies}) == 1
    assert all(reply.topics[0].error == ErrorCode.NONE for reply in replies)


async def test_auto_creation_has_the_configured_partitions(make_cluster):
    cluster = await make_cluster(MemoryStore(), num_partitions=7).start()
    assert (await cluster.ask(named("new"))).topics[0].partition_count == 7
    await cluster.stop()


async def test_auto_creation_switched_off(make_cluster):
    cluster = await make_cluster(MemoryStore(), auto_create_topics_enable=False).start()
    reply = await cluster.ask(named("new"))
    assert reply.topics[0].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.plane.catalogue.topic("new") is None
    await cluster.stop()


async def test_the_request_may_forbid_auto_creation(cluster):
    reply = await cluster.ask(named("new", "a b", allow_auto_topic_creation=False))
    assert [info.error for info in reply.topics] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert cluster.plane.catalogue.topic("new") is None


@pytest.mark.parametrize("name", ["", "a b", "..", "x" * 250])
async def test_illegal_names_are_invalid(cluster, name):
    reply = await cluster.ask(named(name))
    assert reply.topics[0].error == ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_by_id(cluster):
    topic_id = await cluster.create("a")
    reply = await cluster.ask(MetadataRequest(((None, topic_id), (None, b"x" * 16))))
    assert [(info.name, info.error) for info in reply.topics] == [
        ("a", ErrorCode.NONE),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]


async def test_neither_name_nor_id(cluster):
    with pytest.raises(ApiError) as caught:
        await cluster.ask(MetadataRequest(((None, NO_TOPIC_ID),)))
    assert caught.value.code == ErrorCode.INVALID_REQUEST


async def test_what_may_not_be_described_is_hidden(cluster):
    topic_id = await cluster.create("a")

    def nothing(operation, resource, name):
        return False

    assert (await cluster.ask(MetadataRequest(None), allows=nothing)).topics == ()
    by_name = (await cluster.ask(named("a", "no"), allows=nothing)).topics
    assert [(info.error, info.topic_id) for info in by_name] == [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, NO_TOPIC_ID)
    ] * 2
    by_id = (await cluster.ask(MetadataRequest(((None, topic_id),)), allows=nothing)).topics[0]
    assert (by_id.name, by_id.error) == (None, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


async def test_auto_creation_needs_rights(cluster):
    def describe_only(operation, resource, name):
        return operation == Operation.DESCRIBE

    def create_topic_t(operation, resource, name):
        return operation == Operation.DESCRIBE or (resource, name) == (Resource.TOPIC, "t")

    refused = (await cluster.ask(named("t"), allows=describe_only)).topics[0]
    assert refused.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (await cluster.ask(named("t"), allows=create_topic_t)).topics[0].error == 0


async def test_authorized_operations(cluster):
    await cluster.create("a")
    plain = await cluster.ask(named("a"))
    assert plain.topics[0].authorized_operations == OPERATIONS_NOT_ASKED
    assert plain.cluster_authorized_operations == OPERATIONS_NOT_ASKED
    asked = await cluster.ask(
        named(
            "a",
            include_topic_authorized_operations=True,
            include_cluster_authorized_operations=True,
        ),
        allows=lambda operation, *_: operation in (Operation.READ, Operation.DESCRIBE),
    )
    assert asked.topics[0].authorized_operations == 1 << 3 | 1 << 8
    assert asked.cluster_authorized_operations == 1 << 8


async def test_describe_cluster(cluster):
    reply = await cluster.ask(DescribeClusterRequest())
    assert (reply.error, reply.controller_id, len(reply.nodes)) == (ErrorCode.NONE, 0, 1)
    assert reply.cluster_id == (await cluster.ask(MetadataRequest(()))).cluster_id
    for endpoint_type, code in (
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ):
        reply = await cluster.ask(DescribeClusterRequest(endpoint_type=endpoint_type))
        assert reply.error == code


def numbers(info):
    return [number for run in info.partitions for number in range(run.first, run.end)]


async def pages(cluster, topics, limit):
    """All pages as [(topic, partitions)] each, following the cursor."""
    cursor, result = None, []
    while True:
        reply = await cluster.ask(DescribeTopicPartitionsRequest(topics, limit, cursor))
        result.append(
            [
                (i.name, [n for run in i.partitions for n in range(run.first, run.end)])
                for i in reply.topics
            ]
        )
        cursor = reply.next_cursor
        if cursor is None:
            return result


async def test_topic_partitions_page_by_page(cluster):
    await cluster.create("a", 3)
    await cluster.create("b", 2)
    assert await pages(cluster, ("b", "a"), 2) == [
        [("a", [0, 1])],
        [("a", [2]), ("b", [0])],
        [("b", [1])],
    ]
    assert await pages(cluster, ("b", "a"), 3) == [[("a", [0, 1, 2])], [("b", [0, 1])]]
    assert await pages(cluster, ("b", "a"), 2000) == [[("a", [0, 1, 2]), ("b", [0, 1])]]
    everything = await pages(cluster, (), 2000)
    assert [name for name, _ in everything[0]] == [
        OFFSETS_TOPIC,
        SHARE_TOPIC,
        TRANSACTIONS_TOPIC,
        "a",
        "b",
    ]


async def test_unknown_illegal_and_refused_topics(cluster):
    request = DescribeTopicPartitionsRequest(("no", "a b", "secret"))
    reply = await cluster.ask(request, allows=lambda _, __, name: name != "secret")
    assert [(info.name, info.error) for info in reply.topics] == [
        ("a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("no", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]


@pytest.mark.parametrize("cursor", [("z", 0), ("a", -1)])
async def test_bad_cursors(cluster, cursor):
    await cluster.create("a")
    with pytest.raises(ApiError) as caught:
        await cluster.ask(DescribeTopicPartitionsRequest(("a",), 10, cursor))
    assert caught.value.code == ErrorCode.INVALID_REQUEST
