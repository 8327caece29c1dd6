"""Replies that list groups, members or partitions list them in ascending order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain

import pytest

from groupd.testing.harness import GroupCoordinator
from tests.support.classic_member import ClassicMember
from tests.support.raw_member import RawMember, settle, topic_ids
from tests.support.wire_client import WireClient

GROUPS = 60
MEMBERS = 8


@pytest.fixture
def c() -> Iterator[GroupCoordinator]:
    # The members of a classic group are to come into one generation.
    config = {"group.initial.rebalance.delay.ms": 500}
    with GroupCoordinator.start({"orders": 12}, config) as started:
        yield started


def test_groups_of_all_shards_are_listed_by_id(c: GroupCoordinator) -> None:
    groups = [f"group-{number}" for number in range(GROUPS)]
    random.Random(15).shuffle(groups)
    committed = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    with WireClient(c.host, c.port) as client:
        for group in groups:
            client.call(
                "OffsetCommit",
                8,
                group_id=group,
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=[{"name": "orders", "partitions": [committed]}],
            )
        listed = client.call("ListGroups", 5, states_filter=[], types_filter=[])["groups"]
    assert [group["group_id"] for group in listed] == sorted(groups)


def test_members_of_consumer_groups_come_by_id_and_partitions_by_number(
    c: GroupCoordinator,
) -> None:
    ids = topic_ids(c)
    names = [f"c{number}" for number in range(MEMBERS)]
    random.Random(15).shuffle(names)
    members = [RawMember(c, "billing", name, ids) for name in names]
    for member in members:
        member.join(["orders"])
    settle(*members)
    with WireClient(c.host, c.port) as client:
        asked = {"group_ids": ["billing"], "include_authorized_operations": False}
        (group,) = client.call("ConsumerGroupDescribe", 1, **asked)["groups"]
    assert [member["member_id"] for member in group["members"]] == sorted(names)
    held = [
        topic["partitions"]
        for member in group["members"]
        for topic in member["assignment"]["topic_partitions"]
    ]
    assert sorted(chain.from_iterable(held)) == list(range(12))
    assert all(partitions == sorted(partitions) for partitions in held)
    for member in members:
        member.close()


def test_members_of_classic_groups_come_by_id(c: GroupCoordinator) -> None:
    members = [ClassicMember((c.host, c.port), "old") for _ in range(MEMBERS)]
    for member in members:
        member.send_join()
    for member in members:
        member.joined()
    (leader,) = (member for member in members if member.leads)
    leader.send_sync({member.member_id: b"" for member in members})
    leader.client.receive()
    with WireClient(c.host, c.port) as client:
        asked = {"groups": ["old"], "include_authorized_operations": False}
        (group,) = client.call("DescribeGroups", 5, **asked)["groups"]
    shown = [member["member_id"] for member in group["members"]]
    assert shown == sorted(member.member_id for member in members)
    for member in members:
        member.client.close()
