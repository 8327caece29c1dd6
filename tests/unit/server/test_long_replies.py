"""Long replies come in slices: the same bytes, in the same place, and nobody waits for them."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.core.slices import Steps
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupDescribeReply,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    NamedTopicPartitions,
)
from groupd.protocol.messages.groups import (
    DescribedGroup,
    DescribedMember,
    DescribeGroupsReply,
    ListedGroup,
    ListGroupsReply,
)
from groupd.protocol.messages.lazily import Lazily
from groupd.protocol.messages.offsets import (
    FetchedGroup,
    FetchedOffset,
    FetchedTopic,
    OffsetFetchReply,
)
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.writer import STEP
from tests.support.raw import frame, request, string
from tests.unit.server.harness import Client, FakeTransport, a_listener, correlations, heartbeat

FETCH, DESCRIBE, LIST, CONSUMER_DESCRIBE = 9, 15, 16, 69
MANY = 5 * STEP


def offsets() -> Iterator[FetchedOffset]:
    for partition in range(MANY):
        yield FetchedOffset(partition, partition * 3, 4, "why" if partition % 7 == 0 else "")


def fetched(parts: Any) -> OffsetFetchReply:
    topics = (FetchedTopic("a", ()), FetchedTopic("t", parts, b"1" * 16))
    return OffsetFetchReply((FetchedGroup("g", topics),))


def members() -> Iterator[DescribedConsumerMember]:
    for number in range(MANY):
        owned = (NamedTopicPartitions(b"1" * 16, "t", (number, number + 1)),)
        yield DescribedConsumerMember(
            f"m{number}", None, None, 5, "c", "/h", ("t",), None, owned, owned, 1
        )


def described(parts: Any) -> ConsumerGroupDescribeReply:
    return ConsumerGroupDescribeReply((DescribedConsumerGroup("g", state="Stable", members=parts),))


def classic_members() -> Iterator[DescribedMember]:
    for number in range(MANY):
        yield DescribedMember(f"m{number}", None, "c", "/h", b"meta", b"assigned")


CLASSIC = DescribeGroupsReply((DescribedGroup("g", members=tuple(classic_members())),))
LISTED = ListGroupsReply(
    groups=tuple(ListedGroup(f"g{n}", "consumer", "Stable", "consumer") for n in range(MANY))
)
LONG = {
    FETCH: fetched(tuple(offsets())),
    CONSUMER_DESCRIBE: described(tuple(members())),
    DESCRIBE: CLASSIC,
    LIST: LISTED,
}
VERSIONS = [
    pytest.param(key, version, id=f"{API_BY_KEY[key].name} v{version}")
    for key in LONG
    for version in range(API_BY_KEY[key].min_version, API_BY_KEY[key].max_version + 1)
]


def ask(key: int, version: int, correlation: int) -> bytes:
    """Any request that can be read: the replies are the test's."""
    bodies = {
        FETCH: string("g") + struct.pack(">i", 0),
        DESCRIBE: struct.pack(">i", 0),
        LIST: b"",
        CONSUMER_DESCRIBE: b"\x01\x00\x00",
    }
    return frame(request(key, version, correlation, bodies[key]))


FIRST = {FETCH: 1, DESCRIBE: 0, LIST: 0}


