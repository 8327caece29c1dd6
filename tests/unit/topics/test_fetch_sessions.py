"""Fetch sessions (KIP-227): epochs, what replies leave out, room and who has to go."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.slices import REQUEST_ITEMS, Pace
from groupd.coordinator.core.types import Instant, Operation
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.topics import fetch_sessions
from groupd.coordinator.topics.fetch_sessions import (
    EVICTION_MS,
    FetchSession,
    FetchSessions,
    FetchTarget,
)
from groupd.coordinator.topics.sessions import next_epoch
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import (
    READ_COMMITTED,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    FetchDataTopic,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    ForgottenTopic,
)
from groupd.protocol.messages.topics import DeleteTopicsRequest
from groupd.protocol.records.batch import iter_records
from groupd.storage.log import LogUnavailable
from groupd.storage.memory import MemoryStore
from tests.support.fetched import whole_batches

VERSION = 12
MANY = 10


class Reader:
    """A client in a session."""

    def __init__(self, cluster, name="t", topic_id=None, version=VERSION):
        self.cluster = cluster
        self.name = name if topic_id is None else ""
        self.topic_id = topic_id or bytes(16)
        self.version = version
        self.session_id = 0
        self.epoch = 0

    async def fetch(self, *places, forget=(), **fields):
        """`places`: (partition, offset). The reply; the next epoch is the session's."""
        asked = tuple(FetchPartition(*place, 1 << 20) for place in places)
        topics = (FetchDataTopic(self.name, self.topic_id, asked),) if asked else ()
        forgotten = (ForgottenTopic(self.name, self.topic_id, tuple(forget)),) if forget else ()
        fields.setdefault("max_wait_ms", 0)
        allows = fields.pop("allows", None)
        request = FetchRequest(
            topics,
            session_id=self.session_id,
            session_epoch=self.epoch,
            forgotten=forgotten,
            **fields,
        )
        options = {} if allows is None else {"allows": allows}
        reply = await self.cluster.ask(request, self.version, **options)
        if reply.error is ErrorCode.NONE:
            self.session_id, self.epoch = reply.session_id, self.epoch + 1
        return reply


def parts(reply):
    """Partition -> values, of all partitions in a reply."""
    return {
        part.partition: [
            (record.value or b"").decode()
            for batch in whole_batches(part.records)
            if not batch.header.is_control
            for record in iter_records(batch)
        ]
        for topic in reply.topics
        for part in topic.partitions
    }


@pytest.fixture
async def many(cluster):
    """Topic t with ten partitions, of which 0 has a record."""
    await cluster.create("t", MANY)
    await cluster.produce("t", cluster.batch(b"a"))
    return cluster


@pytest.fixture
async def reader(many):
    """A client in a session over all partitions, at their ends."""
    made = Reader(many)
    first = await made.fetch(*((number, 0) for number in range(MANY)))
    assert len(parts(first)) == MANY
    assert first.session_id > 0
    second = await made.fetch((0, 1))
    assert (second.session_id, parts(second)) == (first.session_id, {})
    return made


async def test_only_what_has_changed_is_told(reader):
    assert parts(await reader.fetch()) == {}
    await reader.cluster.produce("t", reader.cluster.batch(b"b"), 3)
    assert parts(await reader.fetch()) == {3: ["b"]}
    # Until the reader goes on, the record is there.
    assert parts(await reader.fetch()) == {3: ["b"]}
    assert parts(await reader.fetch((3, 1))) == {}
    assert parts(await reader.fetch()) == {}


async def test_a_long_poll_in_a_session(reader):
    poll = asyncio.create_task(reader.fetch(max_wait_ms=60_000))
    await reader.cluster.settle()
    assert not poll.done()
    await reader.cluster.produce("t", reader.cluster.batch(b"b"), 7)
    assert parts(await poll) == {7: ["b"]}


