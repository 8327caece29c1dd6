"""Every client in a group: assignments, consumption, a member that leaves, a member that dies."""

from __future__ import annotations

import pytest

from tests.clients.conftest import GroupMaker, TopicMaker
from tests.clients.group import FLAVOURS, MOVE_S, SETTLE_S, Flavour
from tests.support.admin import committed, group_type, produce
from tests.support.peer import Peer
from tests.support.process import wait_until

RECORDS = 10_000
every_flavour = pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.name)


@every_flavour
def test_three_members_share_twelve_partitions_and_consume_everything_once(
    peer: Peer, topics: TopicMaker, make_group: GroupMaker, flavour: Flavour
) -> None:
    counts = topics({"a": 6, "b": 6})
    group = make_group(flavour)
    process = group.spawn(counts, members=3, commit="each")
    group.wait_covered(counts, [0, 1, 2])
    # Some clients fall back to the classic protocol without a word.
    assert group_type(peer.bootstrap, group.group_id) == flavour.protocol
    sizes = sorted(len(member.owned) for member in group.members.values())
    assert sizes == [4, 4, 4]

    places = produce(peer.bootstrap, counts, RECORDS)
    assert len(places) == RECORDS
    group.wait_seen(places)
    assert group.twice() == set()
    assert len(group.seen()) == RECORDS
    expected: dict[tuple[str, int], int] = {}
    for topic, partition, offset in places:
        expected[(topic, partition)] = max(expected.get((topic, partition), 0), offset + 1)
    wait_until(
        lambda: group.acknowledged == expected, SETTLE_S, "commits of everything", group.describe
    )
    group.stop(process)
    assert group.errors == []
    assert committed(peer.bootstrap, group.group_id, counts) == expected


@every_flavour
def test_partitions_move_when_a_member_leaves_and_when_one_is_killed(
    peer: Peer, topics: TopicMaker, make_group: GroupMaker, flavour: Flavour
) -> None:
    counts = topics({"a": 6, "b": 6})
    group = make_group(flavour)
    stays = group.spawn(counts, members=2, commit="each")
    dies = group.spawn(counts, members=1, commit="each")
    group.wait_covered(counts, [0, 1, 2])
    first = produce(peer.bootstrap, counts, 600)
    group.wait_seen(first)

    group.leave(stays, 1)
    group.wait_covered(counts, [0, 2])
    second = produce(peer.bootstrap, counts, 600)
    group.wait_seen(second)

    group.kill(dies, [2])
    group.wait_covered(counts, [0], MOVE_S)
    third = produce(peer.bootstrap, counts, 600)
    group.wait_seen(third)
    # Only records whose commit the killed member or a rebalance cut off may come twice.
    assert group.twice() <= first | second
    assert third.isdisjoint(group.twice())
