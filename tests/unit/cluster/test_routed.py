"""Transactions across nodes: who is asked, what goes in one request, and which codes come of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from structlog.testing import capture_logs

from groupd.client.errors import CallFailed
from groupd.coordinator.cluster import peer_batches
from groupd.coordinator.cluster.peer_batches import PeerBatches
from groupd.coordinator.cluster.peers import PeerAddress
from groupd.coordinator.cluster.routed import RoutedMarkers, RoutedVerifier
from groupd.coordinator.core.partitioning import OFFSETS_TOPIC, partition_for
from groupd.coordinator.producers.transactions import Marker, TransactionalWrite
from groupd.coordinator.runtime.coordinator_types import GROUP_COORDINATOR
from groupd.coordinator.topics.topic import Topic
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.producers import (
    MarkedTopic,
    WriteTxnMarkersReply,
    WriteTxnMarkersRequest,
    WrittenMarker,
)
from groupd.protocol.messages.transactions import (
    AddedTopic,
    AddedTransaction,
    AddPartitionsToTxnReply,
    AddPartitionsToTxnRequest,
)
from groupd.storage.log import LogError, LogUnavailable
from groupd.storage.units import TRANSACTIONS, Unit
from tests.support.fake_broker import settle
from tests.unit.cluster.fake_nodes import SELF, World

Place = tuple[str, int]
NONE = ErrorCode.NONE
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
SHARDS = 4
T0, T1 = ("t", 0), ("t", 1)


def write(name: str, *partitions: Place, producer: int = 7) -> TransactionalWrite:
    return TransactionalWrite(name, producer, 3, partitions or (T0,))


class Local:
    """The verifier and the markers of this node: they remember and agree."""

    def __init__(self) -> None:
        self.writes: list[tuple[Any, Any]] = []

    async def verify(self, asked: TransactionalWrite, *, add: bool) -> dict[Place, ErrorCode]:
        self.writes.append((asked, add))
        return dict.fromkeys(asked.partitions, NONE)

    async def write_marker(
        self, marker: Marker, partitions: Sequence[Place]
    ) -> dict[Place, ErrorCode]:
        self.writes.append((marker, tuple(partitions)))
        return dict.fromkeys(partitions, NONE)


class Coordinator:
    """Answers AddPartitionsToTxn: with `error`, or for each partition with its code."""

    def __init__(self) -> None:
        self.codes: dict[Place, list[ErrorCode]] = {}
        self.error = NONE

    def __call__(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnReply:
        return AddPartitionsToTxnReply(
            tuple(
                AddedTransaction(
                    one.transactional_id,
                    tuple(
                        AddedTopic(t.name, tuple((p, self._code(t.name, p)) for p in t.partitions))
                        for t in one.topics
                    ),
                )
                for one in request.transactions
            ),
            self.error,
        )

    def _code(self, topic: str, partition: int) -> ErrorCode:
        codes = self.codes.get((topic, partition), [NONE])
        return codes.pop(0) if len(codes) > 1 else codes[0]


# Verifying ----------------------------------------------------------------------------------


def verifier(world: World, **leaders: int) -> tuple[RoutedVerifier, Local]:
    """`leaders`: the node of each transactional id."""
    for name, node in leaders.items():
        world.ownership.leaders[Unit(TRANSACTIONS, partition_for(name, SHARDS))] = node
    local = Local()
    return RoutedVerifier(local, world.ownership, world.peers, SHARDS), local


async def test_own_ids_are_asked_here(world: World) -> None:
    routed, local = verifier(world, x=SELF)
    assert await routed.verify(write("x"), add=True) == {T0: NONE}
    assert local.writes == [(write("x"), True)]
    assert world.network.tried == 0


@pytest.mark.parametrize("add", [False, True])
async def test_ids_of_another_node(world: World, add: bool) -> None:
    answer = Coordinator()
    answer.codes = {T1: [ErrorCode.TRANSACTION_ABORTABLE]}
    node = world.add(2, answer)
    routed, local = verifier(world, x=2)
    codes = await routed.verify(write("x", T1, ("u", 5), T0), add=add)
    assert codes == {T0: NONE, T1: ErrorCode.TRANSACTION_ABORTABLE, ("u", 5): NONE}
    ((sent,),) = [request.transactions for request in node.requests]
    assert (sent.transactional_id, sent.producer_id, sent.producer_epoch) == ("x", 7, 3)
    assert [(topic.name, topic.partitions) for topic in sent.topics] == [("t", (0, 1)), ("u", (5,))]
    assert sent.verify_only is not add
    assert local.writes == []


@pytest.mark.parametrize(
    ("answered", "seen"),
    [
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH),
        (UNKNOWN, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
async def test_codes(world: World, answered: ErrorCode, seen: ErrorCode) -> None:
    answer = Coordinator()
    answer.codes = {T0: [answered]}
    world.add(2, answer)
    routed, _ = verifier(world, x=2)
    assert await routed.verify(write("x"), add=True) == {T0: seen}


async def test_nobody_to_ask(world: World) -> None:
    routed, _ = verifier(world)
    assert await routed.verify(write("x"), add=True) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    routed, _ = verifier(world, x=3)
    assert await routed.verify(write("x"), add=True) == {T0: ErrorCode.NETWORK_EXCEPTION}
    world.addresses[3] = PeerAddress("node", 3)
    assert await routed.verify(write("x"), add=True) == {T0: ErrorCode.NETWORK_EXCEPTION}


async def test_no_right_to_ask(world: World) -> None:
    answer = Coordinator()
    answer.error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    world.add(2, answer)
    routed, _ = verifier(world, x=2)
    with capture_logs() as logged:
        for _ in range(2):
            assert await routed.verify(write("x"), add=True) == {T0: ErrorCode.INVALID_TXN_STATE}
    assert ["ClusterAction" in one["event"] for one in logged] == [True]


async def test_a_transaction_that_is_ending_is_asked_about_again(world: World) -> None:
    answer = Coordinator()
    concurrent = ErrorCode.CONCURRENT_TRANSACTIONS
    answer.codes = {T0: [concurrent, concurrent, NONE]}
    node = world.add(2, answer)
    routed, _ = verifier(world, x=2)
    task = asyncio.ensure_future(routed.verify(write("x"), add=True))
    for _ in range(2):
        await settle()
        world.clock.advance(20)
    assert await task == {T0: NONE}
    assert len(node.requests) == 3
    answer.codes = {T0: [concurrent]}
    task = asyncio.ensure_future(routed.verify(write("x"), add=True))
    while not task.done():
        await settle()
        world.clock.advance(20)
    assert task.result() == {T0: concurrent}
    assert len(node.requests) == 3 + 6


async def test_what_waits_goes_in_one_request(world: World) -> None:
    node = world.add(2, Coordinator())
    names = [f"x{number}" for number in range(6)]
    routed, _ = verifier(world, **dict.fromkeys(names, 2))
    node.hold()
    tasks = [asyncio.ensure_future(routed.verify(write(names[0]), add=True))]
    await settle()
    tasks += [
        asyncio.ensure_future(routed.verify(write(name), add=True))
        for name in [*names[1:], names[1]]
    ]
    gone = asyncio.ensure_future(routed.verify(write("x5", T1), add=True))
    await settle()
    gone.cancel()
    await settle()
    assert len(node.requests) == 1
    for _ in range(3):
        node.release()
        node.hold()
        await settle()
    assert await asyncio.gather(*tasks) == [{T0: NONE}] * 7
    sent = [[one.transactional_id for one in request.transactions] for request in node.requests]
    # An id is in a request once.
    assert sent == [["x0"], ["x1", "x2", "x3", "x4", "x5"], ["x1"]]


async def test_the_end(world: World) -> None:
    node = world.add(2, Coordinator())
    routed, _ = verifier(world, x=2)
    node.hold()
    under_way = asyncio.ensure_future(routed.verify(write("x"), add=True))
    await settle()
    waits = asyncio.ensure_future(routed.verify(write("x"), add=True))
    await settle()
    await routed.close()
    world.peers.close()
    failed = {T0: ErrorCode.NETWORK_EXCEPTION}
    assert (await under_way, await waits) == (failed, failed)


async def test_batches_have_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[list[int]] = []
    gate = asyncio.Event()

    async def send(_: int, items: list[int]) -> list[int]:
        sent.append(items)
        await gate.wait()
        if 13 in items:
            raise ValueError("a bug")
        return [-item for item in items]

    monkeypatch.setattr(peer_batches, "BATCH_WEIGHT_MAX", 10)
    monkeypatch.setattr(peer_batches, "WAITING_WEIGHT_MAX", 31)
    batches: PeerBatches[int, int] = PeerBatches(
        send, key=lambda item: item, weight=lambda item: item
    )
    tasks = [asyncio.ensure_future(batches.ask(2, item)) for item in (6, 5, 4, 12, 3, 1)]
    await settle()
    with pytest.raises(CallFailed):
        await asyncio.gather(*[batches.ask(2, item) for item in (7, 8)])
    gate.set()
    assert await asyncio.gather(*tasks) == [-6, -5, -4, -12, -3, -1]
    assert sent[:5] == [[6], [5, 4], [12], [3, 1], [7]]
    with pytest.raises(CallFailed, match="a bug"):
        await batches.ask(2, 13)
    # The end comes before the first request begins.
    gate.clear()
    task = asyncio.ensure_future(batches.ask(2, 1))
    await asyncio.sleep(0)
    await batches.close()
    with pytest.raises(CallFailed):
        await task


# Markers ------------------------------------------------------------------------------------


class Catalogue:
    def __init__(self) -> None:
        self.topics = {
            "t": Topic(bytes(16), "t", 4),
            OFFSETS_TOPIC: Topic(
                GROUP_COORDINATOR.topic.topic_id, OFFSETS_TOPIC, 50, coordinator=GROUP_COORDINATOR
            ),
        }

    def topic(self, name: str) -> Topic | None:
        return self.topics.get(name)


class Leader:
    """Answers WriteTxnMarkers: for each partition with its code."""

    def __init__(self) -> None:
        self.codes: dict[Place, ErrorCode] = {}

    def __call__(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersReply:
        return WriteTxnMarkersReply(
            tuple(
                WrittenMarker(
                    one.producer_id,
                    tuple(
                        MarkedTopic(
                            t.name,
                            tuple((p, self.codes.get((t.name, p), NONE)) for p in t.partitions),
                        )
                        for t in one.topics
                    ),
                )
                for one in request.markers
            )
        )


class Bench:
    def __init__(self, world: World, leaders: dict[Place, int]) -> None:
        self.catalogue, self.local = Catalogue(), Local()
        for (name, partition), node in leaders.items():
            topic = self.catalogue.topics[name]
            world.ownership.leaders[topic.unit(partition)] = node
        self.news: dict[str, Topic] | LogError = {}
        """Topics that other nodes have made, which this one has not heard of; or it cannot ask."""
        self.markers = RoutedMarkers(
            self.local, world.ownership, world.peers, self.catalogue, self.catch_up
        )

    async def catch_up(self) -> None:
        if isinstance(self.news, LogError):
            raise self.news
        self.catalogue.topics |= self.news

    def write(self, *places: Place, producer: int = 7) -> asyncio.Future[dict[Place, ErrorCode]]:
        return asyncio.ensure_future(self.markers.write_marker(marker(producer), places))


def marker(producer: int = 7) -> Marker:
    return Marker(producer, 3, True, 9, 2)


async def test_a_topic_that_is_new_gets_its_marker(world: World) -> None:
    bench = Bench(world, {T0: SELF})
    new = Topic(b"n" * 16, "new", 1)
    world.ownership.leaders[new.unit(0)] = SELF
    bench.news = {"new": new}
    codes = await bench.write(("new", 0), ("gone", 0))
    assert codes == {("new", 0): ErrorCode.NONE, ("gone", 0): UNKNOWN}


async def test_what_cannot_be_asked_is_tried_again(world: World) -> None:
    bench = Bench(world, {T0: SELF})
    bench.news = LogUnavailable("away")
    codes = await bench.write(T0, ("new", 0))
    assert set(codes.values()) == {ErrorCode.NOT_LEADER_OR_FOLLOWER}


async def test_markers_go_to_the_leaders(world: World) -> None:
    two, three = world.add(2, Leader()), world.add(3, Leader())
    offsets = (OFFSETS_TOPIC, 5)
    bench = Bench(world, {T0: SELF, T1: 2, ("t", 2): 3, offsets: 2})
    codes = await bench.write(T0, T1, ("t", 2), ("t", 3), ("t", 4), ("no", 0), offsets)
    assert codes == {
        T0: NONE,
        T1: NONE,
        ("t", 2): NONE,
        ("t", 3): NOT_LEADER,  # there is none
        ("t", 4): UNKNOWN,
        ("no", 0): UNKNOWN,
        offsets: NONE,
    }
    assert bench.local.writes == [(marker(), (T0,))]
    (sent,) = two.requests[0].markers
    assert [(topic.name, topic.partitions) for topic in sent.topics] == [
        (OFFSETS_TOPIC, (5,)),
        ("t", (1,)),
    ]
    assert (sent.producer_id, sent.producer_epoch, sent.committed) == (7, 3, True)
    assert (sent.coordinator_epoch, sent.transaction_version) == (9, 2)
    assert len(three.requests) == 1


async def test_only_the_own_catalogue_says_that_a_topic_is_gone(world: World) -> None:
    leader = Leader()
    leader.codes = {T0: UNKNOWN, T1: ErrorCode.INVALID_PRODUCER_EPOCH}
    node = world.add(2, leader)
    bench = Bench(world, {T0: 2, T1: 2})
    assert await bench.write(T0, T1) == {T0: NOT_LEADER, T1: ErrorCode.INVALID_PRODUCER_EPOCH}
    # It is deleted while the question is under way.
    node.hold()
    call = bench.write(T0)
    await settle()
    del bench.catalogue.topics["t"]
    node.release()
    assert await call == {T0: UNKNOWN}


async def test_markers_that_a_node_does_not_take(world: World) -> None:
    leader = Leader()
    node = world.add(2, leader)
    bench = Bench(world, {T0: 2, T1: SELF})
    node.hold()
    call = bench.write(T0, T1)
    await settle()
    node.cut()
    assert await call == {T0: NOT_LEADER, T1: NONE}
    node.release()
    leader.codes = {T0: ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    with capture_logs() as logged:
        assert await bench.write(T0) == {T0: ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
        assert await bench.write(T0) == {T0: ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert len(logged) == 1


async def test_markers_that_wait_go_together(world: World) -> None:
    node = world.add(2, Leader())
    bench = Bench(world, {T0: 2, T1: 2})
    node.hold()
    calls = [bench.write(T0, producer=1)]
    await settle()
    calls += [bench.write(T0, producer=producer) for producer in (2, 3, 4)]
    calls.append(bench.write(T1, producer=2))  # a producer is in a request once
    await settle()
    for _ in range(3):
        node.release()
        node.hold()
        await settle()
    assert await asyncio.gather(*calls) == [{T0: NONE}] * 4 + [{T1: NONE}]
    sent = [[one.producer_id for one in request.markers] for request in node.requests]
    assert sent == [[1], [2, 3, 4], [2]]
    await bench.markers.close()
