"""Repeated heartbeats: identical bytes with and without stored replies, and when one ends."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import ReplyValidity
from groupd.coordinator.daemon.daemon import Daemon
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.coordinator.runtime.waiting import Waiter
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.slot import WatchedReplyValidity
from groupd.coordinator.server.stored_replies import ENTRIES_MAX, StoredReplies
from tests.bench.frames import consumer_heartbeat
from tests.support.examples import examples

TOPIC = "orders"
MEMBERS = ("m0", "m1", "m2")

Assignment = tuple[tuple[bytes, tuple[int, ...]], ...]


def never(validity: ReplyValidity, waiter: Waiter) -> None:
    """In place of `GroupLogShard.store_reply`: no reply is stored."""


class Peer:
    """A daemon in memory and one connection to it. `steady`: whether it stores replies, as it does
    but for this test."""

    def __init__(self, directory: Path, steady: bool = True) -> None:
        self._steady = steady
        self.daemon = Daemon(
            DaemonOptions(
                listen=("127.0.0.1", 0),
                admin=("127.0.0.1", 0),
                data_dir=directory,
                store_url="memory://",
                topics=((TOPIC, 6),),
                config=CoordinatorConfig(consumer_assignment_interval_ms=0),
            )
        )

    async def __aenter__(self) -> Peer:
        await self.daemon.start()
        if not self._steady:
            broker = self.daemon.broker
            for number in range(broker.shard_count):
                shard = broker.served.get(number)
                assert shard is not None
                shard.store_reply = never  # type: ignore[method-assign]
        self._reader, self._writer = await asyncio.open_connection(*self.daemon.kafka_address)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self.daemon.stop()

    async def ask(self, frame: bytes, correlation: int) -> bytes:
        self._writer.write(frame[:8] + correlation.to_bytes(4, "big") + frame[12:])
        return await self.receive()

    async def send(self, data: bytes) -> None:
        """Sends, and lets the daemon read it before anything else comes."""
        expected = self.daemon.connections.bytes_in + len(data)
        self._writer.write(data)
        async with asyncio.timeout(10):
            while self.daemon.connections.bytes_in < expected:
                await asyncio.sleep(0)

    async def receive(self) -> bytes:
        length = int.from_bytes(await self._reader.readexactly(4), "big")
        return await self._reader.readexactly(length)

    @property
    def repeated(self) -> int:
        return self.daemon.connections.repeated


@dataclass
class Client:
    """What one member knows; `owned` as its last assignment said."""

    epoch: int = -1
    owned: Assignment = ()


def parse(reply: bytes) -> tuple[int, int, Assignment | None]:
    """(error, member epoch, assignment) of a ConsumerGroupHeartbeat reply."""
    error = int.from_bytes(reply[9:11], "big", signed=True)
    at = 11 + max(reply[11], 1)
    at += max(reply[at], 1)
    epoch = int.from_bytes(reply[at : at + 4], "big", signed=True)
    at += 8
    if reply[at] == 0xFF:
        return error, epoch, None
    topics, at = reply[at + 1] - 1, at + 2
    found = []
    for _ in range(topics):
        topic_id, count, at = reply[at : at + 16], reply[at + 16] - 1, at + 17
        partitions = struct.unpack_from(f">{count}i", reply, at)
        found.append((topic_id, partitions))
        at += 4 * count + 1
    return error, epoch, tuple(found)


def without_ids(reply: bytes, assignment: Assignment | None) -> bytes:
    """The reply with zeros for topic ids, which differ from daemon to daemon."""
    for topic_id, _ in assignment or ():
        reply = reply.replace(topic_id, bytes(16))
    return reply


async def play(peer: Peer, script: list[tuple[str, str]]) -> list[bytes]:
    """The replies to a script of (member, action)."""
    clients = {name: Client() for name in MEMBERS}
    replies = []
    for number, (name, action) in enumerate(script):
        client = clients[name]
        if action == "join":
            frame = consumer_heartbeat("g", name, 0, (TOPIC,), ())
        elif action == "leave":
            frame = consumer_heartbeat("g", name, -1)
        elif action == "own":
            frame = consumer_heartbeat("g", name, max(client.epoch, 1), owned=client.owned)
        else:
            frame = consumer_heartbeat("g", name, max(client.epoch, 1))
        reply = await peer.ask(frame, number)
        error, epoch, assignment = parse(reply)
        if error == 0:
            client.epoch = epoch
            client.owned = assignment if assignment is not None else client.owned
        replies.append(without_ids(reply, assignment))
    return replies


ACTIONS = ("join", "beat", "beat", "beat", "own", "own", "leave")
steps = st.tuples(st.sampled_from(MEMBERS), st.sampled_from(ACTIONS))


@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(steps, min_size=5, max_size=60))
def test_replies_are_the_same_bytes_with_and_without_stored_ones(
    tmp_path: Path, script: list[tuple[str, str]]
) -> None:
    async def both() -> tuple[list[bytes], list[bytes]]:
        async with Peer(tmp_path) as on, Peer(tmp_path, steady=False) as off:
            played = await play(on, script), await play(off, script)
            assert off.repeated == 0
            return played

    on, off = asyncio.run(both())
    assert on == off


async def test_a_settled_heartbeat_is_repeated_until_something_moves(tmp_path: Path) -> None:
    async with Peer(tmp_path) as peer:
        await play(peer, [("m0", "join"), ("m0", "own"), ("m0", "beat"), ("m0", "beat")])
        settled = peer.repeated
        assert settled >= 1
        # Another member moves the group on: the next heartbeat must say so.
        frame = consumer_heartbeat("g", "m1", 0, (TOPIC,), ())
        assert parse(await peer.ask(frame, 90))[0] == 0
        error, _, assignment = parse(await peer.ask(consumer_heartbeat("g", "m0", 2), 91))
        assert error == 0
        assert assignment is not None, "m0 is told to give partitions up"
        assert peer.repeated == settled


class CountedValidity:
    """Holds until `ended`."""

    def __init__(self, ended: bool = False) -> None:
        self.ended = ended
        self.renewals = 0

    def renew(self) -> bool:
        self.renewals += not self.ended
        return not self.ended


def whole(request: bytes, correlation: int) -> bytes:
    """The frame as it comes out of a socket."""
    frame = request[:4] + correlation.to_bytes(4, "big") + request[8:]
    return len(frame).to_bytes(4, "big") + frame


REQUEST = b"\x00\x44\x00\x01" + bytes(4) + b"the rest"
OTHER = REQUEST[:-1] + b"x"
REPLY = b"\x00\x00\x00\x09" + bytes(4) + b"reply"


def reply(correlation: int) -> bytes:
    return REPLY[:4] + correlation.to_bytes(4, "big") + REPLY[8:]


def test_the_same_request_gets_the_same_reply() -> None:
    stats, validity = ConnectionStats(), CountedValidity()
    stored = StoredReplies(stats)
    stored.put(REQUEST, REPLY, validity, (68, 1))
    for correlation in (7, 2**31 - 1, 0):
        assert stored.reply_to(whole(REQUEST, correlation)) == reply(correlation)
    assert stats.repeated == validity.renewals == 3
    assert stats.all_requests() == {(68, 1): 3}


OTHERS = {
    "another version": whole(REQUEST[:3] + b"\x00" + REQUEST[4:], 1),
    "another body of the same length": whole(OTHER, 1),
    "a part of it": whole(REQUEST, 1)[:-1],
    "something behind it": whole(REQUEST, 1) + b"\x00",
    "the same one twice": whole(REQUEST, 1) + whole(REQUEST, 2),
    "an empty frame": bytes(4),
    "a length that is no length": b"\xff" * 40,
    "nothing": b"",
}


@pytest.mark.parametrize("data", OTHERS.values(), ids=OTHERS.keys())
def test_what_is_no_repetition(data: bytes) -> None:
    stats, validity = ConnectionStats(), CountedValidity()
    stored = StoredReplies(stats)
    stored.put(REQUEST, REPLY, validity, (68, 1))
    assert stored.reply_to(data) is None
    assert stats.repeated == validity.renewals == 0


def test_a_reply_that_is_not_valid_is_forgotten_and_leaves_the_others() -> None:
    stored = StoredReplies(ConnectionStats())
    stored.put(REQUEST, REPLY, CountedValidity(), (68, 1))
    stored.put(OTHER, REPLY, CountedValidity(ended=True), (68, 1))
    assert stored.reply_to(whole(OTHER, 1)) is None
    assert len(stored) == 1
    assert stored.reply_to(whole(REQUEST, 4)) == reply(4)


def test_watchers_hear_of_repeated_requests_or_end_them() -> None:
    validity, heard, allowed = CountedValidity(), [], [True]
    watched = WatchedReplyValidity(validity, [(lambda: allowed[0], lambda: heard.append("again"))])
    assert watched.renew()
    assert (heard, validity.renewals) == (["again"], 1)
    allowed[0] = False
    assert not watched.renew()
    allowed[0], validity.ended = True, True
    assert not watched.renew()
    assert (heard, validity.renewals) == (["again"], 1)


async def test_pipelined_heartbeats_and_what_is_cut_off(tmp_path: Path) -> None:
    """They are handled as any request, in their order, wherever the stream is cut."""
    async with Peer(tmp_path) as peer:
        await play(peer, [("m0", "join"), ("m0", "own"), ("m0", "beat"), ("m0", "beat")])
        beat = consumer_heartbeat("g", "m0", 2)
        beats = [beat[:8] + id_.to_bytes(4, "big") + beat[12:] for id_ in range(100, 140)]
        before = peer.repeated
        stream, cuts = b"".join(beats), (0, 7, 3 * len(beat), 10 * len(beat) + 9, None)
        for start, end in pairwise(cuts):
            await peer.send(stream[start:end])
        for id_ in range(100, 140):
            answer = await peer.receive()
            assert int.from_bytes(answer[:4], "big") == id_
            assert parse(answer)[0] == 0
        assert peer.repeated == before, "only what comes alone is looked up"


def test_the_table_is_bounded() -> None:
    stored = StoredReplies(ConnectionStats())
    for number in range(ENTRIES_MAX + 5):
        stored.put(REQUEST[:8] + b"%06d" % number, REPLY, CountedValidity(), (68, 1))
    assert len(stored) == 5
    assert stored.reply_to(whole(REQUEST[:8] + b"%06d" % ENTRIES_MAX, 3)) == reply(3)