async def test_a_long_poll_that_ends_with_its_time(reader):
    poll = asyncio.create_task(reader.fetch(max_wait_ms=500))
    await reader.cluster.settle()
    reader.cluster.clock.advance(500)
    assert parts(await poll) == {}


async def test_partitions_come_and_go(reader):
    cluster = reader.cluster
    await cluster.produce("t", cluster.batch(b"b"), 3)
    assert parts(await reader.fetch(forget=[3])) == {}
    assert parts(await reader.fetch((3, 0))) == {3: ["b"]}
    assert parts(await reader.fetch((3, 1), (0, 0))) == {0: ["a"]}


async def test_a_partition_with_records_goes_to_the_end(reader):
    """It goes there so that a limit does not give the same partition every time."""
    cluster = reader.cluster
    for number in (2, 5):
        await cluster.produce("t", cluster.batch(b"x"), number)
    assert list(parts(await reader.fetch(max_bytes=1))) == [2, 5]
    first = await reader.fetch(max_bytes=1)
    assert {number: found for number, found in parts(first).items() if found} == {5: ["x"]}


async def test_a_new_start_offset_is_told(reader):
    await reader.cluster.ask(DeleteRecordsRequest((DeleteRecordsTopic("t", ((0, 1),)),)))
    reply = await reader.fetch()
    assert parts(reply) == {0: []}
    assert reply.topics[0].partitions[0].log_start_offset == 1
    assert parts(await reader.fetch()) == {}


async def test_a_new_stable_offset_gives_records(many):
    """Readers of committed data see nothing before the marker, and then everything."""
    reader = Reader(many)
    committed = {"isolation_level": READ_COMMITTED}
    await reader.fetch((1, 0), **committed)
    await many.ask(
        many.produce_request(
            "t", 1, many.batch(b"x", producer=7, epoch=0, transactional=True), transactional_id="x"
        )
    )
    assert parts(await reader.fetch(**committed)) == {1: []}
    assert parts(await reader.fetch(**committed)) == {}
    assert await many.end("t", commit=True, partition=1) == ErrorCode.NONE
    assert parts(await reader.fetch(**committed)) == {1: ["x"]}


async def test_another_isolation_level_in_the_same_session(many):
    reader = Reader(many)
    await reader.fetch((1, 0), isolation_level=READ_COMMITTED)
    await many.ask(
        many.produce_request(
            "t", 1, many.batch(b"x", producer=7, epoch=0, transactional=True), transactional_id="x"
        )
    )
    await reader.fetch(isolation_level=READ_COMMITTED)
    assert parts(await reader.fetch(isolation_level=READ_COMMITTED)) == {}
    assert parts(await reader.fetch()) == {1: ["x"]}


async def test_errors_are_told_every_time_and_once_more_when_they_are_gone(reader):
    cluster = reader.cluster
    denied = lambda operation, *_: operation != Operation.READ  # noqa: E731
    for _ in range(2):
        reply = await reader.fetch(allows=denied)
        codes = {part.error for topic in reply.topics for part in topic.partitions}
        assert codes == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        assert len(parts(reply)) == MANY
    assert len(parts(await reader.fetch())) == MANY
    assert parts(await reader.fetch()) == {}
    await cluster.ask(DeleteTopicsRequest((("t", bytes(16)),)))
    reply = await reader.fetch()
    codes = {part.error for topic in reply.topics for part in topic.partitions}
    assert codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


async def test_sessions_by_topic_id(many):
    topic_id = many.plane.catalogue.topic("t").topic_id
    reader = Reader(many, topic_id=topic_id, version=13)
    assert parts(await reader.fetch((0, 0), (1, 0))) == {0: ["a"], 1: []}
    assert parts(await reader.fetch((0, 1))) == {}
    await many.produce("t", many.batch(b"b"), 1)
    reply = await reader.fetch(forget=[0])
    assert (parts(reply), reply.topics[0].topic_id) == ({1: ["b"]}, topic_id)
    reader.version = VERSION
    assert (await reader.fetch()).error == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