class Work:
    """A clock of nanoseconds that each look moves on, so that a slice has two steps."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        self.now_ns += 700_000
        return self.now_ns


def in_slices() -> LongWork:
    return LongWork(Work())


def client_with_slices() -> Client:
    return Client(in_slices())


async def rounds(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def until_sent(client: Client, replies: int) -> None:
    while len(client.received()) < replies:
        await asyncio.sleep(0)


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_steps_stop_and_make_the_same_bytes(key: int, version: int) -> None:
    api = API_BY_KEY[key]
    assert api.steps is not None
    writer, steps = api.steps(LONG[key], version)
    stops = sum(1 for _ in steps)
    assert stops >= MANY // STEP - 1
    assert writer.body() == api.encode(LONG[key], version)


def stops(reply: OffsetFetchReply) -> int:
    steps = API_BY_KEY[FETCH].steps
    assert steps is not None
    return sum(1 for _ in steps(reply, 9)[1])


def test_offsets_that_fit_in_one_step_have_no_stop() -> None:
    partitions = tuple(offsets())[:STEP]
    assert stops(fetched(partitions)) == 0
    assert stops(fetched(tuple(offsets())[: STEP + 1])) > 0


def test_many_small_topics_and_groups_have_stops() -> None:
    topics = tuple(FetchedTopic(f"t{n}", tuple(offsets())[:10]) for n in range(30))
    assert stops(OffsetFetchReply((FetchedGroup("g", topics),))) >= 2
    few = tuple(FetchedGroup(f"g{n}", topics[:2]) for n in range(15))
    assert stops(OffsetFetchReply(few)) >= 2
    empty = tuple(FetchedGroup(f"g{n}") for n in range(3 * STEP))
    assert stops(OffsetFetchReply(empty)) >= 2


@pytest.mark.parametrize(
    ("key", "whole", "lazily"),
    [
        (FETCH, LONG[FETCH], fetched(Lazily(MANY, offsets))),
        (CONSUMER_DESCRIBE, LONG[CONSUMER_DESCRIBE], described(Lazily(MANY, members))),
    ],
)
def test_items_made_later_are_the_same_bytes(key: int, whole: Any, lazily: Any) -> None:
    api = API_BY_KEY[key]
    assert lazily == whole
    for version in range(api.min_version, api.max_version + 1):
        assert api.encode(lazily, version) == api.encode(whole, version)


@pytest.mark.parametrize("key", FIRST)
async def test_a_connection_sends_the_same_in_slices_and_at_once(key: int) -> None:
    sent = []
    for client in (Client(LongWork(lambda: 0)), client_with_slices()):
        client.send(ask(key, FIRST[key], 1))
        client.slots[0].send(LONG[key])
        await until_sent(client, 1)
        sent.append(client.transport.sent)
        assert client.connection.idle
    assert sent[0] == sent[1]


async def test_the_order_stays_and_nothing_new_starts_meanwhile() -> None:
    client = client_with_slices()
    client.send(heartbeat(1) + ask(FETCH, 1, 2) + heartbeat(3))
    assert client.pending() == [1, 2, 3], "worked on side by side as long as nothing is long"
    client.slots[1].send(LONG[FETCH])
    client.send(heartbeat(4))
    await client.answer(3)
    await client.answer(1)
    assert client.received() == [1]
    assert client.pending() == [1, 2, 3]
    await until_sent(client, 3)
    assert client.received() == [1, 2, 3]
    await rounds(2)
    assert client.pending() == [1, 2, 3, 4]


async def test_another_connection_is_served_between_the_slices() -> None:
    work = in_slices()
    slow, quick = Client(work), Client(work)
    slow.send(ask(FETCH, 1, 1))
    slow.slots[0].send(LONG[FETCH])
    await rounds(1)
    quick.send(heartbeat(1))
    await quick.answer(1)
    assert quick.received() == [1]
    assert slow.received() == [], "the long one is still at it"
    await until_sent(slow, 1)


async def test_two_long_replies_take_turns() -> None:
    work, log = in_slices(), []

    def steps(name: str) -> Steps[bytearray]:
        for _ in range(4):
            log.append(name)
            yield
        return bytearray(name.encode())

    done: list[Any] = []
    for name in "ab":
        work.add_reply(steps(name), done.append, lambda: True)
    while work.under_way:
        await asyncio.sleep(0)
    assert done == [b"a", b"b"]
    assert "".join(log) == "aabbaabb"


async def test_nobody_works_for_a_client_that_is_gone() -> None:
    client = client_with_slices()
    client.send(ask(FETCH, 1, 1))
    made = []

    def counted() -> Iterator[FetchedOffset]:
        for offset in offsets():
            made.append(offset)
            yield offset

    client.slots[0].send(fetched(Lazily(MANY, counted)))
    client.connection.abort()
    client.connection.connection_lost(None)
    await rounds(10)
    assert len(made) == STEP, "what came before the first stop"
    assert client.shared.work.under_way == 0


async def test_a_reply_that_fails_half_way_closes_its_connection() -> None:
    client = client_with_slices()
    client.send(ask(FETCH, 1, 1))

    def broken() -> Iterator[FetchedOffset]:
        yield from list(offsets())[: 3 * STEP]
        raise ValueError("no more")

    with capture_logs() as logs:
        client.slots[0].send(fetched(Lazily(MANY, broken)))
        await rounds(10)
    assert client.transport.aborted
    assert [entry["event"] for entry in logs] == ["reply cannot be sent"]
    assert client.received() == []


async def test_a_reply_sent_twice_is_whole_twice() -> None:
    client = client_with_slices()
    client.send(ask(FETCH, 1, 1))
    client.slots[0].send(LONG[FETCH], copies=2)
    await until_sent(client, 2)
    assert client.received() == [1, 1]


async def test_a_daemon_that_stops_finishes_what_it_is_encoding() -> None:
    client = client_with_slices()
    listener = a_listener(client.config, client.clock, client, ConnectionStats(), client.shared)
    connection, transport = listener._make(), FakeTransport()
    connection.connection_made(transport)
    connection.data_received(ask(FETCH, 1, 1))
    client.slots[0].send(LONG[FETCH])

    def close() -> None:
        assert transport.sent, "the reply has left first"
        transport.closing = True
        connection.connection_lost(None)

    transport.close = close  # type: ignore[method-assign]
    await listener.close_connections()
    assert transport.closing
    assert not transport.aborted
    assert correlations(transport.sent) == [1]
