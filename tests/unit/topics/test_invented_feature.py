"""The data plane takes a feature that reads, waits, has sessions and keeps soft state with timers:
the invented one in `lending`, without a change anywhere else."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.runtime.waiting import Waiter
from groupd.coordinator.server.connection import Connection
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.frontend import Frontend
from groupd.coordinator.server.open_connections import OpenConnections
from groupd.coordinator.topics import long_polls
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.topics import DeleteTopicsRequest
from groupd.protocol.wire.header import RequestHeader
from groupd.storage.log import LogUnavailable
from tests.unit.runtime.harness import Bench
from tests.unit.server.harness import FakeTransport, own_resources
from tests.unit.topics.lending import (
    LENT_MS,
    NOT_KNOWN,
    NOT_YOUR_TURN,
    Borrow,
    Borrowed,
    Desk,
    Lent,
)

OK = ErrorCode.NONE


class World:
    """A data plane, a broker and a desk. Loans count by the clock of the broker, long polls by that
    of the data plane."""

    def __init__(self, cluster, bench, slots):
        self.cluster = cluster
        self.bench = bench
        self.desk = Desk(cluster.plane, bench.clock, slots)
        bench.broker.tasks.routes.update({Borrow: self.desk.route})

    def connect(self):
        return Member(self)

    async def produce(self, value, partition=0):
        result = await self.cluster.produce("t", self.cluster.batch(value), partition)
        assert result.error == OK
        await self.cluster.settle()

    async def loans(self, partition=0):
        return await self.desk.loans("t", partition)


class Member:
    """A member on a connection of its own."""

    def __init__(self, world, name="m"):
        self.world = world
        self.name = name
        config = world.bench.config
        self.connection = Connection(
            config,
            world.bench.clock,
            Frontend(world.bench.broker, lambda: "cluster", lambda: 0),
            ConnectionStats(),
            OpenConnections(config),
            own_resources(config),
        )
        transport = FakeTransport()
        transport.connection = self.connection
        self.connection.connection_made(transport)

    def send(self, epoch, *partitions, **fields):
        request = Borrow(
            "d", self.name, epoch, tuple(("t", number) for number in partitions), **fields
        )
        api = self.world.desk.api
        self.connection._unanswered += 1
        self.connection._submit(b"", RequestHeader(api.key, 0, 1, "c", 0), api, request, 0)

    async def borrow(self, epoch, *partitions, **fields):
        """The reply; None while the request waits."""
        self.world.desk.replies.clear()
        self.send(epoch, *partitions, **fields)
        return await self.reply()

    async def reply(self):
        await self.world.cluster.settle()
        return self.world.desk.replies.pop() if self.world.desk.replies else None

    def leave(self):
        self.connection.connection_lost(None)


def offsets(reply):
    assert isinstance(reply, Borrowed)
    assert reply.error == OK
    return [(one.partition, one.offset) for one in reply.lent]


@pytest.fixture
async def world(cluster):
    await cluster.create("t", 3)
    bench = await Bench().start()
    yield World(cluster, bench, slots=2)
    await bench.broker.close()


# Reading and waiting ------------------------------------------------------------------------


async def test_it_reads_and_waits_and_is_woken_by_records(world):
    member = world.connect()
    await world.produce(b"a")
    assert offsets(await member.borrow(0, 0, 1)) == [(0, 0)]
    assert await member.borrow(1, max_wait_ms=500) is None
    await world.produce(b"b", 1)
    assert offsets(await member.reply()) == [(1, 0)]
    assert await member.borrow(2, max_wait_ms=500) is None
    world.cluster.clock.advance(500)
    assert offsets(await member.reply()) == []


async def test_it_is_woken_by_what_happens_beside_the_log(world):
    await world.produce(b"a")
    first, second = world.connect(), world.connect()
    second.name = "m2"
    assert offsets(await first.borrow(0, 0)) == [(0, 0)]
    assert await second.borrow(0, 0, max_wait_ms=1000) is None
    world.bench.clock.advance(LENT_MS - 1)
    assert await second.reply() is None
    world.bench.clock.advance(1)
    assert offsets(await second.reply()) == [(0, 0)]


async def test_a_record_is_lent_once_though_two_were_woken_by_it(world):
    members = [world.connect() for _ in range(2)]
    members[1].name = "m2"
    for member in members:
        assert await member.borrow(0, 0, max_wait_ms=1000) is None
    await world.produce(b"a")
    assert offsets(await members[0].reply()) == [(0, 0)]
    assert await members[1].reply() is None
    world.cluster.clock.advance(1000)
    assert offsets(await members[1].reply()) == []


async def test_what_many_wait_for_is_limited(world, monkeypatch):
    monkeypatch.setattr(long_polls, "WAITED_FOR_MAX", 1)
    member = world.connect()
    assert await member.borrow(0, 0, 1, max_wait_ms=1000) is None
    assert (await world.loans()).waiters == set()
    world.cluster.clock.advance(1000)
    assert offsets(await member.reply()) == []


# What ends with the client ------------------------------------------------------------------


async def test_what_rides_on_a_request_takes_effect_and_nothing_is_read_for_a_client_that_is_gone(
    world,
):
    await world.produce(b"a")
    await world.produce(b"b")
    member = world.connect()
    assert offsets(await member.borrow(0, 0)) == [(0, 0)]
    loans = await world.loans()
    # Partition 1 must be opened first, and meanwhile the client goes.
    member.send(1, back=(("t", 1, 0), ("t", 0, 0)))
    await asyncio.sleep(0)
    member.leave()
    assert (loans.lent, len(world.desk.states)) == ({0: "m"}, 1)
    assert await member.reply() is None
    assert (loans.lent, len(world.desk.states)) == ({}, 2)
    assert loans.next_offset == 1
    assert world.bench.broker.idle


async def test_waiting_ends_with_the_client(world):
    member = world.connect()
    assert await member.borrow(0, 0, max_wait_ms=1000) is None
    assert world.cluster.clock.waiting == 1
    member.leave()
    await world.cluster.settle()
    assert world.cluster.clock.waiting == 0
    assert (await world.loans()).waiters == set()


# Sessions -----------------------------------------------------------------------------------


async def test_sessions_have_epochs_and_partitions_come_and_go(world):
    await world.produce(b"a", 1)
    member = world.connect()
    assert offsets(await member.borrow(0, 0)) == []
    assert (await member.borrow(2)).error == NOT_YOUR_TURN
    assert offsets(await member.borrow(1, 1)) == [(1, 0)]
    session = world.desk.sessions.get(("d", "m"))
    assert list(session.targets) == [("t", 0), ("t", 1)]
    assert offsets(await member.borrow(2, forgotten=(("t", (0,)),))) == []
    assert (list(session.targets), world.desk.sessions.partitions) == ([("t", 1)], 1)
    other = world.connect()
    other.name = "m2"
    assert (await other.borrow(1)).error == NOT_KNOWN


async def test_a_request_that_was_overtaken_is_refused(world):
    first, second = world.connect(), world.connect()
    assert await first.borrow(0, 0, max_wait_ms=1000) is None
    assert offsets(await second.borrow(1)) == []
    world.cluster.clock.advance(1000)
    assert (await first.reply()).error == NOT_YOUR_TURN


async def test_nobody_has_to_go_for_a_new_session_and_one_ends_with_its_connection(world):
    members = [world.connect() for _ in range(3)]
    for number, member in enumerate(members):
        member.name = f"m{number}"
    assert [(await one.borrow(0, 0)).error for one in members] == [
        OK,
        OK,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]
    members[0].leave()
    assert (await members[2].borrow(0, 0)).error == OK
    assert world.desk.sessions.partitions == 2


async def test_the_end_of_an_old_connection_leaves_the_new_session(world):
    old, new = world.connect(), world.connect()
    assert offsets(await old.borrow(0, 0)) == []
    before = world.desk.sessions.get(("d", "m"))
    assert offsets(await new.borrow(0, 0)) == []
    old.leave()
    world.desk.sessions.end(before)
    assert offsets(await new.borrow(1)) == []
    new.leave()
    assert len(world.desk.sessions) == 0


async def test_a_session_that_is_opened_after_its_client_has_gone_ends_at_once(world):
    member = world.connect()
    member.send(0, 0)
    member.leave()
    assert await member.reply() is None
    assert len(world.desk.sessions) == 0


def test_a_request_of_our_own_has_no_client_that_could_go():
    Waiter(None, lambda *_: None).on_disconnect(lambda: pytest.fail("nobody is gone"))()


async def test_who_is_told_that_a_client_is_gone(world):
    told = []

    def broken():
        raise RuntimeError("bug")

    session = world.connect().connection.session
    session.on_disconnect(broken)
    session.on_disconnect(lambda: told.append("a"))
    session.on_disconnect(lambda: told.append("b"))()
    session.end()
    session.on_disconnect(lambda: told.append("late"))()
    assert told == ["a", "late"]


# Soft state of a partition ------------------------------------------------------------------


async def borrowed(world):
    """The loans of partition 0, of which a record is lent."""
    await world.produce(b"a")
    assert offsets(await world.connect().borrow(0, 0)) == [(0, 0)]
    loans = await world.loans()
    assert (loans.lent, len(loans.deadlines)) == ({0: "m"}, 1)
    return loans


async def gone(world, loans):
    """The state is dropped, and none of its timers comes any more."""
    assert (loans.lent, loans.closed) == ({}, True)
    assert world.desk.states.get(loans.partition) is None
    assert loans._timer.at_ms is None
    loans.deadlines.set(("loan", "m", 0), 0)
    loans.lent[0] = "m"
    loans.arm()
    world.bench.clock.advance(2 * LENT_MS)
    assert loans.returned == []


async def test_it_is_dropped_after_a_failed_append_and_made_anew(world):
    loans = await borrowed(world)
    world.cluster.store.fail_next_append(LogUnavailable("disk full"))
    await world.cluster.produce("t", world.cluster.batch(b"lost"))
    await gone(world, loans)
    again = await world.loans()
    assert again is not loans
    assert (again.lent, len(world.desk.states)) == ({}, 1)
    with pytest.raises(ApiError) as refused:
        world.desk.states.of(loans.partition)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_it_is_dropped_with_its_topic(world):
    loans = await borrowed(world)
    await world.cluster.ask(DeleteTopicsRequest((("t", NO_TOPIC_ID),)))
    await gone(world, loans)


async def test_it_is_dropped_when_another_node_is_to_lead(world):
    loans = await borrowed(world)
    await world.cluster.plane.unit_server.give_up(loans.partition.unit)
    await gone(world, loans)


async def test_who_waits_for_a_partition_that_is_given_up_looks_again(world):
    loans = await world.loans()
    member = world.connect()
    assert await member.borrow(0, 0, max_wait_ms=1000) is None
    world.cluster.plane.unit_server.drop(loans.partition.unit)
    await world.produce(b"a")
    assert offsets(await member.reply()) == [(0, 0)]
    assert await world.loans() is not loans


async def test_a_deadline_that_fails_comes_again(world, monkeypatch):
    loans = await borrowed(world)
    expire, failed = loans.expire, []

    def broken(key, now):
        failed.append(key)
        raise RuntimeError("bug")

    monkeypatch.setattr(loans, "expire", broken)
    world.bench.clock.advance(LENT_MS)
    assert failed == [("loan", "m", 0)]
    monkeypatch.setattr(loans, "expire", expire)
    world.bench.clock.advance(1000)
    assert (loans.lent, loans.returned) == ({}, [0])


async def test_a_state_that_cannot_be_dropped_leaves_the_others(world, monkeypatch):
    loans = await borrowed(world)
    dropped = []

    def broken():
        raise RuntimeError("bug")

    monkeypatch.setattr(loans, "dropped", broken)
    world.cluster.plane.partitions.on_drop.append(dropped.append)
    world.cluster.plane.unit_server.drop(loans.partition.unit)
    assert dropped == [loans.partition]


async def test_what_is_brought_back_is_answered_one_by_one(world):
    await borrowed(world)
    member = world.connect()
    reply = await member.borrow(1, back=(("t", 0, 0), ("t", 0, 7), ("none", 0, 0)))
    assert reply.back == (
        OK,
        ErrorCode.INVALID_RECORD_STATE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    )
    assert not any(isinstance(one, Lent) for one in reply.lent)