@pytest.mark.parametrize("epoch", [1, 3, 77])
async def test_another_epoch(reader, epoch):
    reader.epoch = epoch
    refused = await reader.fetch()
    assert (refused.error, refused.session_id, refused.topics) == (
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        0,
        (),
    )
    reader.epoch = 2
    assert (await reader.fetch()).error == ErrorCode.NONE


async def test_no_such_session(many):
    reader = Reader(many)
    reader.session_id, reader.epoch = 77, 1
    refused = await reader.fetch((0, 0))
    assert (refused.error, refused.topics) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ())


async def test_two_requests_at_once_in_one_session(reader):
    """The one that was overtaken is not answered with what the other one was told."""
    first = asyncio.create_task(reader.fetch(max_wait_ms=1000))
    await reader.cluster.settle()
    reader.epoch += 1
    assert (await reader.fetch()).error == ErrorCode.NONE
    reader.cluster.clock.advance(1000)
    overtaken = await first
    assert (overtaken.error, overtaken.session_id, overtaken.topics) == (
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        reader.session_id,
        (),
    )


@pytest.mark.parametrize("epoch", [0, -1])
async def test_a_full_fetch_ends_the_session(reader, epoch):
    sessions = reader.cluster.plane.fetch_sessions
    old = reader.session_id
    reader.epoch = epoch
    reply = await reader.fetch((0, 0))
    assert parts(reply) == {0: ["a"]}
    assert (reply.session_id != 0, len(sessions)) == (epoch == 0, int(epoch == 0))
    reader.session_id, reader.epoch = old, 3
    assert (await reader.fetch()).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_session_without_partitions_ends(reader):
    reply = await reader.fetch(forget=range(MANY), max_wait_ms=60_000)
    assert (reply.error, reply.session_id, reply.topics) == (ErrorCode.NONE, 0, ())
    assert reader.cluster.plane.fetch_sessions.partitions == 0


async def test_requests_before_sessions_are_sessionless(many):
    reader = Reader(many, version=6)
    reader.epoch = -1
    assert (await reader.fetch((0, 0))).session_id == 0


async def test_sessions_can_be_turned_off(make_cluster):
    cluster = await make_cluster(MemoryStore(), fetch_session_slots=0).start()
    await cluster.create("t")
    assert (await Reader(cluster).fetch((0, 0))).session_id == 0
    await cluster.stop()


async def test_a_restarted_partition_is_read_again(reader):
    """After a failed append the log object is another one."""
    cluster = reader.cluster
    cluster.store.fail_next_append(LogUnavailable("disk full"))
    await cluster.produce("t", cluster.batch(b"lost"), 4)
    assert (await cluster.produce("t", cluster.batch(b"kept"), 4)).error == ErrorCode.NONE
    assert parts(await reader.fetch()) == {4: ["kept"]}


# Room ------------------------------------------------------------------------------------------


class Cache:
    """Sessions without a broker, on a clock of its own."""

    def __init__(self, slots=2):
        self.ids = 0
        self.now_ms = 0
        config = CoordinatorConfig(fetch_session_slots=slots)
        self.sessions = FetchSessions(config, self.new_id)

    def new_id(self):
        self.ids += 1
        return f"{self.ids:08x}-0000-0000-0000-000000000000"

    def begin(self, session_id, epoch, *partitions, forget=()):
        asked = tuple(FetchPartition(number, 0, 1) for number in partitions)
        request = FetchRequest(
            (FetchDataTopic("t", bytes(16), asked),),
            session_id=session_id,
            session_epoch=epoch,
            forgotten=(ForgottenTopic("t", bytes(16), tuple(forget)),),
        )
        pace = LongWork().pace()
        begun = self.sessions.begin(request, by_id=False, now_ms=self.now_ms, pace=pace)
        return asyncio.run(begun)

    def open(self, size):
        """A new session's id, 0 without room."""
        asked = self.begin(0, 0, *range(size))
        finished = asked.finish([], lambda: Instant(self.now_ms, 0), LongWork().pace())
        return asyncio.run(finished)[0]

    def alive(self, *session_ids):
        return [session_id in self.sessions._sessions for session_id in session_ids]


