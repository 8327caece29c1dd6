"""Which check comes first, what each API looks like when its shard cannot answer, and how parts
become one reply."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from groupd.coordinator.core.shard_requests import ListSomeGroups
from groupd.coordinator.core.types import Operation, RequestContext
from groupd.coordinator.runtime import group_routes
from groupd.coordinator.runtime.broker import Route
from groupd.coordinator.runtime.data_routes import DataRoute
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.waiting import Callback, Gather, Part
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import LeaveGroupRequest, LeavingMember
from groupd.protocol.messages.consumer_group import ConsumerGroupDescribeRequest
from groupd.protocol.messages.data import (
    FetchRequest,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from groupd.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
)
from groupd.protocol.messages.offsets import (
    CommitPartition,
    FetchTopic,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    commit_topic,
)
from groupd.protocol.wire.api.offset_fetch import OFFSET_FETCH
from tests.unit.runtime.harness import (
    APIS,
    TOPIC_ID,
    Bench,
    beat,
    commit,
    commit_errors,
    committed,
    consumer_beat,
    consumer_join,
    fetch,
    join,
    settle,
    sync,
)

LEAVE = LeaveGroupRequest("g", (LeavingMember("m"),))
DELETE_OFFSETS = OffsetDeleteRequest("g", (FetchTopic("t", (0,)),))


def codes(reply: Any) -> set[ErrorCode]:
    """Every error code in a reply, wherever it stands."""
    found = {reply.error} if hasattr(reply, "error") else set()
    for place in ("topics", "partitions", "groups", "results", "coordinators"):
        for part in getattr(reply, place, ()):
            found |= codes(part)
    return found - {ErrorCode.NONE} or {ErrorCode.NONE}


def everything() -> list[Any]:
    return [
        pytest.param(join("g"), None, id="join"),
        pytest.param(sync("g", 1, "m"), None, id="sync"),
        pytest.param(beat("g", 1, "m"), None, id="heartbeat"),
        pytest.param(LEAVE, None, id="leave"),
        pytest.param(commit("g", 1), None, id="commit"),
        pytest.param(fetch("g"), 1, id="fetch-v1"),
        pytest.param(fetch("g"), 2, id="fetch-v2"),
        pytest.param(fetch("g"), 8, id="fetch-v8"),
        pytest.param(DELETE_OFFSETS, None, id="delete-offsets"),
        pytest.param(consumer_join("g", "m"), None, id="consumer-heartbeat"),
        pytest.param(ConsumerGroupDescribeRequest(("g",)), None, id="consumer-describe"),
        pytest.param(DescribeGroupsRequest(("g",)), None, id="describe"),
        pytest.param(DeleteGroupsRequest(("g",)), None, id="delete"),
        pytest.param(ListGroupsRequest(), None, id="list"),
    ]


@pytest.mark.parametrize(("request_", "version"), everything())
async def test_before_the_start_everything_answers_15(request_: Any, version: int | None) -> None:
    bench = Bench()
    assert codes(await bench.answer(request_, version)) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert len(bench.broker.waiting) == 0


@pytest.mark.parametrize(("request_", "version"), everything())
async def test_a_loading_shard_answers_14_in_the_manner_of_each_api(
    request_: Any, version: int | None
) -> None:
    bench = Bench()
    bench.broker.started = True
    expected = {
        "SyncGroupRequest": ErrorCode.REBALANCE_IN_PROGRESS,
        "HeartbeatRequest": ErrorCode.NONE,
    }.get(type(request_).__name__, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert codes(await bench.answer(request_, version)) == {expected}


@pytest.mark.parametrize(("request_", "version"), everything())
async def test_a_failed_shard_answers_16_and_is_left_out_of_lists(
    request_: Any, version: int | None
) -> None:
    bench = await Bench().start()
    bench.shard.state = CoordinatorState.FAILED
    listing = isinstance(request_, ListGroupsRequest)
    expected = ErrorCode.NONE if listing else ErrorCode.NOT_COORDINATOR
    assert codes(await bench.answer(request_, version)) == {expected}


@pytest.mark.parametrize(
    ("version", "places"),
    [(1, ("partition",)), (2, ("group",)), (7, ("group",)), (8, ("group",))],
)
async def test_where_offset_fetch_puts_the_error_of_its_shard(
    version: int, places: tuple[str, ...]
) -> None:
    bench = Bench()
    bench.broker.started = True
    reply = OFFSET_FETCH.encode(await bench.answer(fetch("g", 0, 1), version), version)
    (group,) = OFFSET_FETCH.decode_reply(bytes(reply), 0, version).groups
    if places == ("group",):
        assert group.topics == ()
        assert group.error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    else:
        errors = [entry.error for entry in group.topics[0].partitions]
        assert errors == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2


# Order of the checks ------------------------------------------------------------------------


def deny(*denied: Operation) -> Any:
    return lambda operation, resource, name: operation not in denied


@pytest.mark.parametrize(
    ("request_", "denied", "code"),
    [
        (join("g"), Operation.READ, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (consumer_join("g", "m"), Operation.READ, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (commit("g", 1), Operation.READ, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (fetch("g"), Operation.DESCRIBE, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (DELETE_OFFSETS, Operation.DELETE, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ],
    ids=["join", "consumer", "commit", "fetch", "delete"],
)
async def test_authorisation_comes_before_the_start(
    request_: Any, denied: Operation, code: ErrorCode
) -> None:
    (reply,) = Bench().ask(request_, allows=deny(denied))
    assert codes(reply) == {code}


async def test_the_shape_of_a_request_comes_after_the_start_and_before_the_shard() -> None:
    bench = Bench()
    broken = consumer_beat("g", "", 1)
    assert (await bench.answer(broken)).error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.broker.started = True
    assert (await bench.answer(broken)).error == ErrorCode.INVALID_REQUEST
    assert (await bench.answer(join(""))).error == ErrorCode.INVALID_GROUP_ID
    bad = await bench.answer(sync("g", 1, "m", leads=False))
    assert bad.error == ErrorCode.REBALANCE_IN_PROGRESS, "well formed: the loading shard answers"


async def test_a_join_error_echoes_the_member_id_where_kafka_does() -> None:
    bench = Bench()
    reply = await bench.answer(join("g", "me"))
    assert (reply.error, reply.member_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, "me")
    bench.broker.started = True
    reply = await bench.answer(join("g", "me"))
    assert (reply.error, reply.member_id) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "")


async def test_unknown_requests_are_refused() -> None:
    bench = await Bench().start()
    replies: list[Any] = []
    waiter = Callback(object(), lambda request, code, message: code, replies.append)
    bench.broker.submit(RequestContext(waiter, 0), waiter.request)
    assert replies == [ErrorCode.UNSUPPORTED_VERSION]
    await bench.broker.close()


async def test_the_coordinator_of_a_group_is_this_node_once_started() -> None:
    bench = Bench()
    (found,) = (await bench.answer(FindCoordinatorRequest(("g",)))).coordinators
    assert (found.error, found.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    await bench.start()
    (found,) = (await bench.answer(FindCoordinatorRequest(("g",)))).coordinators
    assert (found.error, found.node_id) == (ErrorCode.NONE, bench.config.node_id)
    await bench.broker.close()


# Many groups --------------------------------------------------------------------------------

GROUPS = tuple(f"group-{number}" for number in range(20))


async def filled() -> Bench:
    bench = await Bench(shards=7).start()
    for number, group in enumerate(GROUPS):
        await bench.answer(commit(group, number))
    assert len({bench.broker.shard_of(group).partition for group in GROUPS}) > 4
    return bench


async def test_offsets_of_many_groups_come_in_the_order_asked_duplicates_included() -> None:
    bench = await filled()
    asked = (*GROUPS[5:], GROUPS[7], "nobody", *GROUPS[:5])
    topics = (FetchTopic("t", (0,), TOPIC_ID),)
    request = OffsetFetchRequest(tuple(OffsetFetchGroup(group, topics) for group in asked))
    reply = await bench.answer(request)
    assert [group.group_id for group in reply.groups] == list(asked)
    found = [group.topics[0].partitions[0].offset for group in reply.groups]
    assert found == [*range(5, 20), 7, -1, *range(5)]
    assert len(bench.broker.waiting) == 0
    await bench.broker.close()


async def test_describe_answers_each_group_once_in_the_order_of_first_mention() -> None:
    bench = await filled()
    asked = (GROUPS[3], "nobody", GROUPS[1])
    again = (*asked, GROUPS[3], "nobody")
    reply = await bench.answer(DescribeGroupsRequest(again), 5)
    assert [group.group_id for group in reply.groups] == list(asked)
    assert [group.state for group in reply.groups] == ["Empty", "Dead", "Empty"]
    reply = await bench.answer(ConsumerGroupDescribeRequest(again))
    assert [group.group_id for group in reply.groups] == list(asked)
    assert {group.error for group in reply.groups} == {ErrorCode.GROUP_ID_NOT_FOUND}
    await bench.broker.close()


async def test_describe_puts_refused_groups_first() -> None:
    bench = await filled()

    def allows(operation: Operation, resource: Any, name: str) -> bool:
        return name != GROUPS[1]

    asked = GROUPS[:2]
    for request in (ConsumerGroupDescribeRequest(asked), DescribeGroupsRequest(asked)):
        replies = bench.ask(request, allows=allows)
        await settle()
        assert [group.group_id for group in replies[0].groups] == [GROUPS[1], GROUPS[0]]
        assert replies[0].groups[0].error == ErrorCode.GROUP_AUTHORIZATION_FAILED
    await bench.broker.close()


async def test_delete_puts_refused_groups_last_and_leaves_them_alone() -> None:
    bench = await filled()

    def allows(operation: Operation, resource: Any, name: str) -> bool:
        return name != GROUPS[0]

    replies = bench.ask(DeleteGroupsRequest((GROUPS[0], GROUPS[1], GROUPS[0])), allows=allows)
    await settle()
    assert [(one.group_id, one.error) for one in replies[0].results] == [
        (GROUPS[1], ErrorCode.NONE),
        (GROUPS[0], ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ]
    left = {group.group_id for group in (await bench.answer(ListGroupsRequest())).groups}
    assert left == set(GROUPS) - {GROUPS[1]}
    await bench.broker.close()


async def test_filters_of_lists_ignore_case_and_spaces() -> None:
    bench = await filled()
    for states, types in (((" EMPTY ",), ()), ((), ("CLASSIC", "x")), (("empty",), ("classic ",))):
        reply = await bench.answer(ListGroupsRequest(states, types))
        assert len(reply.groups) == len(GROUPS)
    for states, types in ((("stable",), ()), ((), ("consumer",)), (("",), ())):
        assert len((await bench.answer(ListGroupsRequest(states, types))).groups) == 0
    await bench.broker.close()


async def test_many_groups_are_listed_shard_by_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = await filled()
    at_once = await bench.answer(ListGroupsRequest())
    monkeypatch.setattr(group_routes, "LISTED_AT_ONCE", 1)
    replies = bench.ask(ListGroupsRequest())
    assert replies == [], "others have their turn first"
    first, *_, last = (shard for shard in bench.broker.shards if shard.shard.state.groups)
    gone, kept = next(iter(last.shard.state.groups)), next(iter(first.shard.state.groups))
    await bench.answer(DeleteGroupsRequest((gone, kept)))
    await settle()
    listed = {group.group_id for group in replies[0].groups}
    assert {group.group_id for group in at_once.groups} == set(GROUPS)
    assert listed == set(GROUPS) - {gone}, "each shard shows its moment"
    replies = bench.ask(ListGroupsRequest())
    last.state = CoordinatorState.FAILED
    await settle()
    assert replies[0].error is ErrorCode.NOT_COORDINATOR, "as of a shard that fails while it waits"
    await bench.broker.close()


async def test_list_gathers_every_shard_and_leaves_failed_ones_out() -> None:
    bench = await filled()
    listed = (await bench.answer(ListGroupsRequest())).groups
    assert sorted(group.group_id for group in listed) == sorted(GROUPS)
    failed = bench.broker.shard_of(GROUPS[0])
    failed.state = CoordinatorState.FAILED
    rest = {group.group_id for group in (await bench.answer(ListGroupsRequest())).groups}
    assert rest == {group for group in GROUPS if bench.broker.shard_of(group) is not failed}
    failed.state = CoordinatorState.LOADING
    reply = await bench.answer(ListGroupsRequest())
    assert (reply.error, reply.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ())
    await bench.broker.close()


async def test_delete_asks_each_shard_once_and_answers_in_the_order_of_first_mention() -> None:
    bench = await filled()
    before = bench.broker.writer.batches
    asked = (GROUPS[4], "nobody", GROUPS[2], GROUPS[4], *GROUPS[10:])
    reply = await bench.answer(DeleteGroupsRequest(asked))
    expected = (GROUPS[4], "nobody", GROUPS[2], *GROUPS[10:])
    assert [result.group_id for result in reply.results] == list(expected)
    errors = {result.group_id: result.error for result in reply.results}
    assert errors.pop("nobody") == ErrorCode.GROUP_ID_NOT_FOUND
    assert set(errors.values()) == {ErrorCode.NONE}
    assert bench.broker.writer.batches - before <= 7
    left = {group.group_id for group in (await bench.answer(ListGroupsRequest())).groups}
    assert left == set(GROUPS) - set(expected)
    await bench.broker.close()


async def test_delete_tells_the_failure_of_one_shard_for_its_groups_only() -> None:
    bench = await filled()
    bench.broker.shard_of(GROUPS[0]).state = CoordinatorState.FAILED
    reply = await bench.answer(DeleteGroupsRequest(GROUPS))
    for result in reply.results:
        lost = bench.broker.shard_of(result.group_id) is bench.broker.shard_of(GROUPS[0])
        assert result.error == (ErrorCode.NOT_COORDINATOR if lost else ErrorCode.NONE)
    await bench.broker.close()


@pytest.mark.parametrize(
    "request_",
    [OffsetFetchRequest(()), DescribeGroupsRequest(()), DeleteGroupsRequest(())],
    ids=["fetch", "describe", "delete"],
)
async def test_nothing_asked_is_answered_at_once(request_: Any) -> None:
    bench = await Bench().start()
    assert codes(bench.ask(request_)[0]) == {ErrorCode.NONE}
    await bench.broker.close()


# Merged answers -----------------------------------------------------------------------------


async def test_a_commit_merges_what_the_front_end_refused_with_what_the_shard_took() -> None:
    bench = await Bench().start()
    entries = (CommitPartition(0, 7), CommitPartition(9, 7))
    request = OffsetCommitRequest(
        "g", (commit_topic("t", entries), commit_topic("none", (CommitPartition(0, 1),)))
    )
    reply = await bench.answer(request, 9)
    told = {
        (topic.name, entry.partition): entry.error
        for topic in reply.topics
        for entry in topic.partitions
    }
    assert told == {
        ("t", 0): ErrorCode.NONE,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert committed(await bench.answer(fetch("g"))) == [7]
    await bench.broker.close()


async def test_a_commit_of_nothing_known_needs_no_shard() -> None:
    bench = Bench()
    request = OffsetCommitRequest("g", (commit_topic("none", (CommitPartition(0, 1),)),))
    assert commit_errors(await bench.answer(request, 9)) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_an_answer_that_cannot_be_put_together_is_an_error_not_a_lost_reply() -> None:
    bench = await Bench().start()
    replies: list[Any] = []
    api = APIS[FindCoordinatorRequest]

    def place(broker: Any, context: RequestContext, request: Any) -> None:
        def broken(parts: list[Any]) -> None:
            raise RuntimeError("bug")

        gather = Gather(context.token, 1, broken)
        part = Part(ListSomeGroups(()), context.token.failure, gather, 0)
        broker.ask(bench.shard, context, part)

    bench.broker._routes[FindCoordinatorRequest] = Route(None, place)
    request = FindCoordinatorRequest(("g",))
    waiter = Callback(request, api.failure, replies.append)
    bench.broker.submit(RequestContext(waiter, 4), request)
    assert [codes(reply) for reply in replies] == [{ErrorCode.UNKNOWN_SERVER_ERROR}]
    assert len(bench.broker.waiting) == 0
    await bench.broker.close()


# Inputs from the data plane -----------------------------------------------------------------


async def test_a_group_config_reaches_its_shard_and_the_next_heartbeat() -> None:
    bench = await Bench(shards=4).start()
    epoch = (await bench.answer(consumer_join("g", "m1"))).member_epoch
    bench.broker.on_group_configs("g", {"consumer.heartbeat.interval.ms": "7000"})
    reply = await bench.answer(consumer_beat("g", "m1", epoch))
    assert reply.heartbeat_interval_ms == 7000
    bench.broker.on_group_configs("g", {})
    reply = await bench.answer(consumer_beat("g", "m1", epoch))
    assert reply.heartbeat_interval_ms == bench.config.consumer_heartbeat_interval_ms
    await bench.broker.close()


async def test_a_deleted_topic_takes_its_offsets_in_every_shard() -> None:
    bench = await filled()
    bench.change_topics(deleted=("t",))
    await settle()
    assert sum(shard.shard.offset_count() for shard in bench.broker.shards) == 0
    again = await bench.restart()
    assert sum(shard.shard.offset_count() for shard in again.broker.shards) == 0
    await again.broker.close()


# Data requests ------------------------------------------------------------------------------


@pytest.mark.parametrize(("acks", "answer"), [(-1, {ErrorCode.UNKNOWN_SERVER_ERROR}), (0, None)])
async def test_a_data_request_that_raises_is_answered_or_lost_if_nobody_reads_answers(
    acks: int, answer: set[ErrorCode] | None
) -> None:
    bench = await Bench().start()

    async def broken(context: RequestContext, request: Any) -> Any:
        raise RuntimeError("bug")

    bench.broker.tasks.routes.update({ProduceRequest: DataRoute(broken)})
    topic = ProduceTopic("t", TOPIC_ID, (ProducePartition(0, b""),))
    request = ProduceRequest((topic,), acks, 1000)
    replies: list[Any] = []
    lost: list[bool] = []
    waiter = Callback(
        request, APIS[ProduceRequest].failure, replies.append, lambda: lost.append(True)
    )
    bench.broker.submit(RequestContext(waiter, 13), request)
    await settle()
    assert [codes(reply) for reply in replies] == ([] if answer is None else [answer])
    assert lost == ([True] if answer is None else [])
    assert len(bench.broker.waiting) == 0
    await bench.broker.close()


class TwoParts:
    """A request that does something and then reads. Each part waits until the test lets it go on.
    `told`: what has happened."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.told: list[str] = []
        self.go_on = {"handle": asyncio.Event(), "read": asyncio.Event()}
        self.request = FetchRequest((), 60_000)
        self.waiter = Callback(self.request, lambda *_: None, self.told.append)
        bench.broker.tasks.routes.update({FetchRequest: DataRoute(self.handle, self.read)})

    async def handle(self, context: RequestContext, request: Any) -> str:
        await self._part("handle")
        return "begun"

    async def read(self, context: RequestContext, request: Any, begun: str) -> str:
        assert begun == "begun"
        await self._part("read")
        return "the reply"

    async def _part(self, name: str) -> None:
        try:
            await self.go_on[name].wait()
            self.told.append(name)
        except asyncio.CancelledError:
            self.told.append(f"{name} ends")
            raise

    async def submit(self) -> None:
        self.bench.broker.submit(RequestContext(self.waiter, 0), self.request)
        await settle()

    async def finish(self, part: str) -> None:
        self.go_on[part].set()
        await settle()

    async def leave(self) -> None:
        """The client goes."""
        self.bench.broker.forget(self.waiter)
        await settle()


