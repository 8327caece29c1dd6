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
from groupd.coordinator.core.share_group.soft_state import soft_of
from groupd.coordinator.core.types import ReplyValidity
from groupd.coordinator.daemon.daemon import Daemon
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.coordinator.runtime.waiting import Waiter
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.slot import WatchedReplyValidity
from groupd.coordinator.server.stored_replies import ENTRIES_MAX, StoredReplies
from groupd.protocol.writer import Writer
from tests.bench.frames import consumer_heartbeat, request_frame
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
                config=CoordinatorConfig(
                    consumer_assignment_interval_ms=0, share_assignment_interval_ms=0
                ),
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

    async def settled(self) -> None:
        """Waits until the share coordinator has answered all questions of groups."""
        broker = self.daemon.broker
        async with asyncio.timeout(10):
            while not all(
                shard.is_settled("g") and not soft_of(shard.shard.state).unanswered
                for shard in broker.shards
            ):
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
    """(error, member epoch, assignment) of the reply to a heartbeat."""
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


def consumer_frame(name: str, action: str, client: Client) -> bytes:
    """The heartbeat of a consumer."""
    if action == "join":
        return consumer_heartbeat("g", name, 0, (TOPIC,), ())
    if action == "leave":
        return consumer_heartbeat("g", name, -1)
    owned = client.owned if action == "own" else None
    return consumer_heartbeat("g", name, max(client.epoch, 1), owned=owned)


def share_frame(name: str, action: str, client: Client) -> bytes:
    """The heartbeat of a member of a share group. Its reply looks like that to a consumer."""
    topics = {"join": (TOPIC,), "own": (TOPIC,), "drop": ()}.get(action)
    writer = Writer(flexible=True)
    writer.string("g")
    writer.string(name)
    writer.int32({"join": 0, "leave": -1}.get(action, max(client.epoch, 1)))
    writer.nullable_string(None)
    if topics is None:
        writer.null_array()
    else:
        writer.array(topics, Writer.string)
    writer.end()
    return request_frame(76, 1, writer.buffer, flexible=True)


FRAMES = {"consumer": consumer_frame, "share": share_frame}
groups = pytest.mark.parametrize("group", FRAMES)


async def play(peer: Peer, script: list[tuple[str, str]], group: str = "consumer") -> list[bytes]:
    """The replies to a script of (member, action)."""
    clients = {name: Client() for name in MEMBERS}
    replies = []
    for number, (name, action) in enumerate(script):
        client = clients[name]
        reply = await peer.ask(FRAMES[group](name, action, client), number)
        await peer.settled()
        error, epoch, assignment = parse(reply)
        if error == 0:
            client.epoch = epoch
            client.owned = assignment if assignment is not None else client.owned
        replies.append(without_ids(reply, assignment))
    return replies


ACTIONS = ("join", "beat", "beat", "beat", "own", "own", "drop", "leave")
SETTLING = [("m0", "join"), *[("m0", "own"), ("m0", "beat")] * 3]
"""After this a member's heartbeats are repeated."""
steps = st.tuples(st.sampled_from(MEMBERS), st.sampled_from(ACTIONS))


@groups
@examples(25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=st.lists(steps, min_size=5, max_size=60))
def test_replies_are_the_same_bytes_with_and_without_stored_ones(
    tmp_path: Path, group: str, script: list[tuple[str, str]]
) -> None:
    beats = SETTLING + [one for one in script for _ in range(2)]

    async def both() -> tuple[list[bytes], list[bytes]]:
        async with Peer(tmp_path) as on, Peer(tmp_path, steady=False) as off:
            played = await play(on, beats, group), await play(off, beats, group)
            assert off.repeated == 0
            return played

    on, off = asyncio.run(both())
    assert on == off


@groups
async def test_a_settled_heartbeat_is_repeated_until_something_moves(
    tmp_path: Path, group: str
) -> None:
    async with Peer(tmp_path) as peer:
        own, beat = ("m0", "own"), ("m0", "beat")
        replies = await play(peer, [("m0", "join"), own, beat, beat, beat], group)
        settled = peer.repeated
        assert settled >= 1
        # Another member moves the group on: the next heartbeat must say so.
        client = Client(parse(replies[-1])[1])
        frame_of = FRAMES[group]
        assert parse(await peer.ask(frame_of("m1", "join", client), 90))[0] == 0
        error, _, assignment = parse(await peer.ask(frame_of("m0", "beat", client), 91))
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
