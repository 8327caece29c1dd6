"""CreateTopics, DeleteTopics, CreatePartitions."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.core.partitioning import OFFSETS_TOPIC
from groupd.coordinator.core.types import Operation, Resource
from groupd.coordinator.topics.topic import log_name
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    GrownTopic,
    NewTopic,
)
from groupd.storage.log import LogUnavailable
from groupd.storage.memory import MemoryStore


async def create(cluster, topic, **fields):
    reply = await cluster.ask(CreateTopicsRequest((topic,), **fields))
    return reply.topics[0]


async def test_a_created_topic_is_described_in_full(cluster):
    made = await create(
        cluster, NewTopic("t", 3, 3, configs=(("retention.ms", "5"), ("cleanup.policy", "compact")))
    )
    assert (made.error, made.partitions, made.replication_factor) == (ErrorCode.NONE, 3, 3)
    assert made.topic_id == cluster.plane.catalogue.topic("t").topic_id
    configs = {value.name: value for value in made.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].source) == ("5", 1)
    assert (configs["segment.bytes"].value, configs["segment.bytes"].source) == ("1073741824", 5)
    assert [value.name for value in made.configs] == sorted(configs)


async def test_defaults_of_the_broker(make_cluster):
    cluster = await make_cluster(
        MemoryStore(), num_partitions=4, default_replication_factor=2
    ).start()
    made = await create(cluster, NewTopic("t"))
    assert (made.partitions, made.replication_factor) == (4, 2)
    await cluster.stop()


BAD_TOPICS = [
    (NewTopic("a b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),
    (NewTopic("old", 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
    (NewTopic("old", 0, 0), ErrorCode.TOPIC_ALREADY_EXISTS),
    (NewTopic(OFFSETS_TOPIC, 1, 1), ErrorCode.TOPIC_ALREADY_EXISTS),
    (NewTopic("t", 0, 1), ErrorCode.INVALID_PARTITIONS),
    (NewTopic("t", -2, 1), ErrorCode.INVALID_PARTITIONS),
    (NewTopic("__cluster_metadata", 1, 1), ErrorCode.INVALID_REQUEST),
    (NewTopic("t", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
    (NewTopic("t", 1, -2), ErrorCode.INVALID_REPLICATION_FACTOR),
    (NewTopic("t", 1, 4), ErrorCode.INVALID_REPLICATION_FACTOR),
    (NewTopic("t", 1, 1, configs=(("no.such", "1"),)), ErrorCode.INVALID_CONFIG),
    (NewTopic("t", 1, 1, configs=(("retention.ms", None),)), ErrorCode.INVALID_CONFIG),
    (NewTopic("t", 1, 1, configs=(("retention.ms", "x"),)), ErrorCode.INVALID_CONFIG),
    (NewTopic("t", 1, -1, assignments=((0, (0,)),)), ErrorCode.INVALID_REQUEST),
    (NewTopic("t", -1, 1, assignments=((0, (0,)),)), ErrorCode.INVALID_REQUEST),
    (NewTopic("t", assignments=((0, (0,)), (0, (0,)))), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("t", assignments=((1, (0,)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("t", assignments=((0, ()),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("t", assignments=((0, (1, 1)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("t", assignments=((0, (-1,)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    (NewTopic("t", assignments=((0, (0, 7)),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
]


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize(("topic", "code"), BAD_TOPICS)
async def test_refused_topics(cluster, topic, code, validate_only):
    await cluster.create("old")
    refused = await create(cluster, topic, validate_only=validate_only)
    assert refused.error == code
    assert refused.error_message
    assert cluster.plane.catalogue.topic("t") is None


async def test_a_topic_larger_than_our_own_limit(make_cluster):
    cluster = await make_cluster(MemoryStore(), max_partitions_per_topic=4).start()
    refused = await create(cluster, NewTopic("t", 5, 1))
    assert (refused.error, refused.error_message) == (
        ErrorCode.INVALID_PARTITIONS,
        "5 partitions exceed the limit of 4.",
    )
    await cluster.stop()


async def test_manual_assignments(cluster):
    cluster.nodes.append(Node(1, "127.0.0.1", 9093))
    made = await create(cluster, NewTopic("t", assignments=((1, (1, 0)), (0, (0, 1)))))
    assert (made.error, made.partitions, made.replication_factor) == (ErrorCode.NONE, 2, 2)


async def test_replicas_of_another_number(cluster):
    cluster.nodes.append(Node(1, "127.0.0.1", 9093))
    text = (
        "The manual partition assignment includes a partition with 2 replica(s), but this is not "
        "consistent with previous partitions, which have 1 replica(s)."
    )
    refused = await create(cluster, NewTopic("t", assignments=((0, (0,)), (1, (0, 1)))))
    assert (refused.error, refused.error_message) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    await create(cluster, NewTopic("t", 1, 2))
    reply = await cluster.ask(CreatePartitionsRequest((GrownTopic("t", 3, ((0,), (0, 1))),)))
    assert (reply.results[0].error, reply.results[0].error_message) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        text,
    )


@pytest.mark.parametrize("replicas", [(1,), (1, 0)])
async def test_added_partitions_with_as_many_replicas_as_there_are_nodes(cluster, replicas):
    """Nobody remembers how many replicas were asked for at first, so any number is right."""
    cluster.nodes.append(Node(1, "127.0.0.1", 9093))
    await create(cluster, NewTopic("t", assignments=((0, (0, 1)),)))
    reply = await cluster.ask(CreatePartitionsRequest((GrownTopic("t", 3, (replicas,) * 2),)))
    assert reply.results[0].error is ErrorCode.NONE
    reply = await cluster.ask(CreatePartitionsRequest((GrownTopic("t", 4, ((1, 2),)),)))
    assert (reply.results[0].error, reply.results[0].error_message) == (
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes broker 2, but no such broker is registered.",
    )


async def test_validate_only_makes_nothing(cluster):
    made = await create(cluster, NewTopic("t", 2, 1), validate_only=True)
    assert (made.error, made.partitions, made.topic_id) == (ErrorCode.NONE, 2, NO_TOPIC_ID)
    assert made.configs
    assert cluster.plane.catalogue.topic("t") is None


async def test_a_name_given_twice(cluster):
    topics = (NewTopic("t", 1, 1), NewTopic("u", 1, 1), NewTopic("t", 2, 1))
    reply = await cluster.ask(CreateTopicsRequest(topics))
    assert [(made.name, made.error) for made in reply.topics] == [
        ("u", ErrorCode.NONE),
        ("t", ErrorCode.INVALID_REQUEST),
    ]


async def test_create_needs_rights(cluster):
    def only_u(operation, resource, name):
        return resource is Resource.TOPIC and name == "u" and operation == Operation.CREATE

    topics = (NewTopic("t", 1, 1), NewTopic("u", 1, 1))
    reply = await cluster.ask(CreateTopicsRequest(topics), allows=only_u)
    assert [made.error for made in reply.topics] == [
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.NONE,
    ]
    assert reply.topics[1].configs == ()  # it may not describe configs


async def test_a_store_that_fails_is_a_retriable_error(cluster, monkeypatch):
    async def put_topic(topic, made):
        raise LogUnavailable("disk full")

    monkeypatch.setattr(cluster.store, "put_topic", put_topic)
    refused = await create(cluster, NewTopic("t", 1, 1))
    assert (refused.error, refused.error_message) == (ErrorCode.KAFKA_STORAGE_ERROR, "disk full")


async def delete(cluster, *topics, **fields):
    reply = await cluster.ask(DeleteTopicsRequest(topics), **fields)
    return [gone.error for gone in reply.topics]


async def test_delete_by_name_and_id_drops_the_logs(cluster):
    by_name = await cluster.create("a", 2)
    by_id = await cluster.create("b")
    await cluster.produce("a", cluster.batch(), 1)
    assert await delete(cluster, ("a", NO_TOPIC_ID), (None, by_id)) == [ErrorCode.NONE] * 2
    assert cluster.plane.catalogue.topic("a") is None
    assert await cluster.store.read(log_name(by_name, 1), 0, 1000) == []
    assert await cluster.store.topics() == []


async def test_refused_deletions(cluster):
    topic_id = await cluster.create("a")
    assert await delete(
        cluster,
        ("no", NO_TOPIC_ID),
        (None, b"x" * 16),
        (None, NO_TOPIC_ID),
        ("a", topic_id),
        (OFFSETS_TOPIC, NO_TOPIC_ID),
    ) == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert cluster.plane.catalogue.topic("a") is not None


async def test_one_topic_named_twice_is_not_deleted(cluster):
    topic_id = await cluster.create("a")
    codes = await delete(cluster, ("a", NO_TOPIC_ID), (None, topic_id))
    assert codes == [ErrorCode.INVALID_REQUEST] * 2
    assert await delete(cluster, ("a", NO_TOPIC_ID), ("a", NO_TOPIC_ID)) == [
        ErrorCode.INVALID_REQUEST
    ]
    assert cluster.plane.catalogue.topic("a") is not None


async def test_delete_needs_rights(cluster):
    topic_id = await cluster.create("a")

    def describe_only(operation, resource, name):
        return operation == Operation.DESCRIBE

    refused = [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert await delete(cluster, ("a", NO_TOPIC_ID), allows=describe_only) == refused
    assert await delete(cluster, (None, topic_id), allows=describe_only) == refused
    assert await delete(cluster, ("no", NO_TOPIC_ID), allows=lambda *_: False) == refused


@pytest.mark.parametrize("by_id", [False, True])
async def test_deleting_wakes_fetchers(cluster, by_id):
    topic_id = await cluster.create("a")
    named = {"topic_id": topic_id} if by_id else {}
    waiting = asyncio.create_task(cluster.fetch("" if by_id else "a", max_wait_ms=60000, **named))
    await cluster.settle()
    assert cluster.clock.waiting == 1
    await delete(cluster, ("a", NO_TOPIC_ID))
    expected = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await waiting).error == expected


async def test_a_recreated_topic_is_empty_and_has_a_new_id(cluster):
    first = await cluster.create("a")
    await cluster.produce("a", cluster.batch(b"1", b"2"))
    await delete(cluster, ("a", NO_TOPIC_ID))
    second = await cluster.create("a")
    assert first != second
    fetched = await cluster.fetch("a")
    assert (fetched.high_watermark, bytes(fetched.records)) == (0, b"")


async def grow(cluster, *topics, **fields):
    validate_only = fields.pop("validate_only", False)
    reply = await cluster.ask(
        CreatePartitionsRequest(topics, validate_only=validate_only), **fields
    )
    return [(result.name, result.error) for result in reply.results]


async def test_grow(cluster):
    await cluster.create("a", 2)
    assert await grow(cluster, GrownTopic("a", 4), validate_only=True) == [("a", ErrorCode.NONE)]
    assert cluster.plane.catalogue.topic("a").partitions == 2
    assert await grow(cluster, GrownTopic("a", 4, ((0,), (0,)))) == [("a", ErrorCode.NONE)]
    assert cluster.plane.catalogue.topic("a").partitions == 4
    assert (await cluster.produce("a", cluster.batch(), 3)).error == ErrorCode.NONE


@pytest.mark.parametrize(
    ("grown", "code"),
    [
        (GrownTopic("no", 4), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (GrownTopic("a", 2), ErrorCode.INVALID_PARTITIONS),
        (GrownTopic("a", 1), ErrorCode.INVALID_PARTITIONS),
        (GrownTopic("a", 10001), ErrorCode.INVALID_PARTITIONS),
        (GrownTopic("a", 4, ((0,),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (GrownTopic("a", 3, ((),)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (GrownTopic(OFFSETS_TOPIC, 100), ErrorCode.INVALID_TOPIC_EXCEPTION),
    ],
)
async def test_refused_growth(cluster, grown, code):
    await cluster.create("a", 2)
    assert await grow(cluster, grown) == [(grown.name, code)]
    assert cluster.plane.catalogue.topic("a").partitions == 2


async def test_growing_twice_in_one_request_and_rights(cluster):
    await cluster.create("a", 2)
    twice = await grow(cluster, GrownTopic("a", 3), GrownTopic("a", 4))
    assert twice == [("a", ErrorCode.INVALID_REQUEST)]
    refused = await grow(cluster, GrownTopic("a", 3), allows=lambda *_: False)
    assert refused == [("a", ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
