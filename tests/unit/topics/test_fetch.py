"""Fetch: limits, errors, long polls, sessions, `__consumer_offsets`."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.core.partitioning import OFFSETS_TOPIC
from groupd.coordinator.core.types import Operation
from groupd.coordinator.runtime.coordinator_types import GROUP_COORDINATOR
from groupd.coordinator.runtime.waiting import Waiter
from groupd.coordinator.topics.long_polls import wait_for_event
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.data import (
    READ_COMMITTED,
    FetchDataTopic,
    FetchPartition,
    FetchRequest,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from groupd.protocol.records.batch import iter_records
from groupd.protocol.records.batch_builder import encode_batch
from groupd.storage.log import Append
from groupd.storage.memory import MemoryStore
from tests.support.fetched import whole_batches


def values(records):
    return [r.value for b in whole_batches(records) for r in iter_records(b)]


@pytest.fixture
async def filled(cluster):
    """Topic t with two partitions; partition 0 holds 0..4, one record a batch."""
    await cluster.create("t", 2)
    for n in range(5):
        await cluster.produce("t", cluster.batch(b"%d" % n))
    return cluster


async def test_from_an_offset(filled):
    fetched = await filled.fetch("t", 3)
    assert values(fetched.records) == [b"3", b"4"]
    assert (fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset) == (
        5,
        5,
        0,
    )


async def test_inside_a_batch_gives_the_whole_batch(cluster):
    await cluster.create("t")
    await cluster.produce("t", cluster.batch(b"a", b"b", b"c"))
    assert values((await cluster.fetch("t", 1)).records) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("cold", [False, True])
async def test_from_memory_and_from_the_store_alike(filled, cold):
    if cold:
        await filled.restart()
    size = len(filled.batch(b"0"))
    for offset in range(5):
        rest = [b"%d" % n for n in range(offset, 5)]
        assert values((await filled.fetch("t", offset)).records) == rest
        two = await filled.fetch("t", offset, partition_max_bytes=2 * size + 1)
        assert values(two.records) == rest[:2]
        assert len(two.records) == min(2 * size + 1, len(rest) * size)
        one = await filled.fetch("t", offset, partition_max_bytes=1)
        assert values(one.records) == rest[:1]


async def test_tail_reads_do_not_touch_the_store(filled):
    filled.store.fail_next_read()
    assert (await filled.fetch("t", 0)).error == ErrorCode.NONE


async def test_aborted_is_a_list_only_for_read_committed(filled):
    assert (await filled.fetch("t")).aborted is None
    assert (await filled.fetch("t", isolation_level=READ_COMMITTED)).aborted == ()


@pytest.mark.parametrize("offset", [-1, 6, 1000])
async def test_out_of_range(filled, offset):
    fetched = await filled.fetch("t", offset, max_wait_ms=60000)
    assert (fetched.error, fetched.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)


async def test_unknown_topics_partitions_and_ids(filled):
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await filled.fetch("no")).error == unknown
    assert (await filled.fetch("t", partition=2)).error == unknown
    assert (await filled.fetch("", topic_id=b"x" * 16)).error == ErrorCode.UNKNOWN_TOPIC_ID
    topic_id = filled.plane.catalogue.topic("t").topic_id
    assert (await filled.fetch("", topic_id=topic_id, partition=2)).error == unknown
    assert values((await filled.fetch("", 4, topic_id=topic_id)).records) == [b"4"]


async def test_fetch_needs_rights(filled):
    topic_id = filled.plane.catalogue.topic("t").topic_id
    for request in (
        filled.fetch_request("t", (0, 0)),
        filled.fetch_request("", (0, 0), topic_id=topic_id),
        filled.fetch_request("no", (0, 0)),
    ):
        reply = await filled.ask(request, allows=lambda op, *_: op != Operation.READ)
        assert reply.topics[0].partitions[0].error == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, ErrorCode.NONE),
        (0, ErrorCode.NONE),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
async def test_leader_epochs(filled, epoch, code):
    asked = FetchPartition(0, 0, 1000, current_leader_epoch=epoch)
    reply = await filled.ask(filled.fetch_request("t", asked))
    assert reply.topics[0].partitions[0].error == code


async def test_last_fetched_epochs(filled):
    async def ask(offset, epoch):
        asked = FetchPartition(0, offset, 1000, last_fetched_epoch=epoch)
        reply = await filled.ask(filled.fetch_request("t", asked, max_wait_ms=60000))
        return reply.topics[0].partitions[0]

    assert values((await ask(4, 0)).records) == [b"4"]
    ahead = await ask(9, 0)
    assert (ahead.error, ahead.diverging_epoch, ahead.records) == (ErrorCode.NONE, (0, 5), b"")
    assert (await ask(4, 1)).error == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_limits_over_partitions(filled):
    for n in range(3):
        await filled.produce("t", filled.batch(b"x%d" % n), 1)
    size = len(filled.batch(b"0"))

    async def counts(**limits):
        request = filled.fetch_request("t", (0, 0), (1, 0), **limits)
        parts = (await filled.ask(request)).topics[0].partitions
        return [len(values(part.records)) for part in parts]

    assert await counts() == [5, 3]
    assert await counts(max_bytes=1) == [1, 0]
    assert await counts(max_bytes=3 * size) == [3, 0]
    assert await counts(max_bytes=6 * size + 3) == [5, 1]
    assert await counts(partition_max_bytes=2 * size + 2) == [2, 2]
    assert await counts(partition_max_bytes=0) == [1, 0]


@pytest.mark.parametrize("cold", [False, True])
async def test_a_limit_cuts_the_batch_that_does_not_fit(filled, cold):
    for n in range(3):
        await filled.produce("t", filled.batch(b"%d" % n), 1)
    if cold:
        await filled.restart()
    size = len(filled.batch(b"0"))
    whole = [bytes((await filled.fetch("t", partition=n)).records) for n in (0, 1)]

    async def sizes(**limits):
        request = filled.fetch_request("t", (0, 0), (1, 0), **limits)
        parts = (await filled.ask(request)).topics[0].partitions
        for part, everything in zip(parts, whole, strict=True):
            assert everything.startswith(part.records)
        return [len(part.records) for part in parts]

    for limit in (0, 1, size - 1, size):
        assert await sizes(max_bytes=limit) == [size, 0]
        assert await sizes(partition_max_bytes=limit) == [size, size if limit == size else 0]
    assert await sizes(max_bytes=size + 1) == [size + 1, 0]
    assert await sizes(max_bytes=5 * size + 10) == [5 * size, 0]
    assert await sizes(max_bytes=7 * size - 1) == [5 * size, 2 * size - 1]
    assert await sizes(partition_max_bytes=2 * size + 7) == [2 * size + 7, 2 * size + 7]


async def test_the_first_partition_with_data_gets_a_batch(filled):
    request = filled.fetch_request("t", (1, 0), (0, 0), max_bytes=1)
    empty, first = (await filled.ask(request)).topics[0].partitions
    assert (values(empty.records), values(first.records)) == ([], [b"0"])


async def test_the_brokers_limit(make_cluster):
    cluster = await make_cluster(MemoryStore(), fetch_max_bytes=1024).start()
    await cluster.create("t")
    for _ in range(4):
        await cluster.produce("t", cluster.batch(b"x" * 300))
    assert len(values((await cluster.fetch("t")).records)) == 2
    await cluster.stop()


async def test_a_read_that_fails(filled):
    await filled.restart()
    await filled.fetch("t", 5)
    filled.store.fail_next_read()
    failed = await filled.fetch("t", 0)
    assert (failed.error, failed.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    assert len(values((await filled.fetch("t", 0)).records)) == 5


async def test_a_long_poll_is_woken_by_an_append(filled):
    poll = asyncio.create_task(filled.fetch("t", 5, max_wait_ms=60000))
    await filled.settle()
    assert (poll.done(), filled.clock.waiting) == (False, 1)
    await filled.produce("t", filled.batch(b"new"))
    assert values((await poll).records) == [b"new"]
    assert filled.clock.waiting == 0


async def test_a_long_poll_ends_with_its_time(filled):
    poll = asyncio.create_task(filled.fetch("t", 5, max_wait_ms=500))
    await filled.settle()
    filled.clock.advance(499)
    await filled.settle()
    assert not poll.done()
    filled.clock.advance(1)
    fetched = await poll
    assert (fetched.error, fetched.records, fetched.high_watermark) == (ErrorCode.NONE, b"", 5)


async def test_a_long_poll_ends_when_others_wait_for_its_memory(filled):
    request = filled.fetch_request("t", (0, 4), max_wait_ms=60000, min_bytes=10**6)
    told = []

    class ToldWhenShort(Waiter):
        def on_memory_short(self, callback):
            told.append(callback)

    poll = asyncio.create_task(filled.ask(request, waiter=ToldWhenShort))
    await filled.settle()
    assert not poll.done()
    told[0]()
    reply = await poll
    assert values(reply.topics[0].partitions[0].records) == [b"4"], "what there is"
    assert told[1:] == [None]
    assert filled.clock.waiting == 0


async def test_the_broker_may_end_a_long_poll_before_its_time(make_cluster):
    cluster = await make_cluster(MemoryStore(), fetch_max_wait_ms=25).start()
    await cluster.create("t")
    poll = asyncio.create_task(cluster.fetch("t", 0, max_wait_ms=60000))
    await cluster.settle()
    cluster.clock.advance(24)
    await cluster.settle()
    assert not poll.done()
    cluster.clock.advance(1)
    assert (await poll).error == ErrorCode.NONE
    await cluster.stop()


async def test_min_bytes_waits_for_more(filled):
    size = len(filled.batch(b"a"))
    poll = asyncio.create_task(filled.fetch("t", 5, max_wait_ms=1000, min_bytes=2 * size))
    await filled.settle()
    await filled.produce("t", filled.batch(b"a"))
    await filled.settle()
    assert not poll.done()
    await filled.produce("t", filled.batch(b"b"))
    assert values((await poll).records) == [b"a", b"b"]


async def test_min_bytes_above_the_limit_does_not_wait_for_ever(filled):
    fetched = await filled.fetch("t", 0, max_wait_ms=60000, min_bytes=10**9, max_bytes=100)
    assert values(fetched.records) == [b"0"]


async def test_an_error_while_reading_answers_at_once(filled):
    await filled.create("u")
    at_the_end = FetchDataTopic("t", NO_TOPIC_ID, (FetchPartition(0, 5, 100),))
    beyond = FetchDataTopic("u", NO_TOPIC_ID, (FetchPartition(0, 7, 100),))
    reply = await filled.ask(FetchRequest((at_the_end, beyond), max_wait_ms=60000))
    codes = [topic.partitions[0].error for topic in reply.topics]
    assert codes == [ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE]


async def test_what_is_refused_does_not_keep_a_fetch_from_waiting_for_the_rest(filled):
    """Rights, and what exists, are looked at once: docs/spec/security.md#4."""
    await filled.create("hidden")
    asked = []

    def allows(operation, resource, name):
        asked.append(name)
        return name != "hidden"

    topics = tuple(
        FetchDataTopic(name, NO_TOPIC_ID, (FetchPartition(number, 5, 100),))
        for name, number in (("t", 0), ("t", 7), ("hidden", 0))
    )
    request = FetchRequest(topics, max_wait_ms=60000)
    waiting = asyncio.create_task(filled.ask(request, allows=allows))
    await filled.settle()
    assert filled.clock.waiting == 1
    await filled.produce("t", filled.batch(b"new"))
    reply = await waiting
    found = [(topic.name, part.partition, part.error) for topic in reply.topics
             for part in topic.partitions]  # fmt: skip
    assert found == [
        ("t", 0, ErrorCode.NONE),
        ("t", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("hidden", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]
    assert asked == ["t", "hidden"]


async def test_a_fetch_of_nothing_but_refused_partitions_is_answered_at_once(filled):
    request = filled.fetch_request("t", (0, 5), (7, 0), max_wait_ms=60000)
    reply = await filled.ask(request, allows=lambda *_: False)
    codes = [part.error for part in reply.topics[0].partitions]
    assert codes == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2


async def test_a_replica_needs_cluster_action(filled):
    def only(wanted):
        return lambda operation, resource, name: operation is wanted

    request = filled.fetch_request("t", (0, 0), replica_id=1)
    for wanted, code in (
        (Operation.CLUSTER_ACTION, ErrorCode.NONE),
        (Operation.READ, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ):
        reply = await filled.ask(request, allows=only(wanted))
        assert reply.topics[0].partitions[0].error == code


async def test_nothing_asked_nothing_waited_for(filled):
    assert (await filled.ask(filled.fetch_request("t", max_wait_ms=60000))).topics == ()


async def test_an_append_during_the_reading_is_not_missed(filled):
    """The high watermark moves after a partition was read and before the fetch waits."""
    await filled.restart()
    store_read, appended = filled.store.read, []

    async def read(*args, **options):
        result = await store_read(*args, **options)
        if not appended:
            appended.append(True)
            await filled.produce("t", filled.batch(b"late"), 0)
        return result

    await filled.produce("t", filled.batch(b"5"), 1)
    await filled.restart()
    await filled.fetch("t", 5)
    await filled.fetch("t", 1, 1)
    filled.store.read = read
    request = filled.fetch_request("t", (0, 5), (1, 0), max_wait_ms=60000, min_bytes=100)
    reply = await asyncio.wait_for(filled.ask(request), 5)
    assert [values(part.records) for part in reply.topics[0].partitions] == [[b"late"], [b"5"]]


async def test_a_long_poll_survives_a_failed_append(filled):
    poll = asyncio.create_task(filled.fetch("t", 5, max_wait_ms=60000))
    await filled.settle()
    filled.store.fail_next_append()
    assert (await filled.produce("t", filled.batch(b"x"))).error != ErrorCode.NONE
    await filled.settle()
    assert not poll.done()
    await filled.produce("t", filled.batch(b"y"))
    assert values((await poll).records) == [b"y"]


async def test_a_cancelled_poll_leaves_nothing_behind(filled):
    poll = asyncio.create_task(filled.fetch("t", 5, max_wait_ms=60000))
    await filled.settle()
    poll.cancel()
    await filled.settle()
    assert filled.clock.waiting == 0
    log = filled.plane.partitions.is_open(filled.plane.catalogue.topic("t"), 0)
    assert not log._waiters


async def test_closing_ends_long_polls(cluster):
    await cluster.create("t")
    poll = asyncio.create_task(cluster.fetch("t", max_wait_ms=60000))
    await cluster.settle()
    await cluster.plane.close()
    assert (await poll).error == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_many_partitions_in_one_append_and_fetch(filled):
    parts = tuple(ProducePartition(n, filled.batch(b"both")) for n in (0, 1))
    poll = asyncio.create_task(
        filled.ask(filled.fetch_request("t", (0, 5), (1, 0), max_wait_ms=60000))
    )
    await filled.settle()
    await filled.ask(ProduceRequest((ProduceTopic("t", bytes(16), parts),)))
    reply = await poll
    assert [values(part.records) for part in reply.topics[0].partitions] == [[b"both"], [b"both"]]


async def append_offsets(cluster, partition, base_offset, owner_epoch):
    payload = encode_batch(base_offset, 0, 0, [(b"k", b"v%d" % base_offset)])
    name = f"__consumer_offsets-{partition}"
    await cluster.store.append([Append(name, owner_epoch, base_offset, base_offset, 0, payload)])


async def test_consumer_offsets_can_be_read(cluster):
    state = await cluster.store.open("__consumer_offsets-3")
    for offset in range(3):
        await append_offsets(cluster, 3, offset, state.owner_epoch)
    cluster.shards.set(3, 1, 2)
    fetched = await cluster.fetch(OFFSETS_TOPIC, 1, 3)
    assert (fetched.log_start_offset, fetched.high_watermark) == (1, 2)
    assert values(fetched.records) == [b"v1"]
    by_id = await cluster.fetch("", 1, 3, topic_id=GROUP_COORDINATOR.topic.topic_id)
    assert values(by_id.records) == [b"v1"]
    assert (await cluster.fetch(OFFSETS_TOPIC, 0, 3)).error == ErrorCode.OFFSET_OUT_OF_RANGE
    poll = asyncio.create_task(cluster.fetch(OFFSETS_TOPIC, 2, 3, max_wait_ms=60000))
    await cluster.settle()
    assert not poll.done()
    cluster.shards.set(3, 1, 3)
    assert values((await poll).records) == [b"v2"]
    assert cluster.shards.waiters == set()
    assert (await cluster.store.open("__consumer_offsets-3")).owner_epoch == 2


async def test_a_shard_that_is_not_served(cluster):
    fetched = await cluster.fetch(OFFSETS_TOPIC, 0, 3)
    assert fetched.error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    beyond = await cluster.fetch(OFFSETS_TOPIC, 0, 50)
    assert beyond.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_the_real_timer():
    event = asyncio.Event()
    await wait_for_event(event, 1)
    event.set()
    await asyncio.wait_for(wait_for_event(event, 60000), 5)
