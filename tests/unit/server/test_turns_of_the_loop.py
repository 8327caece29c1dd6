"""No request keeps the event loop to itself: however many items its arrays have, and however much
there is that it asks for, it is worked on in steps.

Counted are the Python calls between two turns of the loop, never time. The table has a row for
every array of every request about groups: a new one without a row fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from groupd.coordinator.core.classic_group.group import ClassicGroup, State
from groupd.coordinator.core.classic_group.member import ClassicGroupMember
from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.coordinator.core.offsets.store import StoredOffset
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.routes import ROUTES
from groupd.coordinator.server.frontend import Frontend
from groupd.protocol.messages.classic_group import (
    JoinGroupRequest,
    JoinProtocol,
    LeaveGroupRequest,
    LeavingMember,
    SyncAssignment,
    SyncGroupRequest,
)
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from groupd.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
)
from groupd.protocol.messages.offsets import (
    CommitPartition,
    CommitTopic,
    FetchTopic,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
    commit_topic,
)
from groupd.protocol.messages.share_group import (
    AlteredShareTopic,
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
)
from tests.support.loop_turns import OneStepATurn, Turns, arrays, without_log
from tests.unit.runtime.harness import TOPIC_ID, Bench
from tests.unit.server.served import ITEMS, NUMBERS, Asker

CALLS = 10_000
"""The most calls in one turn, some milliseconds. A step has far fewer, but a turn may also write to
the log."""

IDS = tuple(f"g{number}" for number in range(ITEMS))
COMMITS = tuple(CommitPartition(number, 1) for number in NUMBERS)
PER_TOPIC = tuple(commit_topic(f"t{number}", COMMITS[:1]) for number in NUMBERS)
FETCHES = tuple(FetchTopic(f"t{number}", (0,)) for number in NUMBERS)
STORED = StoredOffset(1, -1, "", 0, -1, TOPIC_ID, 0)


def commit(*topics: CommitTopic) -> OffsetCommitRequest:
    return OffsetCommitRequest("g", topics)


def txn_commit(*topics: CommitTopic) -> TxnOffsetCommitRequest:
    return TxnOffsetCommitRequest("x", "g", 7, 0, topics)


def fetch(*groups: OffsetFetchGroup) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups)


def heartbeat(**fields: Any) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest("g", "m", 0, rebalance_timeout_ms=1000, **fields)


def join(protocols: tuple[JoinProtocol, ...]) -> JoinGroupRequest:
    return JoinGroupRequest("g", 10_000, 20_000, "", "consumer", protocols)


def sync(assignments: tuple[SyncAssignment, ...]) -> SyncGroupRequest:
    return SyncGroupRequest("full", 1, "m0", None, "consumer", "range", assignments)


Make = Callable[[], Any]

ROWS: dict[str, Make | None] = {
    "FindCoordinator.keys": lambda: FindCoordinatorRequest(IDS),
    "DescribeGroups.groups": lambda: DescribeGroupsRequest(IDS),
    "ConsumerGroupDescribe.group_ids": lambda: ConsumerGroupDescribeRequest(IDS),
    "ListGroups.states_filter": lambda: ListGroupsRequest(states_filter=IDS),
    "ListGroups.types_filter": lambda: ListGroupsRequest(types_filter=IDS),
    "DeleteGroups.group_ids": lambda: DeleteGroupsRequest(IDS),
    "OffsetCommit.topics": lambda: commit(*PER_TOPIC),
    "OffsetCommit.topics.partitions": lambda: commit(commit_topic("t", COMMITS)),
    "TxnOffsetCommit.topics": lambda: txn_commit(*PER_TOPIC),
    "TxnOffsetCommit.topics.partitions": lambda: txn_commit(commit_topic("t", COMMITS)),
    "OffsetFetch.groups": lambda: fetch(*(OffsetFetchGroup(one, ()) for one in IDS)),
    "OffsetFetch.groups.topics": lambda: fetch(OffsetFetchGroup("g", FETCHES)),
    "OffsetFetch.groups.topics.partitions": lambda: fetch(
        OffsetFetchGroup("offsets", (FetchTopic("t", NUMBERS),))
    ),
    "OffsetFetch.groups.only": None,  # not on the wire
    "OffsetDelete.topics": lambda: OffsetDeleteRequest("offsets", FETCHES),
    "OffsetDelete.topics.partitions": lambda: OffsetDeleteRequest(
        "offsets", (FetchTopic("t", NUMBERS),)
    ),
    "LeaveGroup.members": lambda: LeaveGroupRequest(
        "full", tuple(LeavingMember(f"m{number}") for number in NUMBERS)
    ),
    "JoinGroup.protocols": lambda: join(tuple(JoinProtocol(one, b"") for one in IDS)),
    "SyncGroup.assignments": lambda: sync(tuple(SyncAssignment(one, b"a") for one in IDS)),
    "ConsumerGroupHeartbeat.subscribed_topic_names": lambda: heartbeat(
        subscribed_topic_names=IDS, topic_partitions=()
    ),
    "ConsumerGroupHeartbeat.topic_partitions": lambda: ConsumerGroupHeartbeatRequest(
        "g", "m", 1, topic_partitions=tuple(TopicPartitions(TOPIC_ID, (n,)) for n in NUMBERS)
    ),
    "ConsumerGroupHeartbeat.topic_partitions.partitions": lambda: ConsumerGroupHeartbeatRequest(
        "g", "m", 1, topic_partitions=(TopicPartitions(TOPIC_ID, NUMBERS),)
    ),
    "ShareGroupHeartbeat.subscribed_topic_names": lambda: ShareGroupHeartbeatRequest(
        "g", "m", 0, subscribed_topic_names=IDS
    ),
    "ShareGroupDescribe.group_ids": lambda: ShareGroupDescribeRequest(IDS),
    "AlterShareGroupOffsets.topics": lambda: AlterShareGroupOffsetsRequest(
        "g", tuple(AlteredShareTopic(f"t{number}", ((0, 1),)) for number in NUMBERS)
    ),
    "AlterShareGroupOffsets.topics.partitions": lambda: AlterShareGroupOffsetsRequest(
        "g", (AlteredShareTopic("t", tuple((number, 1) for number in NUMBERS)),)
    ),
    "DeleteShareGroupOffsets.topics": lambda: DeleteShareGroupOffsetsRequest("g", IDS),
}
"""Array of a request -> a request in which it is long."""

STATE: dict[str, Make] = {
    "all groups": ListGroupsRequest,
    "all groups described": lambda: DescribeGroupsRequest(IDS),
    "all groups fetched": lambda: fetch(*(OffsetFetchGroup(one, None) for one in IDS)),
    "a full group": lambda: DescribeGroupsRequest(("full",)),
    "a full group leaves": lambda: LeaveGroupRequest(
        "full", tuple(LeavingMember(f"m{number}") for number in range(2000))
    ),
    "one topic of many partitions": lambda: fetch(OffsetFetchGroup("offsets", None)),
    "many topics": lambda: fetch(OffsetFetchGroup("topics", None)),
    "delete one topic of many partitions": lambda: DeleteGroupsRequest(("offsets",)),
    "delete many topics": lambda: DeleteGroupsRequest(("topics", "offsets")),
}
"""Requests whose work grows with what there is (`fill`)."""


def test_every_array_of_every_request_about_groups_has_a_row() -> None:
    found = {
        path
        for request in ROUTES
        for path in arrays(request, request.__name__.removesuffix("Request"))
    }
    assert found == set(ROWS)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with without_log():
        yield


def fill(bench: Bench) -> None:
    """A group of 2,000 members and one with 50,000 offsets in one topic."""
    shard = bench.shard.shard
    shard.replay_offsets("offsets", "t", dict.fromkeys(range(50_000), STORED))
    full = ClassicGroup("full")
    for number in range(2000):
        offered = (JoinProtocol("range", b"r"),)
        member = ClassicGroupMember(f"m{number}", None, "c", "/h", 1000, 10_000, offered)
        full.add(member, "consumer")
    full.protocol_name, full.generation, full.state = "range", 1, State.STABLE
    shard.state.groups["full"] = full


def fill_more(bench: Bench) -> None:
    """A group with 50,000 offsets in 5,000 topics, and 20,000 groups more."""
    shard = bench.shard.shard
    for number in range(5000):
        shard.replay_offsets("topics", f"t{number}", dict.fromkeys(range(10), STORED))
    shard.state.groups.update((one, ClassicGroup.simple(one)) for one in IDS)


async def a_bench() -> Bench:
    bench = Bench(work=LongWork(OneStepATurn()), transaction_partition_verification_enable=False)
    await bench.start()
    topics = [TopicImage(one.name.encode().ljust(16), one.name, 1) for one in PER_TOPIC]
    bench.broker.image = MetadataImage([TopicImage(TOPIC_ID, "t", ITEMS), *topics], version=1)
    bench.shard.shard.state.image = bench.broker.image
    fill(bench)
    return bench


async def ask(request: Any, version: int | None, more: bool = False) -> Turns:
    bench = await a_bench()
    if more:
        fill_more(bench)
    asker = Asker(bench.broker, Frontend(bench.broker, lambda: "cluster", int))
    with Turns() as turns:
        await asker.ask(request, version)
    await bench.broker.close()
    return turns


VERSIONS: Mapping[str, int] = {
    "OffsetCommit.topics": 9,
    "OffsetCommit.topics.partitions": 9,
    "TxnOffsetCommit.topics": 3,
    "TxnOffsetCommit.topics.partitions": 3,
    "OffsetFetch.groups.topics": 9,
    "OffsetFetch.groups.topics.partitions": 9,
}
"""The last versions that name topics."""


@pytest.mark.slow
@pytest.mark.parametrize("row", [row for row, make in ROWS.items() if make is not None])
async def test_a_long_request_leaves_the_loop_to_others(row: str) -> None:
    make = ROWS[row]
    assert make is not None
    turns = await ask(make(), VERSIONS.get(row))
    assert turns.most <= CALLS, str(turns)


@pytest.mark.slow
@pytest.mark.parametrize("row", STATE)
async def test_a_request_about_much_leaves_the_loop_to_others(row: str) -> None:
    version = 9 if "topic" in row and "delete" not in row else None
    turns = await ask(STATE[row](), version, more=True)
    assert turns.most <= CALLS, str(turns)
