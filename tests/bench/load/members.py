"""Members as the steady loads need them: brought to rest over a few connections, before the clock
runs. Their steady requests come out, one each."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from struct import Struct

from groupd.protocol.errors import ErrorCode
from tests.bench import frames
from tests.bench.load import classic_frames
from tests.bench.load.generator import LoadFailed, once
from tests.bench.peers.processes import Peer

TOPIC = "bench"
PARTITIONS = 100
GROUP_SIZE = 10
PREPARING = 50
"""Connections over which members join."""
PREPARING_CLASSIC = 1_000
"""Classic members join over more connections, because a reply may take its time."""
SETTLE_S = 60.0
PAUSE_S = 0.1
"""The pause between rounds in which nothing moved: a peer may compute assignments in the
background."""
PRESENT = 1
Owned = tuple[tuple[bytes, tuple[int, ...]], ...]
"""(topic id, partitions)."""

Place = tuple[str, int, str]
"""Group, generation, member id."""

_ERROR = Struct(">h")
_INT32 = Struct(">i")


@dataclass(slots=True)
class Member:
    """A member of a group of the consumer protocol; epoch 0: it is not in it yet."""

    group: str
    name: str
    epoch: int = 0
    owned: Owned = ()

    def says(self) -> bytes:
        """A heartbeat that always says what the member owns, so it acknowledges whatever it was
        given."""
        if self.epoch == 0:
            return frames.consumer_heartbeat(self.group, self.name, 0, (TOPIC,), ())
        return frames.consumer_heartbeat(self.group, self.name, self.epoch, owned=self.owned)

    def steady(self) -> bytes:
        return frames.consumer_heartbeat(self.group, self.name, self.epoch)

    def hears(self, reply: bytes) -> bool:
        """Takes over a reply; whether it changed anything."""
        epoch, given = _told(reply)
        before = self.epoch, self.owned
        self.epoch, self.owned = epoch, self.owned if given is None else given
        return before != (self.epoch, self.owned)


def check_error(reply: bytes, at: int) -> None:
    """Raises LoadFailed if the reply has an error code at this place."""
    (code,) = _ERROR.unpack_from(reply, at)
    if code:
        name = ErrorCode(code).name if code in set(ErrorCode) else ""
        raise LoadFailed(f"error {code} {name}".rstrip())


def consumers(peer: Peer, count: int) -> list[bytes]:
    """Steady heartbeats of members of the consumer protocol, in groups of ten, which share all
    partitions of the topic and have acknowledged them."""
    members = [Member(f"bench-{i // GROUP_SIZE}", f"member-{i:07d}") for i in range(count)]
    deadline = time.monotonic() + SETTLE_S
    while True:
        says = [member.says() for member in members]
        replies = once(peer.address, says, PREPARING).replies
        moved = [m.hears(reply) for m, reply in zip(members, replies, strict=True)]
        if not any(moved):
            if _complete(members):
                break
            time.sleep(PAUSE_S)
        if time.monotonic() > deadline:
            raise LoadFailed("members do not come to rest")
    steady = [member.steady() for member in members]
    _rest(peer, steady, deadline)
    return steady


def _complete(members: Sequence[Member]) -> bool:
    """Whether each group is at one epoch and owns every partition once."""
    groups: dict[str, list[Member]] = defaultdict(list)
    for member in members:
        groups[member.group].append(member)
    for group in groups.values():
        owned = sorted(p for member in group for _, parts in member.owned for p in parts)
        if len({member.epoch for member in group}) > 1 or owned != list(range(PARTITIONS)):
            return False
    return True


def _rest(peer: Peer, requests: Sequence[bytes], deadline: float) -> None:
    """Sends them until two rounds get the same replies: what is said only once has been said.
    Raises LoadFailed."""
    before: tuple[bytes, ...] = ()
    while time.monotonic() < deadline:
        replies = once(peer.address, requests, PREPARING).replies
        if replies == before:
            return
        before = replies
    raise LoadFailed("replies do not come to rest")


def _told(reply: bytes) -> tuple[int, Owned | None]:
    """Epoch and assignment of a ConsumerGroupHeartbeat reply v1 (tags, throttle, error, message,
    member id, epoch, interval, assignment: its presence, topics of id and partitions); None: no
    change. It reads counts of fewer than 127, which are one byte."""
    check_error(reply, 5)
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


def classics(peer: Peer, count: int) -> list[bytes]:
    """Heartbeats of members of the classic protocol, each alone in its group."""
    places = _joined(peer, [(f"classic-{i}", "") for i in range(count)])
    syncs = [classic_frames.sync(*place) for place in places]
    for reply in once(peer.address, syncs, PREPARING_CLASSIC).replies:
        check_error(reply, 4)
    return [classic_frames.heartbeat(*place) for place in places]


def _joined(peer: Peer, members: Sequence[tuple[str, str]]) -> list[Place]:
    """Joins (group, member id), once more with the id that it is given where that is asked for."""
    session_ms = peer.session_timeout_ms
    joins = [classic_frames.join(group, TOPIC, name, session_ms) for group, name in members]
    replies = once(peer.address, joins, PREPARING_CLASSIC).replies
    places: list[Place] = []
    again: list[tuple[str, str]] = []
    for (group, member), reply in zip(members, replies, strict=True):
        _, at = _string(reply, 10)  # protocol
        _, at = _string(reply, at)  # leader
        given = _string(reply, at)[0]
        if not member and _ERROR.unpack_from(reply, 4)[0] == ErrorCode.MEMBER_ID_REQUIRED:
            again.append((group, given))
        else:
            check_error(reply, 4)
            places.append((group, int(_INT32.unpack_from(reply, 6)[0]), given))
    return places + (_joined(peer, again) if again else [])


def _string(reply: bytes, at: int) -> tuple[str, int]:
    """A string of a version without tagged fields, and where it ends."""
    (length,) = _ERROR.unpack_from(reply, at)
    return reply[at + 2 : at + 2 + length].decode(), at + 2 + length


def committed(peer: Peer, count: int, partitions: int) -> list[bytes]:
    """OffsetCommits without members, a group each; each has been sent once, so the offsets are
    there."""
    asked = [frames.offset_commit(f"commit-{i}", TOPIC, partitions, 42) for i in range(count)]
    once(peer.address, asked, PREPARING)
    return asked
