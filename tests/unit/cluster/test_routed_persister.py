"""The state of share-partitions across nodes: who is asked, what goes in one request, and what
happens if a node does not answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.cluster.peers import PeerAddress
from groupd.coordinator.cluster.routed_persister import RoutedPersister
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.persister import (
    ShareStateRequest,
    asked_partitions,
    entries_of,
    refused,
    reply_of,
)
from groupd.coordinator.runtime.coordinator_types import SHARE_COORDINATOR, share_partition_text
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.share_state.handlers import share_state_handlers
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.share_state import (
    AskedShareState,
    DeleteShareGroupStateRequest,
    InitializedShareState,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    ShareStateBatch,
    ShareStateReply,
    ShareStateTopic,
    WriteShareGroupStateRequest,
    WrittenShareState,
)
from groupd.protocol.records.share_state_records import SharePartitionKey
from tests.support.fake_broker import settle
from tests.unit.cluster.fake_nodes import SELF, World

T, U = b"t" * 16, b"u" * 16
CONFIG = CoordinatorConfig()
AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE
NONE = ErrorCode.NONE


class Answers:
    """Answers each partition with NONE, or with its code; remembers the requests."""

    def __init__(self, **codes: ErrorCode) -> None:
        self.codes = codes
        self.requests: list[ShareStateRequest] = []

    def __call__(self, request: ShareStateRequest) -> ShareStateReply:
        self.requests.append(request)
        entries = [
            refused(type(request), one, self.codes.get(f"p{_number(one)}", NONE))
            for _, one in asked_partitions(request)
        ]
        return reply_of(request, entries)

    async def ask(self, request: ShareStateRequest) -> ShareStateReply:
        return self(request)


def _number(asked: Any) -> int:
    return asked if isinstance(asked, int) else asked.partition


def routed(world: World, **nodes: int) -> tuple[RoutedPersister, Answers]:
    """`nodes`: the node of each partition of both topics and groups g and h, as p0=2."""
    for name, node in nodes.items():
        for topic_id in (T, U):
            for group in ("g", "h"):
                key = SharePartitionKey(group, topic_id, int(name[1:]))
                unit = SHARE_COORDINATOR.unit_of(share_partition_text(key), CONFIG)
                world.ownership.leaders[unit] = node
    local = Answers()
    persister = RoutedPersister(local, world.ownership, world.peers, CONFIG, LongWork())
    return persister, local


def read(*numbers: int, group: str = "g", topic: bytes = T) -> ReadShareGroupStateRequest:
    asked = [AskedShareState(number, 7) for number in numbers]
    return ReadShareGroupStateRequest(group, [ShareStateTopic(topic, asked)])


def shown(reply: ShareStateReply) -> list[tuple[int, ErrorCode]]:
    return [(entry.partition, entry.error) for entry in entries_of(reply)]


async def test_each_partition_is_asked_about_on_its_node(world: World) -> None:
    two, three = Answers(p3=ErrorCode.FENCED_LEADER_EPOCH), Answers()
    world.add(2, two)
    world.add(3, three)
    persister, local = routed(world, p0=SELF, p1=2, p2=3, p3=2)
    reply = await persister.ask(read(3, 0, 1, 2, 4))
    assert shown(reply) == [
        (3, ErrorCode.FENCED_LEADER_EPOCH),
        (0, NONE),
        (1, NONE),
        (2, NONE),
        (4, AWAY),
    ]
    asked = [[_number(one) for _, one in asked_partitions(node.requests[0])]
             for node in (local, two, three)]  # fmt: skip
    assert asked == [[0], [3, 1], [2]]


async def test_own_share_partitions_need_no_call(world: World) -> None:
    persister, local = routed(world, p0=SELF, p1=SELF)
    request = read(0, 1)
    assert shown(await persister.ask(request)) == [(0, NONE), (1, NONE)]
    assert len(local.requests) == 1
    assert world.network.tried == 0
    assert await persister.ask(read(0, group="")) == ShareStateReply()
    assert len(local.requests) == 1


ALL = {
    "initialize": InitializeShareGroupStateRequest(
        "g", [ShareStateTopic(T, [InitializedShareState(0, 3, -1)])]
    ),
    "read": read(0),
    "write": WriteShareGroupStateRequest(
        "g",
        [ShareStateTopic(T, [WrittenShareState(0, 3, 7, 10, 5, (ShareStateBatch(10, 19, 2, 1),))])],
    ),
    "delete": DeleteShareGroupStateRequest("g", [ShareStateTopic(T, [0])]),
    "summary": ReadShareGroupStateSummaryRequest(
        "g", [ShareStateTopic(T, [AskedShareState(0, 7)])]
    ),
}


@pytest.mark.parametrize("request_", ALL.values(), ids=ALL)
async def test_requests_arrive_as_they_were(world: World, request_: ShareStateRequest) -> None:
    answers = Answers()
    world.add(2, answers)
    persister, _ = routed(world, p0=2)
    assert shown(await persister.ask(request_)) == [(0, NONE)]
    (arrived,) = answers.requests
    assert type(arrived) is type(request_)
    assert [(topic, one) for topic, one in asked_partitions(arrived)] == asked_partitions(request_)


async def test_what_waits_goes_in_one_request_for_each_group(world: World) -> None:
    answers = Answers(p2=ErrorCode.FENCED_STATE_EPOCH)
    node = world.add(2, answers)
    persister, _ = routed(world, p0=2, p1=2, p2=2)
    node.hold()
    asks = [asyncio.ensure_future(persister.ask(read(0)))]
    await settle()
    asks += [
        asyncio.ensure_future(persister.ask(one))
        for one in (read(1), read(2, 1, topic=U), read(0, group="h"), read(1))
    ]
    await settle()
    node.release()
    replies = await asyncio.gather(*asks)
    assert [shown(reply) for reply in replies] == [
        [(0, NONE)],
        [(1, NONE)],
        [(2, ErrorCode.FENCED_STATE_EPOCH), (1, NONE)],
        [(0, NONE)],
        [(1, NONE)],
    ]
    assert [(one.group_id, len(asked_partitions(one))) for one in answers.requests] == [
        ("g", 1),
        ("g", 4),
        ("h", 1),
    ]


async def test_a_node_that_does_not_answer(world: World) -> None:
    persister, _ = routed(world, p0=2)
    assert shown(await persister.ask(read(0))) == [(0, AWAY)]
    world.addresses[2] = PeerAddress("node", 2)
    assert shown(await persister.ask(read(0))) == [(0, AWAY)]


async def test_a_node_that_answers_something_else(world: World) -> None:
    world.add(2, lambda request: ShareStateReply())
    persister, _ = routed(world, p0=2)
    assert shown(await persister.ask(read(0))) == [(0, AWAY)]


async def test_no_right_to_ask(world: World) -> None:
    denied = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    world.add(2, Answers(p0=denied))
    persister, _ = routed(world, p0=2)
    with capture_logs() as logged:
        for _ in range(2):
            assert shown(await persister.ask(read(0))) == [(0, denied)]
    assert ["ClusterAction" in one["event"] for one in logged] == [True]


async def test_calls_under_way_fail_at_the_end(world: World) -> None:
    node = world.add(2, Answers())
    persister, _ = routed(world, p0=2)
    node.hold()
    asking = asyncio.ensure_future(persister.ask(read(0)))
    await settle()
    await persister.close()
    assert shown(await asking) == [(0, AWAY)]


def test_all_requests_have_a_handler() -> None:
    assert set(share_state_handlers(Answers())) == {type(one) for one in ALL.values()}


async def test_nobody_is_asked_while_the_lease_is_in_doubt(world: World) -> None:
    two = Answers()
    world.add(2, two)
    persister, _ = routed(world, p1=2)
    world.ownership.in_doubt = True
    assert shown(await persister.ask(read(1))) == [(1, AWAY)]
    assert not two.requests
    world.ownership.in_doubt = False
    assert shown(await persister.ask(read(1))) == [(1, NONE)]
