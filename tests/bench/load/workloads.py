"""Steady loads of a coordinator. Each prepares its members over a few connections, then repeats one
request on each of many and counts the answers. Every reply must be as the first one of its
connection, and that one must be free of errors: refusals are quick, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from struct import Struct

from coordinator.cli.bench import frames
from protocol.errors import ErrorCode
from tests.bench.load import classic_frames
from tests.bench.load.generator import LoadFailed, Result, once, repeat
from tests.bench.peers.processes import Peer

TOPIC = "bench"
TOPICS = {TOPIC: 100}
GROUP_SIZE = 10
PREPARING = 50
"""Connections over which members join."""
ROUNDS_MAX = 20
PRESENT = 1
Owned = tuple[tuple[bytes, tuple[int, ...]], ...]
"""(topic id, partitions)."""

Place = tuple[str, int, str]
"""Group, generation, member id."""

_ERROR = Struct(">h")
_INT32 = Struct(">i")


@dataclass(frozen=True, slots=True)
class Load:
    """`run(peer, seconds)`; `durable`: against peers that keep what they acknowledge."""

    name: str
    run: Callable[[Peer, float], Result]
    durable: bool = False


def _address(peer: Peer) -> tuple[str, int]:
    return peer.host, peer.port


def _steady(peer: Peer, requests: Sequence[bytes], window: int, seconds: float) -> Result:
    cpu = peer.cpu_seconds
    return repeat(_address(peer), requests, window=window, seconds=seconds, peer_cpu_s=cpu)


def _no_error(reply: bytes, at: int) -> None:
    (code,) = _ERROR.unpack_from(reply, at)
    if code:
        raise LoadFailed(f"error {code}")


def _string(reply: bytes, at: int) -> tuple[str, int]:
    """A string of a version without tagged fields, and where it ends."""
    (length,) = _ERROR.unpack_from(reply, at)
    return reply[at + 2 : at + 2 + length].decode(), at + 2 + length


def consumer_heartbeats(peer: Peer, seconds: float, *, members: int, window: int) -> Result:
    """KIP-848: settled members in groups of ten, a connection each."""
    names = [(f"bench-{i // GROUP_SIZE}", f"member-{i:07d}") for i in range(members)]
    beats = _settled(peer, names)
    _rest(peer, beats)
    result = _steady(peer, beats, window, seconds)
    for reply in result.replies:
        _no_error(reply, 5)
    return result


def _settled(peer: Peer, names: Sequence[tuple[str, str]]) -> list[bytes]:
    """Joins (group, member), and acknowledges until nothing moves; their steady heartbeats."""
    joins = [frames.consumer_heartbeat(*name, 0, (TOPIC,), ()) for name in names]
    said = [_told(reply) for reply in once(_address(peer), joins, PREPARING).replies]
    epochs = [epoch for epoch, _ in said]
    owned = [given or () for _, given in said]
    for _ in range(ROUNDS_MAX):
        beats = [
            frames.consumer_heartbeat(*name, epoch, owned=mine)
            for name, epoch, mine in zip(names, epochs, owned, strict=True)
        ]
        said = [_told(reply) for reply in once(_address(peer), beats, PREPARING).replies]
        before = epochs, owned
        epochs = [epoch for epoch, _ in said]
        owned = [
            mine if given is None else given for mine, (_, given) in zip(owned, said, strict=True)
        ]
        if before == (epochs, owned):
            return [frames.consumer_heartbeat(*n, e) for n, e in zip(names, epochs, strict=True)]
    raise LoadFailed("members do not come to rest")


def _rest(peer: Peer, requests: Sequence[bytes]) -> None:
    """Until two rounds of them get the same replies: what was to be said once has been said."""
    before: tuple[bytes, ...] = ()
    for _ in range(ROUNDS_MAX):
        replies = once(_address(peer), requests, PREPARING).replies
        if replies == before:
            return
        before = replies
    raise LoadFailed("replies do not come to rest")


def _told(reply: bytes) -> tuple[int, Owned | None]:
    """Epoch and assignment of a ConsumerGroupHeartbeat reply v1 (tags, throttle, error, message,
    member id, epoch, interval, assignment: its presence, topics of id and partitions); None = no
    change. Counts of fewer than 127, which are one byte."""
    _no_error(reply, 5)
    at = 7 + max(reply[7], 1)  # compact nullable message
    at += max(reply[at], 1)  # compact nullable member id
    epoch = int(_INT32.unpack_from(reply, at)[0])
    at += 8
    if reply[at] != PRESENT:
        return epoch, None
    topics = reply[at + 1] - 1
    at += 2
    owned: list[tuple[bytes, tuple[int, ...]]] = []
    for _ in range(topics):
        topic_id, count = reply[at : at + 16], reply[at + 16] - 1
        owned.append((topic_id, Struct(f">{count}i").unpack_from(reply, at + 17)))
        at += 18 + 4 * count
    return epoch, tuple(owned)


def classic_heartbeats(peer: Peer, seconds: float, *, members: int, window: int) -> Result:
    """Members alone in their groups, a connection each."""
    groups = [f"classic-{i}" for i in range(members)]
    address = _address(peer)
    places = _joined(peer, [(group, "") for group in groups])
    syncs = [classic_frames.sync(*place) for place in places]
    for reply in once(address, syncs, PREPARING).replies:
        _no_error(reply, 4)
    beats = [classic_frames.heartbeat(*place) for place in places]
    result = _steady(peer, beats, window, seconds)
    for reply in result.replies:
        _no_error(reply, 4)
    return result


def _joined(peer: Peer, members: Sequence[tuple[str, str]]) -> list[Place]:
    """Joins (group, member id), again with the id that it is given where that is asked for."""
    joins = [classic_frames.join(group, TOPIC, member) for group, member in members]
    replies = once(_address(peer), joins, PREPARING).replies
    places: list[Place] = []
    again: list[tuple[str, str]] = []
    for (group, member), reply in zip(members, replies, strict=True):
        _, at = _string(reply, 10)  # protocol
        _, at = _string(reply, at)  # leader
        given = _string(reply, at)[0]
        if not member and _ERROR.unpack_from(reply, 4)[0] == ErrorCode.MEMBER_ID_REQUIRED:
            again.append((group, given))
        else:
            _no_error(reply, 4)
            places.append((group, int(_INT32.unpack_from(reply, 6)[0]), given))
    return places + (_joined(peer, again) if again else [])


def commits(
    peer: Peer, seconds: float, *, connections: int, partitions: int, window: int = 1
) -> Result:
    """OffsetCommit without members, a group for every connection."""
    beats = [frames.offset_commit(f"commit-{i}", TOPIC, partitions, 42) for i in range(connections)]
    once(_address(peer), beats, min(connections, PREPARING))  # makes the groups
    result = _steady(peer, beats, window, seconds)
    for reply in result.replies:
        # tags, throttle, one topic (its count, name and tags), partitions of 7 bytes, two tags
        for number in range(partitions):
            _no_error(reply, len(reply) - 2 - 7 * (partitions - number) + 4)
    return result


def fetches(
    peer: Peer, seconds: float, *, connections: int, partitions: int, window: int = 1
) -> Result:
    """OffsetFetch of offsets that are there."""
    made = [frames.offset_commit(f"commit-{i}", TOPIC, partitions, 42) for i in range(connections)]
    once(_address(peer), made, min(connections, PREPARING))
    asked = [frames.offset_fetch(f"commit-{i}", TOPIC, partitions) for i in range(connections)]
    result = _steady(peer, asked, window, seconds)
    offset = (42).to_bytes(8, "big")
    for reply in result.replies:
        _no_error(reply, len(reply) - 3)
        if reply.count(offset) != partitions:
            raise LoadFailed("does not find what was committed")
    return result


def _heartbeat_loads(sizes: Sequence[int]) -> list[Load]:
    kinds: Mapping[str, Callable[..., Result]] = {
        "consumer": consumer_heartbeats,
        "classic": classic_heartbeats,
    }
    return [
        Load(
            f"Steady heartbeats, {protocol} protocol, {members:,} connections, {window} in flight",
            partial(kind, members=members, window=window),
        )
        for protocol, kind in kinds.items()
        for members in sizes
        for window in (1, 8)
    ]


def loads(sizes: Sequence[int] = (100, 1_000, 10_000)) -> list[Load]:
    """Workloads (a) to (d)."""
    found = _heartbeat_loads(sizes)
    for durable in (True, False):
        where = "durable" if durable else "in memory"
        found += [
            Load(
                f"OffsetCommit of {partitions} partitions, {connections} connections, {where}",
                partial(commits, connections=connections, partitions=partitions),
                durable,
            )
            for partitions, connections in ((1, 1), (1, 100), (10, 100), (100, 10))
        ]
    found.append(
        Load(
            "OffsetFetch of 10 partitions, 100 connections",
            partial(fetches, connections=100, partitions=10),
        )
    )
    return found
