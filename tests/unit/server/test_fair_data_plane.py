"""One client with long requests about topics, and an honest one beside it. Counted are requests and
Python calls, never time."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from groupd.coordinator.daemon.parts import DaemonParts
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.data import ProducePartition, ProduceRequest, ProduceTopic
from groupd.protocol.messages.topics import CreateTopicsRequest, NewTopic
from groupd.protocol.records.batch_builder import encode_batch
from tests.support.loop_turns import Turns
from tests.support.raw import frame, request, string
from tests.unit.server.harness import correlations
from tests.unit.server.served import asker_of, served

METADATA, HEARTBEAT = 3, 12
CALLS = 10_000


def all_topics(correlation: int) -> bytes:
    """Metadata v1 of all topics: 21 bytes with the length."""
    return frame(request(METADATA, 1, correlation, struct.pack(">i", -1)))


def heartbeat(correlation: int) -> bytes:
    return frame(
        request(HEARTBEAT, 0, correlation, string("g") + struct.pack(">i", 1) + string("m"))
    )


async def run_beside(parts: DaemonParts, asked: int) -> tuple[Turns, int]:
    """Sends many Metadata of all topics at once, and heartbeats one after the other. Returns the
    turns of the loop, and how many replies to the long requests came between two heartbeats at
    most."""
    long, honest, turns = asker_of(parts), asker_of(parts), Turns()
    answered = most = beats = 0
    with turns:
        long.connection.data_received(b"".join(map(all_topics, range(asked))))
        while answered < asked:
            honest.connection.data_received(heartbeat(beats))
            await honest.reply()
            beats += 1
            meanwhile = len(correlations(long.transport.sent))
            long.transport.sent = b""
            answered, most = answered + meanwhile, max(most, meanwhile)
            await asyncio.sleep(0)
    assert beats >= asked
    return turns, most


def run(work: Any) -> Any:
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        return runner.run(work)


@pytest.mark.slow
def test_a_member_is_heard_between_requests_for_all_topics() -> None:
    async def beside() -> None:
        parts = await served()
        turns, most = await run_beside(parts, 20)
        assert turns.most <= CALLS, str(turns)
        assert most <= 1
        await parts.finish()

    run(beside())


def test_a_small_request_cannot_make_millions_of_partitions() -> None:
    async def create() -> None:
        parts = await served()
        before = parts.data_plane.catalogue.topics()
        names = [f"p{number}" for number in range(200)]
        asked = CreateTopicsRequest(tuple(NewTopic(name, 10_000, 1) for name in names))
        reply = await asker_of(parts).ask(asked)
        assert reply.count(ErrorCode.POLICY_VIOLATION.to_bytes(2, "big")) >= len(names)
        assert parts.data_plane.catalogue.topics() == before
        await parts.finish()

    run(create())


def batch(sequence: int) -> bytes:
    return encode_batch(0, -1, 1_700_000_000_000, [(None, b"v")], 7, 0, sequence, False)


def test_what_a_producer_sends_behind_a_long_request_comes_behind_it() -> None:
    """The second request names the last partition of the first. Its batch would be out of order if
    it got its offset before the first request has come to that partition."""

    async def produce() -> None:
        parts = await served()
        asker = asker_of(parts)
        many = tuple(ProducePartition(number, batch(0)) for number in range(1000))
        first = ProduceRequest((ProduceTopic("big", NO_TOPIC_ID, many),))
        second = ProduceRequest(
            (ProduceTopic("big", NO_TOPIC_ID, (ProducePartition(999, batch(1)),)),)
        )
        asker.begin(first, 9)
        assert asker.connection.blocked
        reply = await asker.reply()
        assert len(reply) > 1000 * 30
        assert not asker.connection.blocked
        await asker.ask(second, 9)
        assert parts.data_plane.partitions.ends("big", 999) == (0, 2)
        await parts.finish()

    run(produce())