def test_epochs_wrap_to_1():
    assert [next_epoch(epoch) for epoch in (0, 1, 2**31 - 2, 2**31 - 1)] == [1, 2, 2**31 - 1, 1]


def test_no_room_while_all_sessions_are_in_use():
    cache = Cache()
    first, second = cache.open(1), cache.open(2)
    cache.now_ms += EVICTION_MS
    assert cache.open(100) == 0
    assert cache.alive(first, second) == [True, True]


def test_the_longest_unused_session_goes_first():
    cache = Cache()
    first, second = cache.open(50), cache.open(1)
    cache.now_ms += 1
    cache.begin(first, 1)
    cache.now_ms += EVICTION_MS
    third = cache.open(1)
    assert third != 0
    assert cache.alive(first, second, third) == [True, False, True]


def test_a_larger_session_takes_the_place_of_the_smallest_that_is_old_enough():
    cache = Cache(slots=3)
    small, large = cache.open(3), cache.open(9)
    for epoch in (1, 2):
        cache.now_ms += EVICTION_MS // 2 + 1
        cache.begin(small, epoch)
        cache.begin(large, epoch)
    young = cache.open(1)
    assert cache.open(3) == 0
    larger = cache.open(4)
    assert larger != 0
    assert cache.alive(small, large, young, larger) == [False, True, True, True]


def test_partitions_are_limited_over_all_sessions(monkeypatch):
    monkeypatch.setattr(fetch_sessions, "PARTITIONS_MAX", 10)
    cache = Cache(slots=10)
    first = cache.open(6)
    assert cache.open(5) == 0
    second = cache.open(4)
    assert (cache.sessions.partitions, second != 0) == (10, True)
    cache.begin(first, 1, forget=[0, 1])
    cache.begin(second, 1, 4, 5)
    assert cache.sessions.partitions == 10
    with pytest.raises(ApiError) as refused:
        cache.begin(second, 2, 6)
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (cache.sessions.partitions, cache.alive(first, second)) == (4, [True, False])


def test_ids_are_positive_and_not_in_use():
    cache = Cache(slots=10)
    given = iter([0x80000000, 5, 5, 0xFFFFFFFF])
    cache.sessions._new_id = lambda: f"{next(given):08x}-"
    assert [cache.open(1), cache.open(1)] == [5, 2**31 - 1]


# Long requests -------------------------------------------------------------------------------


def between_turns(happens):
    """Something happens when a long request lets others have a turn."""
    work = LongWork()

    async def turn():
        await work.turn()
        happens()

    return Pace(REQUEST_ITEMS, turn)


async def test_a_session_that_ends_while_it_is_changed_takes_nothing():
    cache = Cache()
    sessions = cache.sessions
    session = FetchSession(7, False, {}, 0)
    sessions.add(session)
    more = {
        ("t", number): FetchTarget("t", b"", FetchPartition(number, 0, 1)) for number in range(300)
    }
    with pytest.raises(ApiError) as refused:
        await sessions.change(session, more, (), between_turns(lambda: sessions.end(session)))
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(sessions), sessions.partitions) == (0, 0)


async def test_a_request_that_is_overtaken_while_its_answers_are_looked_through():
    cache = Cache()
    sessions = cache.sessions
    session = FetchSession(7, False, {}, 0)
    sessions.add(session)
    target = FetchTarget("t", b"", FetchPartition(0, 0, 1))
    answers = [(target, FetchedPartition(0))] * 300
    epoch = session.epoch
    with pytest.raises(ApiError) as refused:
        await sessions.changed_answers(
            session, epoch, answers, between_turns(lambda: sessions.take_epoch(session))
        )
    assert refused.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
