"""Calls to other nodes: one connection to each, limits, deadlines, and what ends a connection."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest

from groupd.client.connection import ClientSecurity, ConnectionLimits
from groupd.client.errors import CallFailed
from groupd.client.sasl import password_login
from groupd.coordinator.cluster.metrics import PeerCollector
from groupd.coordinator.cluster.peers import (
    CONNECT_MS,
    IDLE_MS,
    RECONNECT_MS,
    PeerAddress,
    address_in,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.producers import (
    MarkedTopic,
    MarkerTopic,
    WritableMarker,
    WriteTxnMarkersReply,
    WriteTxnMarkersRequest,
    WrittenMarker,
)
from groupd.protocol.messages.sasl import (
    SaslAuthenticateReply,
    SaslAuthenticateRequest,
    SaslHandshakeReply,
    SaslHandshakeRequest,
)
from groupd.protocol.messages.share_state import DeleteShareGroupStateRequest
from groupd.protocol.wire.apis import API_RANGES
from groupd.storage.cluster import NodeFacts, NodeState
from tests.support.fake_broker import settle
from tests.unit.cluster.fake_nodes import World


def written(request: WriteTxnMarkersRequest) -> WriteTxnMarkersReply:
    return WriteTxnMarkersReply(
        tuple(
            WrittenMarker(
                one.producer_id,
                tuple(
                    MarkedTopic(topic.name, tuple((p, ErrorCode.NONE) for p in topic.partitions))
                    for topic in one.topics
                ),
            )
            for one in request.markers
        )
    )


async def ask(world: World, producer: int = 7, node: int = 2) -> int:
    """The producer id in the answer."""
    marker = WritableMarker(producer, 3, True, (MarkerTopic("t", (0, 1)),), 5, 2)
    reply: WriteTxnMarkersReply = await world.peers.call(node, WriteTxnMarkersRequest((marker,)))
    (one,) = reply.markers
    return one.producer_id


def start(world: World, producer: int = 7) -> asyncio.Task[int]:
    return asyncio.get_running_loop().create_task(ask(world, producer))


async def outcome(call: Any) -> str:
    with pytest.raises(CallFailed) as failed:
        await call
    return failed.value.outcome


async def test_requests_on_one_connection(world: World) -> None:
    node = world.add(2, written)
    node.hold()
    tasks = [start(world, producer) for producer in (10, 11, 12)]
    await settle()
    assert len(node.requests) == 3
    world.clock.advance(40)
    node.release()
    assert await asyncio.gather(*tasks) == [10, 11, 12]
    assert (world.network.tried, node.open, world.peers.connections) == (1, 1, 1)
    assert node.requests[0].markers == (
        WritableMarker(10, 3, True, (MarkerTopic("t", (0, 1)),), 5, 2),
    )
    assert world.peers.calls == {("WriteTxnMarkers", "answered"): 3}
    assert world.peers.last_ms == {"WriteTxnMarkers": 40}
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in PeerCollector(world.peers).collect()
        for sample in family.samples
    }
    assert samples["groupd_peer_calls_total", "WriteTxnMarkers", "answered"] == 3


async def test_a_cancelled_caller_leaves_nothing(world: World) -> None:
    node = world.add(2, written)
    world.make_peers(limits=ConnectionLimits(requests=2))
    node.hold()
    first, second = start(world, 10), start(world, 11)
    await settle()
    first.cancel()
    await settle()
    assert await outcome(ask(world, 12)) == "refused", "it is still under way there"
    node.release()
    assert await second == 11
    assert await ask(world, 13) == 13


async def test_too_much_is_refused(world: World) -> None:
    node = world.add(2, written)
    world.make_peers(limits=ConnectionLimits(request_bytes=100))
    node.hold()
    tasks = [start(world, producer) for producer in (1, 2)]
    await settle()
    assert await outcome(ask(world)) == "refused"
    assert world.peers.calls["WriteTxnMarkers", "refused"] == 1
    node.release()
    assert await asyncio.gather(*tasks) == [1, 2]


async def test_no_answer_in_time(world: World) -> None:
    node = world.add(2, written)
    node.hold()
    first = start(world)
    await settle()
    world.clock.advance(6000)
    second = start(world)
    await settle()
    world.clock.advance(4000)
    assert await outcome(first) == await outcome(second) == "timeout"
    assert node.open == 0
    node.release()
    assert await ask(world) == 7
    assert world.network.tried == 2


async def test_a_node_that_takes_no_connection(world: World) -> None:
    world.addresses[2] = PeerAddress("node", 2)
    assert await outcome(ask(world)) == "failed"
    assert await outcome(ask(world)) == "failed"
    assert world.network.tried == 1, "not again at once"
    node = world.add(2, written)
    world.clock.advance(RECONNECT_MS)
    node.silent = True
    call = start(world)
    await settle()
    world.clock.advance(CONNECT_MS)
    assert await outcome(call) == "timeout"
    node.silent = False
    world.clock.advance(RECONNECT_MS)
    assert await ask(world) == 7


async def test_a_caller_that_gives_up_while_it_connects(world: World) -> None:
    node = world.add(2, written)
    node.silent = True
    call = start(world)
    await settle()
    call.cancel()
    await settle()
    world.clock.advance(CONNECT_MS)
    await settle()
    node.silent = False
    world.clock.advance(RECONNECT_MS)
    assert await ask(world) == 7


async def test_a_node_that_is_gone_while_it_is_connected_to(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    node = world.add(2, written)
    node.silent = True
    call = start(world)
    await settle()
    del world.addresses[2]
    world.peers.look()
    assert await outcome(call) == "failed"
    await settle()
    world.clock.advance(CONNECT_MS)  # the clock forgets the timer, and with it the task
    gc.collect()
    await settle()
    unhandled = [record for record in caplog.records if record.name == "asyncio"]
    assert unhandled == []


async def test_a_connection_that_is_lost(world: World) -> None:
    node = world.add(2, written)
    node.hold()
    tasks = [start(world), start(world)]
    await settle()
    node.cut()
    assert [await outcome(task) for task in tasks] == ["failed", "failed"]
    node.release()
    assert await ask(world) == 7


@pytest.mark.parametrize(
    "frame",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x04\x00\x00\x00\x63",
        b"\x00\x00\x00\x02\x00\x00",
        b"\x00\x00\x00\x05\x00\x00\x00\x02\x00",
    ],
)
async def test_answers_that_are_none(world: World, frame: bytes) -> None:
    node = world.add(2, written)
    node.hold()
    call = start(world)
    await settle()
    node.connections[0].answer(frame)
    assert await outcome(call) == "failed"
    assert node.open == 0


async def test_an_answer_that_nobody_has_asked_for(world: World) -> None:
    node = world.add(2, written)
    assert await ask(world) == 7
    node.connections[0].answer(b"\x00\x00\x00\x04\x00\x00\x00\x63")
    await settle()
    assert node.open == 0


async def test_members_that_change(world: World) -> None:
    assert await outcome(ask(world, node=3)) == "failed"
    node = world.add(2, written)
    assert await ask(world) == 7
    world.peers.look()
    assert node.open == 1
    node.hold()
    call = start(world)
    await settle()
    world.addresses[2] = PeerAddress("node", 2, incarnation=1)
    world.peers.look()
    assert await outcome(call) == "failed"
    node.release()
    assert (await ask(world), node.open) == (7, 1)
    # Also when nobody has looked.
    world.addresses[2] = PeerAddress("node", 2, incarnation=2)
    assert (await ask(world), node.open) == (7, 1)
    del world.addresses[2]
    assert await outcome(ask(world)) == "failed"
    world.peers.look()
    await settle()
    assert node.open == world.peers.connections == 0


async def test_what_is_not_used_is_closed(world: World) -> None:
    node = world.add(2, written)
    assert await ask(world) == 7
    world.clock.advance(IDLE_MS - 1)
    assert await ask(world) == 7
    world.clock.advance(IDLE_MS - 1)
    assert node.open == 1
    world.clock.advance(1)
    assert node.open == 0
    assert await ask(world) == 7
    assert world.network.tried == 2


async def test_the_end(world: World) -> None:
    node = world.add(2, written)
    node.hold()
    call = start(world)
    await settle()
    world.peers.close()
    assert await outcome(call) == "failed"
    assert await outcome(ask(world)) == "failed"
    assert node.open == 0
    assert world.clock.next_timer_ms() is None


async def test_a_node_that_lacks_an_api(world: World) -> None:
    world.add(2, written).ranges = ()
    with pytest.raises(CallFailed, match="does not offer AddPartitionsToTxn v5"):
        await ask(world)


async def test_an_older_node_lacks_the_requests_about_share_partitions(world: World) -> None:
    node = world.add(2, written)
    node.ranges = [one for one in API_RANGES if not 83 <= one.api_key <= 87]
    assert await ask(world) == 7
    with pytest.raises(CallFailed, match="does not offer DeleteShareGroupState v0"):
        await world.peers.call(2, DeleteShareGroupStateRequest("g", ()))


# Logins -------------------------------------------------------------------------------------

AS_NODE = ClientSecurity(login=password_login("PLAIN", "node", "pw"))


def logged_in(lifetime_ms: int, error: ErrorCode = ErrorCode.NONE) -> Callable[[Any], Any]:
    """Answers as `written`, and to logins."""

    def answer(request: Any) -> Any:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeReply(mechanisms=("PLAIN",))
        if isinstance(request, SaslAuthenticateRequest):
            return SaslAuthenticateReply(error, "no such user", session_lifetime_ms=lifetime_ms)
        return written(request)

    return answer


async def connected(task: asyncio.Task[int]) -> int:
    """The result. A login takes real time, as it has a thread."""
    async with asyncio.timeout(10):
        return await task


async def test_a_login_that_ends(world: World) -> None:
    node = world.add(2, logged_in(10_000))
    world.make_peers(AS_NODE)
    assert await connected(start(world)) == 7
    node.hold()
    waits = start(world, 8)
    await settle()
    world.clock.advance(8_500)
    late = start(world, 9)
    await settle()
    assert node.open == 2, "what is under way ends on the old connection"
    node.release()
    assert (await waits, await connected(late)) == (8, 9)
    await settle()
    assert node.open == 1


async def test_a_login_that_is_refused(world: World) -> None:
    node = world.add(2, logged_in(0, ErrorCode.SASL_AUTHENTICATION_FAILED))
    world.make_peers(AS_NODE)
    with pytest.raises(CallFailed, match="node 2 at node:2 refused the login: no such user"):
        await connected(start(world))
    assert node.open == 0


def test_addresses_of_members() -> None:
    two = (("CLIENTS", "a", 1), ("NODES", "b", 2))
    members = (
        NodeState(NodeFacts(1, two), 5, 1000, 0),
        NodeState(NodeFacts(2, two, inter_broker="NODES"), 6, 1000, 0),
        NodeState(NodeFacts(3), 6, 1000, 0),
    )
    assert address_in(members, 1) == PeerAddress("a", 1, 5)
    assert address_in(members, 2) == PeerAddress("b", 2, 6)
    assert address_in(members, 3) is None
    assert address_in(members, 4) is None