async def test_a_request_in_two_parts_is_idle_while_it_only_reads() -> None:
    bench = await Bench().start()
    two = TwoParts(bench)
    await two.submit()
    assert not bench.broker.idle
    await two.finish("handle")
    assert bench.broker.idle
    await two.finish("read")
    assert two.told == ["handle", "read", "the reply"]
    assert bench.broker.tasks._reads == {}
    await bench.broker.close()


async def test_what_has_effects_goes_on_without_its_client_and_nothing_is_read_after_it() -> None:
    bench = await Bench().start()
    two = TwoParts(bench)
    await two.submit()
    await two.leave()
    await two.finish("handle")
    await two.finish("read")
    assert two.told == ["handle"]
    assert bench.broker.tasks._reads == {}
    await bench.broker.close()


async def test_what_only_reads_ends_with_its_client() -> None:
    bench = await Bench().start()
    two = TwoParts(bench)
    await two.submit()
    await two.finish("handle")
    await two.leave()
    assert two.told == ["handle", "read ends"]
    assert bench.broker.tasks._reads == {}
    await bench.broker.close()


async def test_a_client_that_is_gone_before_its_request_begins() -> None:
    bench = await Bench().start()
    two = TwoParts(bench)
    bench.broker.submit(RequestContext(two.waiter, 0), two.request)
    bench.broker.forget(two.waiter)
    await two.finish("handle")
    assert two.told == ["handle"]
    await bench.broker.close()
