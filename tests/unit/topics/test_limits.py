"""What a client may ask for and leave behind has limits, with Kafka's errors."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.config.keys import CONFIGS_MAX
from groupd.coordinator.topics import long_polls
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.cluster import DescribeTopicPartitionsRequest, MetadataRequest
from groupd.protocol.messages.data import ProducePartition, ProduceRequest, ProduceTopic
from groupd.protocol.messages.producers import DescribeProducersRequest, DescribeProducersTopic
from groupd.protocol.messages.topics import (
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
    AlterConfig,
    AlterResource,
    ConfigResource,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    GrownTopic,
    IncrementalAlterConfigsRequest,
    NewTopic,
)
from groupd.storage.memory import MemoryStore
from tests.unit.topics.conftest import batch, fetch_request

SESSION_TIMEOUT = "consumer.session.timeout.ms"
POLICY = ErrorCode.POLICY_VIOLATION


def names(cluster):
    return [topic.name for topic in cluster.plane.catalogue.topics() if not topic.internal]


async def create(cluster, *topics):
    return (await cluster.ask(CreateTopicsRequest(topics))).topics


async def grow(cluster, *topics):
    asked = tuple(GrownTopic(name, count) for name, count in topics)
    return (await cluster.ask(CreatePartitionsRequest(asked))).results


# Partitions --------------------------------------------------------------------------------------


async def test_one_request_makes_at_most_ten_thousand_partitions(cluster):
    with pytest.raises(ApiError) as refused:
        await create(cluster, *(NewTopic(f"t{number}", 10_000, 1) for number in range(200)))
    assert refused.value.code == POLICY
    assert refused.value.message == "Excessively large number of partitions per request."
    assert names(cluster) == []
    (made,) = await create(cluster, NewTopic("t", 10_000, 1))
    assert made.error == ErrorCode.NONE


async def test_one_request_adds_at_most_ten_thousand_partitions(cluster):
    await cluster.create("a", 1)
    await cluster.create("b", 1)
    with pytest.raises(ApiError) as refused:
        await grow(cluster, ("a", 6000), ("b", 6000))
    assert refused.value.code == POLICY
    assert [result.error for result in await grow(cluster, ("a", 5001), ("b", 5001))] == [0, 0]


async def test_there_is_a_most_of_partitions_of_all_topics(make_cluster):
    cluster = await make_cluster(MemoryStore(), max_partitions=10, num_partitions=4).start()
    assert [made.error for made in await create(cluster, NewTopic("a", 4, 1))] == [0]
    (refused,) = await create(cluster, NewTopic("b", 7, 1))
    assert refused.error == POLICY
    assert refused.error_message == (
        "There are 4 partitions; 7 more would exceed the limit of 10 (groupd.max.partitions)."
    )
    assert [result.error for result in await grow(cluster, ("a", 11))] == [POLICY]
    assert [result.error for result in await grow(cluster, ("a", 7))] == [0]
    asked = MetadataRequest((("auto", NO_TOPIC_ID),))
    assert (await cluster.ask(asked)).topics[0].error == POLICY
    await cluster.ask(DeleteTopicsRequest((("a", NO_TOPIC_ID),)))
    assert (await cluster.ask(asked)).topics[0].error == ErrorCode.NONE
    assert names(cluster) == ["auto"]


async def test_the_limit_counts_the_topics_of_the_store(make_cluster):
    cluster = await make_cluster(MemoryStore(), max_partitions=10).start()
    await cluster.create("a", 9)
    await cluster.restart()
    assert [made.error for made in await create(cluster, NewTopic("b", 2, 1))] == [POLICY]


async def test_a_page_of_partitions_is_as_long_as_the_setting_says(make_cluster):
    store = MemoryStore()
    cluster = await make_cluster(store, max_request_partition_size_limit=3).start()
    await cluster.create("a", 5)
    reply = await cluster.ask(DescribeTopicPartitionsRequest(("a",), 2000))
    assert reply.topics[0].partition_count == 3
    assert reply.next_cursor == ("a", 3)


async def test_a_partition_has_no_thousand_replicas(cluster):
    (refused,) = await create(cluster, NewTopic("t", assignments=((0, tuple(range(1001))),)))
    assert refused.error == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert "1001 replicas" in refused.error_message


# Configs -----------------------------------------------------------------------------------------


async def alter(cluster, name, *configs, resource_type=RESOURCE_GROUP):
    asked = AlterResource(resource_type, name, tuple(AlterConfig(*config) for config in configs))
    (result,) = (await cluster.ask(IncrementalAlterConfigsRequest((asked,)))).results
    return result.error, result.error_message


async def test_there_is_a_most_of_groups_with_configs(make_cluster):
    cluster = await make_cluster(MemoryStore(), max_group_configs=2).start()
    for name in ("a", "b"):
        assert (await alter(cluster, name, (SESSION_TIMEOUT, 0, "50000")))[0] == 0
    assert await alter(cluster, "c", (SESSION_TIMEOUT, 0, "50000")) == (
        POLICY,
        "The limit of 2 groups with configs is reached.",
    )
    assert (await alter(cluster, "a", (SESSION_TIMEOUT, 0, "55000")))[0] == 0
    assert (await alter(cluster, "a", (SESSION_TIMEOUT, 1, None)))[0] == 0
    assert (await alter(cluster, "c", (SESSION_TIMEOUT, 0, "50000")))[0] == 0


async def test_a_resource_has_a_name_of_at_most_a_thousand_characters(cluster):
    assert (await alter(cluster, "g" * 1000, (SESSION_TIMEOUT, 0, "50000")))[0] == 0
    code, message = await alter(cluster, "g" * 1001, (SESSION_TIMEOUT, 0, "50000"))
    assert (code, message) == (
        ErrorCode.INVALID_REQUEST,
        "A name of 1001 characters; at most 1000 are allowed.",
    )


async def test_a_resource_takes_at_most_a_thousand_configs_at_once(cluster):
    code, message = await alter(cluster, "g", *((f"k{n}", 1, None) for n in range(CONFIGS_MAX + 1)))
    assert (code, message) == (
        ErrorCode.INVALID_REQUEST,
        "1001 configs of one resource; at most 1000 are allowed.",
    )
    given = tuple((f"k{n}", "1") for n in range(CONFIGS_MAX + 1))
    (refused,) = await create(cluster, NewTopic("t", 1, 1, configs=given))
    assert (refused.error, refused.error_message) == (code, message)


async def test_a_list_that_is_appended_to_stays_a_string_that_can_be_sent(cluster):
    await cluster.create("t")
    key, half = "leader.replication.throttled.replicas", ",".join(f"{n}:0" for n in range(3000))
    other = ",".join(f"{n}:1" for n in range(3000))
    topic = {"resource_type": RESOURCE_TOPIC}
    assert (await alter(cluster, "t", (key, 2, half), **topic))[0] == 0
    code, message = await alter(cluster, "t", (key, 2, other), **topic)
    assert (code, message) == (
        ErrorCode.INVALID_CONFIG,
        f"Invalid value for configuration {key}: longer than 32767 bytes",
    )


async def test_a_resource_that_is_asked_for_twice_is_described_once(cluster):
    await cluster.create("t")
    asked = tuple(
        ConfigResource(RESOURCE_TOPIC, "t", (key,)) for key in ("retention.ms", "cleanup.policy")
    )
    reply = await cluster.ask(DescribeConfigsRequest(asked))
    (described,) = reply.results
    assert [value.name for value in described.configs] == ["cleanup.policy", "retention.ms"]
    whole = (*asked, ConfigResource(RESOURCE_TOPIC, "t"))
    (described,) = (await cluster.ask(DescribeConfigsRequest(whole))).results
    assert len(described.configs) > 30


async def test_what_is_described_later_is_what_was_so_when_it_was_asked_for(cluster):
    await cluster.create("t")
    asked = DescribeConfigsRequest((ConfigResource(RESOURCE_TOPIC, "t", ("retention.ms",)),))
    before = await cluster.ask(asked)
    await alter(cluster, "t", ("retention.ms", 0, "5"), resource_type=RESOURCE_TOPIC)
    assert [value.value for value in before.results[0].configs] == ["604800000"]
    after = await cluster.ask(asked)
    assert [value.value for value in after.results[0].configs] == ["5"]


async def test_a_partition_that_is_asked_for_twice_is_described_once(cluster):
    await cluster.create("t", 2)
    topic = DescribeProducersTopic("t", (0, 1, 0))
    reply = await cluster.ask(DescribeProducersRequest((topic, topic)))
    assert [[one.partition for one in found.partitions] for found in reply.topics] == [[0, 1]]


# Fetch -------------------------------------------------------------------------------------------


async def test_requests_that_wait_for_too_many_partitions_look_again_now_and_then(
    cluster, monkeypatch
):
    """Their clients would come back at once, again and again."""
    monkeypatch.setattr(long_polls, "WAITED_FOR_MAX", 3)
    await cluster.create("t", 4)

    async def waits(*places, count):
        asked = fetch_request("t", *places, max_wait_ms=1000, min_bytes=1)
        task = asyncio.create_task(cluster.ask(asked))
        while cluster.clock.waiting < count:
            await asyncio.sleep(0)
        return task

    async def passes(time_ms, count):
        cluster.clock.advance(time_ms)
        for _ in range(20):
            await asyncio.sleep(0)
        assert cluster.clock.waiting == count

    watching = await waits((0, 0), (1, 0), count=1)
    looking = await waits((2, 0), (3, 0), count=2)
    await passes(long_polls.UNWATCHED_MS, 2)
    assert not looking.done()
    part = ProducePartition(2, batch())
    await cluster.ask(ProduceRequest((ProduceTopic("t", NO_TOPIC_ID, (part,)),)))
    await passes(long_polls.UNWATCHED_MS, 1)
    assert (await looking).topics[0].partitions[0].records
    empty = await waits((2, 1), (3, 0), count=2)
    assert not watching.done()
    await passes(1000, 0)
    assert [part.error for part in (await watching).topics[0].partitions] == [0, 0]
    await empty


async def test_a_session_takes_one_request_at_a_time(cluster):
    """A long request is worked on in turns. Another one with the same epoch is too late."""
    many = tuple((number, 0) for number in range(500))
    await cluster.create("t", 500)
    opened = await cluster.ask(fetch_request("t", *many, session_epoch=0))
    again = fetch_request("t", *many, session_id=opened.session_id, session_epoch=1)
    replies = await asyncio.gather(cluster.ask(again), cluster.ask(again))
    assert sorted(reply.error for reply in replies) == [
        ErrorCode.NONE,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ]
    assert cluster.plane.fetch_sessions.partitions == 500


async def test_a_request_that_the_next_one_has_overtaken_is_too_late(cluster):
    many = tuple((number, 0) for number in range(500))
    await cluster.create("t", 500)
    opened = await cluster.ask(fetch_request("t", *many, session_epoch=0))
    session = {"session_id": opened.session_id}
    first = asyncio.create_task(cluster.ask(fetch_request("t", *many, session_epoch=1, **session)))
    (known,) = cluster.plane.fetch_sessions._sessions.values()
    while known.epoch == 1:
        await asyncio.sleep(0)
    second = await cluster.ask(fetch_request("t", session_epoch=2, **session))
    assert second.error == ErrorCode.NONE
    assert (await first).error == ErrorCode.INVALID_FETCH_SESSION_EPOCH


# Long requests -----------------------------------------------------------------------------------


async def test_a_long_produce_is_answered_like_a_short_one(cluster):
    await cluster.create("a", 150)
    await cluster.create("b", 150)
    many = tuple(ProducePartition(number, batch()) for number in range(150))
    unknown = (*many, ProducePartition(999, batch()))
    asked = (("a", many), ("b", unknown), ("c", ()))
    request = ProduceRequest(tuple(ProduceTopic(name, NO_TOPIC_ID, some) for name, some in asked))
    reply = await cluster.ask(request)
    assert [(found.name, len(found.partitions)) for found in reply.topics] == [
        ("a", 150),
        ("b", 151),
        ("c", 0),
    ]
    assert [one.partition for one in reply.topics[0].partitions] == list(range(150))
    assert {one.base_offset for one in reply.topics[0].partitions} == {0}
    last = reply.topics[1].partitions[150]
    assert (last.partition, last.error) == (999, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
