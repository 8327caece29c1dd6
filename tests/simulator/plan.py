"""What the leader of a classic group does: read subscriptions, deal partitions, write assignments.

Two ways: `eager` deals everything anew; `cooperative` moves a partition in two steps, as nobody
may get what another member still claims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import pack

from groupd.protocol.consumer_protocol import (
    EmbeddedAssignment,
    EmbeddedSubscription,
    encode_assignment,
    parse_assignment,
    parse_subscription,
)
from groupd.protocol.messages.classic_group import JoinGroupMember, SyncAssignment

COOPERATIVE = "cooperative-sticky"
EAGER = "range"

Owned = Sequence[tuple[str, int]]


def subscription_bytes(topics: Sequence[str], owned: Owned, generation: int) -> bytes:
    """A subscription of version 3, without user data and rack."""
    out = bytearray(pack(">h", 3))
    out += pack(">i", len(topics))
    for topic in topics:
        out += _text(topic)
    out += pack(">i", -1)
    by_topic = _by_topic(owned)
    out += pack(">i", len(by_topic))
    for topic, partitions in by_topic.items():
        out += _text(topic) + pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return bytes(out + pack(">i", generation) + pack(">h", -1))


def assigned_partitions(data: bytes) -> tuple[frozenset[tuple[str, int]], str]:
    """What an assignment says, and the name of the plan that it belongs to."""
    if not data:
        return frozenset(), ""
    assignment = parse_assignment(data)
    owned = frozenset(
        (topic, number) for topic, numbers in assignment.partitions for number in numbers
    )
    return owned, (assignment.user_data or b"").decode()


def make_plan(
    name: str, protocol: str, members: Sequence[JoinGroupMember], partitions: Mapping[str, int]
) -> tuple[SyncAssignment, ...]:
    """`partitions`: topic -> count, as the leader knows them."""
    subscriptions = {one.member_id: parse_subscription(one.metadata) for one in members}
    if protocol == COOPERATIVE:
        dealt = _cooperative(subscriptions, partitions)
    else:
        dealt = _deal(subscriptions, partitions, {})
    return tuple(
        SyncAssignment(member_id, _assignment_bytes(dealt[member_id], name))
        for member_id in sorted(dealt)
    )


def _cooperative(
    subscriptions: Mapping[str, EmbeddedSubscription], partitions: Mapping[str, int]
) -> dict[str, list[tuple[str, int]]]:
    newest = max((one.generation_id for one in subscriptions.values()), default=-1)
    claims: dict[tuple[str, int], str] = {}
    for member_id in sorted(subscriptions):
        one = subscriptions[member_id]
        if one.generation_id == newest:
            for topic, numbers in one.owned_partitions:
                claims.update({(topic, number): member_id for number in numbers})
    wanted = _deal(subscriptions, partitions, claims)
    return {
        member_id: [place for place in places if claims.get(place, member_id) == member_id]
        for member_id, places in wanted.items()
    }


def _deal(
    subscriptions: Mapping[str, EmbeddedSubscription],
    partitions: Mapping[str, int],
    claims: Mapping[tuple[str, int], str],
) -> dict[str, list[tuple[str, int]]]:
    """Each partition to the claimant while that one has room, else to the least loaded."""
    dealt: dict[str, list[tuple[str, int]]] = {member_id: [] for member_id in subscriptions}
    for topic in sorted(partitions):
        takers = sorted(one for one, its in subscriptions.items() if topic in its.topics)
        if not takers:
            continue
        room = -(-partitions[topic] // len(takers))
        count = dict.fromkeys(takers, 0)
        loose = []
        for number in range(partitions[topic]):
            claimant = claims.get((topic, number))
            if claimant in count and count[claimant] < room:
                count[claimant] += 1
                dealt[claimant].append((topic, number))
            else:
                loose.append(number)
        for number in loose:
            taker = min(takers, key=lambda one: (count[one], one))
            count[taker] += 1
            dealt[taker].append((topic, number))
    return dealt


def _assignment_bytes(places: Owned, name: str) -> bytes:
    by_topic = tuple((topic, tuple(numbers)) for topic, numbers in _by_topic(places).items())
    return encode_assignment(EmbeddedAssignment(3, by_topic, name.encode() or None))


def _by_topic(places: Owned) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        found.setdefault(topic, []).append(number)
    return found


def _text(text: str) -> bytes:
    raw = text.encode()
    return pack(">h", len(raw)) + raw
