"""A group type is a folder and a line: the invented one in `raffle` joins, persists, is described,
listed, inspected and measured, tells its history, and is dumped and verified by the log tools,
without a change anywhere else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from msgspec.structs import replace
from prometheus_client.exposition import generate_latest
from structlog.testing import capture_logs

from groupd.coordinator.admin.group_pages import config_rows
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.values import SOURCE_DEFAULT, SOURCE_GROUP
from groupd.coordinator.core import inspection
from groupd.coordinator.core.group_type import Positions
from groupd.coordinator.core.group_types import GROUP_TYPES
from groupd.coordinator.core.inspected_offsets import offsets_steps
from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage, TopicImage
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.shard_requests import DeleteGroup, ListSomeGroups
from groupd.coordinator.core.slices import at_once, run_through
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import (
    AppliedAt,
    Event,
    EventKind,
    Instant,
    Outcome,
    OutsideCall,
    RequestContext,
    Task,
    merged_outcomes,
)
from groupd.coordinator.faults.traffic import Liveness
from groupd.coordinator.history.authors import Authors
from groupd.coordinator.history.changes import LoggedGroupEvent
from groupd.coordinator.history.ledger import GroupLedger
from groupd.coordinator.history.rebalance_fold import rebalance_steps
from groupd.coordinator.history.rebalance_text import rebalance_rows
from groupd.coordinator.history.stream import GroupStream
from groupd.coordinator.lag.judgement import Judgement
from groupd.coordinator.lag.positions import CALLS_AT_ONCE
from groupd.coordinator.logtools.dump import json_line, text_line
from groupd.coordinator.logtools.entries import entries_of
from groupd.coordinator.logtools.findings import Counts
from groupd.coordinator.logtools.record_json import record_of
from groupd.coordinator.logtools.verify import ReplayChecks
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.timeline import Timeline
from groupd.coordinator.runtime.waiting import Callback
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.classic_group import HeartbeatRequest, JoinGroupRequest, JoinProtocol
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from groupd.protocol.messages.groups import (
    DeleteGroupsRequest,
    ListedGroup,
)
from groupd.protocol.messages.offsets import (
    CommitPartition,
    FetchedGroup,
    FetchTopic,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    TxnOffsetCommitRequest,
    commit_topic,
)
from groupd.protocol.messages.topics import (
    RESOURCE_GROUP,
    AlterConfig,
    AlterResource,
    ConfigResource,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from groupd.protocol.records import codec
from groupd.protocol.records.batch import iter_batches
from groupd.protocol.records.schema import Record
from groupd.storage.log import LogUnavailable
from groupd.storage.memory import MemoryStore
from tests.support.inspected import inspect_group
from tests.unit.admin.registry import registry_of
from tests.unit.core.raffle.group import (
    DRAW,
    PRIZES_ID,
    RESERVED,
    Raffle,
    RaffleKey,
    RaffleValue,
    TicketKey,
)
from tests.unit.core.raffle.records import RECORDS
from tests.unit.core.raffle.type import (
    COUNTER,
    JURY,
    RAFFLE,
    STORE_ROOM,
    BuyTicket,
    ClaimPrize,
    DescribeRaffle,
    Sold,
)
from tests.unit.history.harness import LoggedShard
from tests.unit.lag.test_watch import Bench as LagBench
from tests.unit.runtime.harness import Bench, commit, settle
from tests.unit.topics.conftest import Cluster
from tests.unit.tracing.traced import MS, Traces

NOW = Instant(1_000, 1_700_000_000_000)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """Puts the line into the table of group types, and the layouts of its records beside those of
    `groupd/protocol/records`."""
    by_prefix = {one.number.to_bytes(2, "big"): one for one in RECORDS}
    by_key = {one.key: one for one in RECORDS}
    with patch.dict(codec.TYPES_BY_PREFIX, by_prefix), patch.dict(codec.TYPES_BY_KEY, by_key):
        GROUP_TYPES.append(RAFFLE)
        yield
        GROUP_TYPES.remove(RAFFLE)


@pytest.fixture
def log() -> LoggedShard:
    """Two tickets of raffle "r"."""
    log = LoggedShard()
    assert [log.request(BuyTicket("r", member_id)) for member_id in ("m1", "m2")] == [1, 2]
    return log


def replayed(log: LoggedShard) -> GroupCoordinatorShard:
    """A shard that has read the batches, as a loader does."""
    shard = GroupCoordinatorShard(ShardState(log.shard.state.config, lambda: "id", {}))
    for payload in log.batches:
        for entry in GroupStream("r").entries(payload):
            assert entry.record is not None
            shard.replay(entry.record, AppliedAt(entry.offset))
    return shard


def test_it_joins_is_described_and_listed(log: LoggedShard) -> None:
    assert log.request(DescribeRaffle("r")) == {"m1": 1, "m2": 2}
    reply = log.request(ListSomeGroups(("r",), types=frozenset({"raffle"})))
    assert reply.groups == (ListedGroup("r", "raffle", "Open", "raffle"),)


def test_it_persists(log: LoggedShard) -> None:
    assert vars(replayed(log).state.groups["r"]) == vars(log.shard.state.groups["r"])


def test_its_timer_runs_also_after_a_load(log: LoggedShard) -> None:
    for shard in (log.shard, loaded := replayed(log)):
        if shard is loaded:
            shard.on_loaded(NOW)
        outcome = shard.expire((DRAW, "r", ""), NOW)
        assert [record.key.member_id for record in outcome.records] == ["m1", "m2"]  # type: ignore[union-attr]


def test_its_deadlines_have_keys_of_its_own(log: LoggedShard) -> None:
    for number in range(3, 12):
        log.request(BuyTicket("r", f"m{number}"))
    shard, state = replayed(log), log.shard.state
    shard.on_loaded(NOW)
    due = shard.pop_due(NOW.monotonic_ms + 10**7)
    fired = [key for key in due if key[0] == RESERVED]
    assert [key[2:] for key in fired] == [(PRIZES_ID, number) for number in range(1, 12)]
    (lapsed,) = shard.expire(fired[9], NOW).records
    assert lapsed.key == TicketKey("r", "m10")
    state.groups["r"].cancel_deadlines(state.deadlines)
    assert [one for one in state.deadlines.of_group("r") if one] == []


def test_its_tasks_metadata_and_parked_requests_reach_it(log: LoggedShard) -> None:
    done = log.shard.task_done(Task("raffle-shuffle", "r", lambda: 2), 2, NOW)
    assert [record.value for record in done.records] == [RaffleValue(3)]
    opened = log.shard.on_metadata(MetadataDelta(MetadataImage(), frozenset({"new"})), NOW)
    log.write(opened.records)
    assert log.shard.state.groups["new"].state_name() == "Empty"
    assert log.shard.unload().urgent == [(7, "closed")]


def test_it_is_inspected(log: LoggedShard) -> None:
    state = log.shard.state
    shown = inspect_group(state, "r", log.now)
    assert shown is not None
    assert (shown["type"], shown["state"], shown["epoch"]) == ("raffle", "Open", 2)
    prizes = PRIZES_ID.hex()
    assert [(one["kind"], one.get("of")) for one in shown["deadlines"]] == [
        (DRAW, None),
        (RESERVED, [prizes, 1]),
        (RESERVED, [prizes, 2]),
    ]
    assert inspection.list_group_summaries(state) == [
        {"group_id": "r", "type": "raffle", "state": "Open"}
    ]
    store = log.shard.offsets.store
    known = {"prizes": {number: Sold(number) for number in (1, 2)}}
    found = run_through(offsets_steps(state, store, "r", lambda *_: known, log.now))
    assert found is not None
    shown = [
        (one["topic"], one["partition"], one["member_id"], one["committed_offset"])
        for one in found[0]["partitions"]
    ]
    assert shown == [("prizes", 1, "m1", 1), ("prizes", 2, "m2", 2)]


def test_its_soft_state_lasts_until_the_shard_is_loaded_again(log: LoggedShard) -> None:
    def shuffling(shard: GroupCoordinatorShard) -> bool:
        shown = inspect_group(shard.state, "r", NOW)
        assert shown is not None
        return bool(shown["shuffling"])

    assert shuffling(log.shard)
    assert not shuffling(replayed(log))
    log.shard.task_done(Task("raffle-shuffle", "r", lambda: 2), 2, NOW)
    assert not shuffling(log.shard)


async def test_it_is_measured(log: LoggedShard) -> None:
    def with_raffle(shard: GroupCoordinatorShard) -> None:
        shard.state.groups.update(log.shard.state.groups)

    bench = await Bench(change=with_raffle).start()
    assert bench.shard.state is CoordinatorState.ACTIVE
    lines = generate_latest(registry_of(bench.broker)).decode()
    prefix = "kafka_server_group_coordinator_metrics_"
    assert f'{prefix}group_count{{protocol="raffle"}} 1.0' in lines
    assert f'{prefix}raffle_group_count{{state="Open"}} 1.0' in lines
    assert f'{prefix}raffle_group_count{{state="Empty"}} 0.0' in lines
    assert f"{prefix}raffle_draw_rate 0.0" in lines
    bench.clock.advance(60_000)
    await settle()
    lines = generate_latest(registry_of(bench.broker)).decode()
    assert f"{prefix}raffle_draw_count 1.0" in lines
    assert f"{prefix}group_completed_rebalance_count 0.0" in lines, "a rate of classic groups"
    assert 'groupd_events_total{kind="rebalance-completed"} 1.0' in lines
    await bench.broker.close()


async def ask_shard(bench: Bench, request: Any) -> list[Any]:
    """The replies so far; a request of this type has no API and no route."""
    replies: list[Any] = []
    waiter = Callback(request, lambda *failed: failed[1], replies.append)
    bench.broker.waiting.add(waiter)
    bench.shard.handle(RequestContext(waiter, 0, "client"), request)
    await settle()
    return replies


async def test_it_asks_somebody_else_once_its_records_are_durable() -> None:
    bench = await Bench().start()
    asked: list[tuple[Any, int]] = []
    verdict: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def jury(call: OutsideCall) -> str:
        asked.append((call.request, bench.shard.durable_offset))
        return await verdict

    assert await ask_shard(bench, BuyTicket("r", "m1")) == [1]
    assert await ask_shard(bench, ClaimPrize("r", "m1")) == [None], "there is no jury yet"
    bench.broker.calls.add(JURY, jury)
    replies = await ask_shard(bench, ClaimPrize("r", "m1"))
    assert replies == [], "the claim waits for the jury"
    assert asked == [("m1", bench.shard.durable_offset)]
    assert await ask_shard(bench, DescribeRaffle("r")) == [{"m1": 1}], "others do not"
    verdict.set_result("a cow")
    await settle()
    assert replies == ["a cow"]
    assert await ask_shard(bench, DescribeRaffle("r")) == [{}]
    await bench.broker.close()


@pytest.mark.parametrize("when", ["before it asks", "before the answer"])
async def test_a_shard_that_is_loaded_anew_hears_no_answer_and_asks_again(when: str) -> None:
    """It asks again what its records say is open: with a claim that was lost, nothing."""
    bench = await Bench().start()
    asked: list[str] = []
    verdict: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def jury(call: OutsideCall) -> str:
        asked.append(call.request)
        return await asyncio.shield(verdict)

    bench.broker.calls.add(JURY, jury)
    assert await ask_shard(bench, BuyTicket("r", "m1")) == [1]
    if when == "before it asks":
        bench.store.fail_next_append(LogUnavailable("scripted"))
    await ask_shard(bench, ClaimPrize("r", "m1"))
    assert asked == ([] if when == "before it asks" else ["m1"])
    if when == "before the answer":
        bench.store.fail_next_append(LogUnavailable("scripted"))
        await ask_shard(bench, BuyTicket("r", "m2"))
    bench.clock.advance(1000)
    await settle()
    assert bench.shard.state is CoordinatorState.ACTIVE
    assert asked == ([] if when == "before it asks" else ["m1", "m1"])
    assert await ask_shard(bench, DescribeRaffle("r")) == [{"m1": 1}]
    verdict.set_result("a cow")
    await settle()
    left = {"m1": 1} if when == "before it asks" else {}
    assert await ask_shard(bench, DescribeRaffle("r")) == [left]
    again = await bench.restart()
    assert await ask_shard(again, DescribeRaffle("r")) == [left]
    await again.broker.close()


async def test_a_topic_change_writes_its_record_and_forgets_the_offsets_of_deleted_topics() -> None:
    bench = await Bench().start()
    assert await bench.answer(commit("g", 5))
    store = bench.shard.shard.offsets.store
    bench.change_topics(TopicImage(b"r" * 16, "r", 1), deleted=("t",))
    await settle()
    bench.clock.advance(0)
    await settle()
    assert store.count == 0
    again = await bench.restart()
    assert sorted(again.shard.shard.state.groups) == ["g", "r"]
    assert again.shard.shard.offsets.store.count == 0
    await again.broker.close()


async def test_records_that_do_not_fit_do_not_keep_a_deleted_topic_from_being_forgotten() -> None:
    bench = await Bench(message_max_bytes=20_000).start()
    assert await bench.answer(commit("g", 5))
    names = [f"{number:04d}{'r' * 200}" for number in range(100)]
    created = [TopicImage(name[:16].encode(), name, 1) for name in names]
    with capture_logs() as logs:
        bench.change_topics(*created, deleted=("t",))
        await settle()
        bench.clock.advance(0)
        await settle()
    assert [one["event"] for one in logs if one["log_level"] == "error"] == ["write refused"]
    assert list(bench.shard.shard.state.groups) == ["g"]
    assert bench.shard.shard.offsets.store.count == 0
    await bench.broker.close()


async def test_an_outcome_of_a_load_may_have_records_calls_tasks_and_events() -> None:

    def at_load(state: ShardState, now: Instant) -> Outcome:
        opened = [name for name in state.image.by_name if name not in state.groups]
        return Outcome(
            records=[Record(RaffleKey(name), RaffleValue(0)) for name in opened],
            calls=[OutsideCall(JURY, name, "") for name in opened],
            tasks=[Task("raffle-shuffle", name, lambda: at_once(6)) for name in opened],
            events=[Event("raffle", EventKind.GROUP_CREATED, name) for name in opened],
        )

    asked: list[tuple[str, int]] = []

    async def jury(call: OutsideCall) -> str:
        asked.append((call.group_id, bench.shard.durable_offset))
        raise ApiError(ErrorCode.NOT_COORDINATOR)

    GROUP_TYPES[-1] = replace(RAFFLE, on_loaded=at_load)
    try:
        bench = Bench()
        bench.broker.calls.add(JURY, jury)
        with capture_logs() as logs:
            await bench.start()
            assert bench.shard.state is CoordinatorState.ACTIVE
            await settle()
    finally:
        GROUP_TYPES[-1] = RAFFLE
    raffle = bench.shard.shard.state.groups["t"]
    assert isinstance(raffle, Raffle)
    assert raffle.epoch == 7, "the task's result has come"
    assert asked == [("t", 2)], "once the records are durable"
    assert [one["event"] for one in logs if one["log_level"] != "info"] == []
    assert [one["group"] for one in logs if one["event"] == "group-created"] == ["t"]
    await bench.broker.close()


@pytest.mark.slow
async def test_a_load_whose_records_are_lost_each_time_is_not_repeated_without_a_pause() -> None:
    def at_load(state: ShardState, now: Instant) -> Outcome:
        return Outcome(records=[Record(RaffleKey("r"), RaffleValue(5))])

    loads: list[GroupCoordinatorShard] = []
    bench = Bench(change=loads.append)
    GROUP_TYPES[-1] = replace(RAFFLE, on_loaded=at_load)
    try:
        for _ in range(20):
            bench.store.fail_next_append(LogUnavailable("scripted"))
        await bench.start()
        assert bench.shard.state is CoordinatorState.ACTIVE
        await settle(1000)
        first = len(loads)
        assert first < 8
        for _ in range(30):
            bench.clock.advance(500)
            await settle(100)
    finally:
        GROUP_TYPES[-1] = RAFFLE
    assert len(loads) > first, "it is tried again"
    assert bench.shard.state is CoordinatorState.ACTIVE
    assert bench.shard.durable_offset > 0
    await bench.broker.close()


@pytest.mark.parametrize("field", ["replies", "transaction"])
def test_outcomes_of_several_types_have_nothing_that_only_one_can_have(field: str) -> None:
    value = {"replies": [(7, "reply")], "transaction": (1, 0)}[field]
    with pytest.raises(ValueError, match="an outcome of its own"):
        merged_outcomes([Outcome(), Outcome(**{field: value})])


def test_merged_outcomes_wait_for_all_that_one_of_them_waits_for() -> None:
    gates = [None, "a", None, "b"]
    merged = [
        merged_outcomes([Outcome(gate=gate) for gate in gates[:count]]).gate for count in (1, 3, 4)
    ]
    assert merged == [None, "a", "*"]


def test_it_has_a_history(log: LoggedShard) -> None:
    ledger, stream = GroupLedger("r"), GroupStream("r")
    changes: list[Any] = []
    for payload in log.batches:
        changes += ledger.apply(list(stream.entries(payload)))
    assert [one.member_id for one in changes if isinstance(one, LoggedGroupEvent)] == ["m1", "m2"]
    assert ledger.group is not None
    authors = Authors()
    authors.group_changed(ledger.group, RaffleKey("r"))
    author = authors.of(ledger.group, "prizes", b"p" * 16, 2)
    assert (author.member_id, author.epoch) == ("m2", 2)


def test_its_events_say_that_they_are_of_its_type(log: LoggedShard) -> None:
    shard, timeline, traces = log.shard, Timeline(), Traces()
    bought = shard.handle(RequestContext(7, 9), BuyTicket("r", "m3"), NOW)
    timeline.add(bought.events, 5)
    traces.take(bought.events, MS)
    (story,) = rebalance_rows(run_through(rebalance_steps(timeline.inputs("r"))))
    assert (story["cause"], story["epoch"]) == ("member m3 joined; a ticket was sold", 3)
    assert timeline.last_rebalance("r") == {"timestamp_ms": 5, "cause": story["cause"]}
    drawn = shard.expire((DRAW, "r", ""), NOW)
    traces.take(drawn.events, MS)
    assert [one.attributes["groupd.group.type"] for one in traces.roots] == ["raffle"]
    log.write(drawn.records)
    (call,) = shard.handle(RequestContext(7, 2), DeleteGroup("r"), NOW).calls
    deleted = shard.answered(call, ErrorCode.NONE, NOW)
    assert {one.group_type for one in deleted.events} == {"raffle"}


def test_it_has_no_committed_offsets(log: LoggedShard) -> None:
    topics = (commit_topic("prizes", (CommitPartition(1, 5),)),)
    for request in (
        OffsetCommitRequest("r", topics),
        OffsetCommitRequest("r", topics, generation_or_epoch=2, member_id="m1"),
        TxnOffsetCommitRequest("tid", "r", 1, 0, topics),
    ):
        reply = log.request(request)
        assert reply.topics[0].partitions[0].error is ErrorCode.GROUP_ID_NOT_FOUND
    named = (FetchTopic("prizes", (1,)),)
    fetched = log.request(OffsetFetchGroup("r", named, member_id="m1", member_epoch=99))
    assert fetched.error is ErrorCode.NONE
    assert fetched.topics[0].partitions[0].offset == -1
    assert log.request(OffsetFetchGroup("r", None)) == FetchedGroup("r")
    deleted = log.request(OffsetDeleteRequest("r", named))
    assert deleted.error is ErrorCode.GROUP_ID_NOT_FOUND
    log.write(log.shard.expire((DRAW, "r", ""), NOW).records)
    log.sweep(10**12)
    assert "r" in log.shard.state.groups, "a sweep of offsets passes it by, empty as it is"


async def test_its_config_is_described_altered_and_read(log: LoggedShard) -> None:
    name = "raffle.draw.delay.ms"
    resource = AlterResource(RESOURCE_GROUP, "r", (AlterConfig(name, 0, "5000"),))
    asked = DescribeConfigsRequest(
        (ConfigResource(RESOURCE_GROUP, "r", (name,)),), include_synonyms=True
    )
    cluster = await Cluster(MemoryStore()).start()
    overrides = cluster.plane.group_overrides

    async def described() -> tuple[str, int, int]:
        (found,) = (await cluster.ask(asked)).results[0].configs
        return found.value, found.source, len(found.synonyms)

    assert await described() == ("60000", SOURCE_DEFAULT, 1)
    reply = await cluster.ask(IncrementalAlterConfigsRequest((resource,)))
    assert reply.results[0].error is ErrorCode.NONE
    assert await described() == ("5000", SOURCE_GROUP, 2)
    bad = AlterResource(RESOURCE_GROUP, "r", (AlterConfig(name, 0, "0"),))
    reply = await cluster.ask(IncrementalAlterConfigsRequest((bad,)))
    assert reply.results[0].error is ErrorCode.INVALID_CONFIG
    assert {"name": name, "value": "5000", "source": "group"} in config_rows(
        log.shard.state.config, overrides.of("r")
    )
    log.shard.set_group_configs("r", overrides.of("r"))
    log.request(BuyTicket("r", "m3"))
    assert log.shard.state.deadlines.due((DRAW, "r", "")) == log.now_ms - 1000 + 5000


def test_it_answers_a_request_of_another_type_while_it_has_members(log: LoggedShard) -> None:
    def heartbeat(member_id: str) -> ErrorCode:
        code: ErrorCode = log.request(HeartbeatRequest("r", 1, member_id)).error
        return code

    assert [heartbeat("m1"), heartbeat("m9")] == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    log.write(log.shard.expire((DRAW, "r", ""), NOW).records)
    assert heartbeat("m1") is ErrorCode.UNKNOWN_MEMBER_ID


async def test_its_members_are_kept_alive_while_a_test_moves_the_clock(log: LoggedShard) -> None:
    def with_raffle(shard: GroupCoordinatorShard) -> None:
        shard.state.groups.update(log.shard.state.groups)

    bench = await Bench(change=with_raffle).start()
    deadlines = bench.broker.own_shard_of("r").shard.state.deadlines
    liveness = Liveness(lambda: bench.broker)
    liveness.heard(BuyTicket("r", "m1"), SimpleNamespace(closed=False))  # type: ignore[arg-type]
    liveness.heard(BuyTicket("r", "nobody"), SimpleNamespace(closed=False))  # type: ignore[arg-type]
    liveness.renew(500_000)
    assert deadlines.due((DRAW, "r", "")) == 560_000
    await bench.broker.close()


class Counter:
    """Knows that raffles have sold as far in a prize's partition as its number says, and tells when
    the test lets it."""

    def __init__(self, bench: LagBench) -> None:
        self.asked: list[str] = []
        self.at_once = 0
        self.most_at_once = 0
        self.more = 0
        self.error: Exception | None = None
        self.nonsense: dict[str, Any] = {}
        """What it answers for these groups."""
        self.open = asyncio.Event()
        self.open.set()
        bench.calls.add(COUNTER, self._count)

    async def _count(self, call: OutsideCall) -> Positions:
        self.asked.append(call.group_id)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await settle(1)
            await self.open.wait()
        finally:
            self.at_once -= 1
        if self.error is not None:
            raise self.error
        if call.group_id in self.nonsense:
            return self.nonsense[call.group_id]  # type: ignore[no-any-return]
        return {"prizes": {number: Sold(number + self.more) for number in call.request}}


def lag_bench(log: LoggedShard) -> LagBench:
    bench = LagBench()
    bench.groups.update(log.shard.state.groups)  # type: ignore[arg-type]
    bench.logs.bounds = {("prizes", 1): (0, 10), ("prizes", 2): (0, 10)}
    return bench


def lags(bench: LagBench) -> list[int]:
    """Of its partitions, in the last round; none if nothing is known."""
    known = bench.watch.groups.get("r")
    return [] if known is None else [one.lag for _, one in known.partitions()]


async def in_time(bench: LagBench, looking: asyncio.Task[None]) -> None:
    """Time passes until a round ends by itself."""
    while not looking.done():
        await settle()
        bench.clock.advance(100)


async def test_its_lag_counts_from_positions_that_somebody_else_knows(log: LoggedShard) -> None:
    bench = lag_bench(log)
    counter = Counter(bench)
    await bench.rounds(2)
    assert (counter.asked, lags(bench)) == (["r", "r"], [9, 8]), "it is asked once in a round"
    counter.more = 4
    await bench.rounds(1)
    assert lags(bench) == [5, 4]
    shown = run_through(
        offsets_steps(log.shard.state, log.shard.offsets.store, "r", bench.watch.positions.of, NOW)
    )
    assert shown is not None
    assert [one["committed_offset"] for one in shown[0]["partitions"]] == [5, 6]
    del bench.groups["r"]
    await bench.rounds(1)
    bench.groups.update(log.shard.state.groups)  # type: ignore[arg-type]
    counter.error = OSError("away")
    await bench.rounds(1)
    assert lags(bench) == [], "what was known of a group that has gone is forgotten"


@pytest.mark.parametrize("how", ["an error", "no answer", "nobody to ask"])
async def test_without_an_answer_it_is_where_the_last_one_said_or_nowhere(
    log: LoggedShard, how: str
) -> None:
    bench = lag_bench(log)
    counter = Counter(bench)

    async def round_without_answer() -> None:
        counter.more = 4
        if how == "an error":
            counter.error = OSError("away")
        elif how == "no answer":
            counter.open.clear()
        else:
            bench.calls.add(COUNTER, None)  # type: ignore[arg-type]
        before_ms = bench.now.monotonic_ms
        await in_time(bench, asyncio.create_task(bench.watch.look()))
        waited_ms = bench.now.monotonic_ms - before_ms
        assert waited_ms < 5000, "it waits for a fifth of the time between rounds at most"
        assert counter.at_once == 0, "nobody is asked any longer"

    with capture_logs() as logs:
        await round_without_answer()
        await round_without_answer()
    assert lags(bench) == []
    assert [one["groups"] for one in logs if "groups" in one] == [1], "it is told once"
    counter.error, counter.more = None, 0
    counter.open.set()
    bench.calls.add(COUNTER, counter._count)
    await bench.rounds(1)
    assert lags(bench) == [9, 8]
    bench.logs.bounds["prizes", 1] = (0, 20)
    await round_without_answer()
    assert lags(bench) == [19, 8], "its last known position, and where the log ends now"


@pytest.mark.parametrize("answer", [None, ErrorCode.NONE, ErrorCode.NOT_COORDINATOR])
async def test_an_answer_that_is_no_positions_harms_no_other_group(
    log: LoggedShard, answer: Any
) -> None:
    bench = lag_bench(log)
    counter = Counter(bench)
    bench.groups["other"] = Raffle("other")  # type: ignore[assignment]
    counter.nonsense["other"] = answer
    with capture_logs() as logs:
        await bench.rounds(2)
    assert lags(bench) == [9, 8]
    assert [one["error"] for one in logs] == [f"other: no positions but {type(answer).__name__}"]


async def test_of_many_groups_some_are_asked_for_at_a_time_and_all_have_their_turn(
    log: LoggedShard,
) -> None:
    bench = lag_bench(log)
    counter = Counter(bench)
    for number in range(2 * CALLS_AT_ONCE):
        bench.groups[f"r{number:03d}"] = Raffle(f"r{number:03d}")  # type: ignore[assignment]
    await bench.rounds(1)
    assert len(counter.asked) == len(set(counter.asked)) == 2 * CALLS_AT_ONCE + 1
    assert counter.most_at_once == CALLS_AT_ONCE
    counter.asked.clear()
    counter.open.clear()
    for _ in range(3):
        await in_time(bench, asyncio.create_task(bench.watch.look()))
    asked = set(counter.asked)
    assert len(asked) == 2 * CALLS_AT_ONCE + 1, "who has not answered does not come first again"


async def test_its_lag_is_judged_as_that_of_others(log: LoggedShard) -> None:
    bench = lag_bench(log)
    Counter(bench)
    await bench.rounds(12)
    assert bench.watch.groups["r"].totals.judgement is Judgement.STALLED
    assert {one.member_id for one in bench.watch.groups["r"].silent} == {"m1", "m2"}


def test_it_is_dumped_and_its_json_is_read_back(log: LoggedShard) -> None:
    (batch,) = iter_batches(log.batches[0])
    ticket, raffle = entries_of(batch)
    shown = json.loads(json_line("log", 0, ticket))
    assert shown["key"] == {"type": 121, "data": {"groupId": "r", "memberId": "m1"}}
    assert shown["value"]["data"] == {"clientId": "", "number": 1, "claimed": False}
    assert record_of(shown["key"], shown["value"]) == ticket.record
    assert " type-120 groupId=r -> epoch=1" in text_line("log", raffle)


def test_it_is_verified(log: LoggedShard) -> None:
    checks = ReplayChecks(0, None)
    log.write([])
    found = []
    for payload in log.batches:
        (batch,) = iter_batches(payload)
        for entry in entries_of(batch):
            found += checks.add(entry)
    assert (found, list(checks.end(Counts()))) == ([], [])


def test_other_types_keep_out_of_it(log: LoggedShard) -> None:
    context = RequestContext(7, 9)
    joining = JoinGroupRequest("r", 10_000, 10_000, "", "consumer", (JoinProtocol("x", b""),))
    refused = log.shard.handle(context, joining, NOW).replies[0][1]
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    heartbeat = ConsumerGroupHeartbeatRequest("r", "m", 0, rebalance_timeout_ms=1000)
    with pytest.raises(Exception, match="is not a consumer group"):
        log.shard.handle(context, heartbeat, NOW)


def test_two_types_cannot_have_the_same_deadline() -> None:
    twin = replace(RAFFLE, name="twin", requests={}, replay={}, tasks={})
    GROUP_TYPES.append(twin)
    try:
        with pytest.raises(ValueError, match=DRAW):
            GroupCoordinatorShard(ShardState(CoordinatorConfig(), lambda: "id", {}))
    finally:
        GROUP_TYPES.remove(twin)


# It is deleted when somebody else has taken the prizes back ---------------------------------


class StoreRoom:
    """Takes prizes back when the test says so."""

    def __init__(self, bench: Bench) -> None:
        self.answers: list[asyncio.Future[ErrorCode]] = []
        self.asked: list[tuple[str, Any]] = []
        bench.broker.calls.add(STORE_ROOM, self._take)

    async def _take(self, call: OutsideCall) -> ErrorCode:
        answer: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        self.asked.append((call.group_id, call.request))
        return await answer


async def sold_out() -> tuple[Bench, StoreRoom]:
    """A raffle "r" whose draw has been."""
    bench = await Bench().start()
    assert await ask_shard(bench, BuyTicket("r", "m1")) == [1]
    bench.clock.advance(60_000)
    await settle()
    assert await ask_shard(bench, DescribeRaffle("r")) == [{}]
    return bench, StoreRoom(bench)


def codes(replies: list[Any]) -> list[ErrorCode]:
    return [one.error for reply in replies for one in reply.results]


async def delete(bench: Bench) -> list[Any]:
    """The replies so far."""
    replies = bench.ask(DeleteGroupsRequest(("r",)))
    await settle()
    return replies


async def test_it_stands_until_the_prizes_are_returned() -> None:
    bench, room = await sold_out()
    deleted = await delete(bench)
    assert (deleted, room.asked) == ([], [("r", 1)])
    raffle = bench.shard.shard.state.groups["r"]
    assert isinstance(raffle, Raffle)
    assert raffle.closing, "what was to be known before is durable"
    room.answers[0].set_result(ErrorCode.NONE)
    await settle()
    assert codes(deleted) == [ErrorCode.NONE]
    assert bench.shard.shard.state.groups == {}
    again = await bench.restart()
    assert again.shard.shard.state.groups == {}
    await again.broker.close()


async def test_one_without_tickets_goes_at_once_and_one_with_members_is_not_asked_for() -> None:
    bench = await Bench().start()
    room = StoreRoom(bench)
    assert codes(await delete(bench)) == [ErrorCode.GROUP_ID_NOT_FOUND]
    bench.change_topics(TopicImage(b"r" * 16, "r", 1))  # opens a raffle of that name
    assert codes(await delete(bench)) == [ErrorCode.NONE]
    assert codes(await delete(bench)) == [ErrorCode.GROUP_ID_NOT_FOUND]
    await ask_shard(bench, BuyTicket("r", "m1"))
    assert codes(await delete(bench)) == [ErrorCode.NON_EMPTY_GROUP]
    assert room.asked == []
    await bench.broker.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ApiError(ErrorCode.FENCED_STATE_EPOCH), ErrorCode.FENCED_STATE_EPOCH),
        (OSError("nobody there"), ErrorCode.UNKNOWN_SERVER_ERROR),
        ("a cow", ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_prizes_that_are_not_taken_back_keep_it(answer: Any, code: ErrorCode) -> None:
    bench, room = await sold_out()
    deleted = await delete(bench)
    if isinstance(answer, Exception):
        room.answers[0].set_exception(answer)
    else:
        room.answers[0].set_result(answer)
    await settle()
    assert codes(deleted) == [code]
    assert list(bench.shard.shard.state.groups) == ["r"]
    again = await delete(bench)
    room.answers[1].set_result(ErrorCode.NONE)
    await settle()
    assert codes(again) == [ErrorCode.NONE]
    await bench.broker.close()


async def test_meanwhile_nobody_joins_it_and_nobody_deletes_it_a_second_time() -> None:
    """A second deletion could end after the first one, when there is another raffle "r"."""
    bench, room = await sold_out()
    first = await delete(bench)
    refused = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert await ask_shard(bench, BuyTicket("r", "m2")) == refused
    assert codes(await delete(bench)) == refused
    assert len(room.asked) == 1
    room.answers[0].set_result(ErrorCode.NONE)
    await settle()
    assert codes(first) == [ErrorCode.NONE]
    assert await ask_shard(bench, BuyTicket("r", "m2")) == [1]
    await bench.broker.close()


@pytest.mark.parametrize("when", ["the lease may be over", "the record is too large"])
async def test_the_shard_hears_of_each_call_once(when: str) -> None:
    """Otherwise the raffle would be refused for ever."""
    bench, room = await sold_out()
    shard = bench.shard
    if when == "the lease may be over":
        deleted = await delete(bench)
        shard.may_answer = lambda: False
        room.answers[0].set_result(ErrorCode.NONE)
        await settle()
        shard.may_answer = None
        assert codes(deleted) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert shard.shard.state.groups == {}
    else:
        with patch.object(shard, "_write_bytes_max", 1):
            assert codes(await delete(bench)) == [ErrorCode.UNKNOWN_SERVER_ERROR]
        assert room.asked == []
    assert len(await ask_shard(bench, BuyTicket("r", "m2"))) == 1
    assert shard.shard.state.busy == set()
    await bench.broker.close()


@pytest.mark.parametrize("when", ["before it asks", "before the answer", "it is given up"])
async def test_who_deletes_is_refused_if_the_shard_will_not_hear_the_answer(when: str) -> None:
    bench, room = await sold_out()
    if when == "before it asks":
        bench.store.fail_next_append(LogUnavailable("scripted"))
    deleted = await delete(bench)
    if when == "before the answer":
        bench.store.fail_next_append(LogUnavailable("scripted"))
        await ask_shard(bench, BuyTicket("s", "m2"))
    elif when == "it is given up":
        bench.shard.close()
    await settle()
    assert all(answer.cancelled() for answer in room.answers), "it is not tried again"
    assert codes(deleted) == [ErrorCode.NOT_COORDINATOR]
    assert len(room.asked) == (0 if when == "before it asks" else 1)
    assert "r" in bench.shard.shard.state.groups
    await bench.broker.close()


async def test_a_shard_that_is_given_up_begins_no_call() -> None:
    """Its last records become durable, but the next owner may serve the raffle by the answer."""
    bench, room = await sold_out()
    deleted: list[Any] = []
    waiter = Callback(DeleteGroup("r"), lambda *failed: failed[1], deleted.append)
    bench.broker.waiting.add(waiter)
    bench.shard.handle(RequestContext(waiter, 0, "client"), waiter.request)
    bench.shard.close()
    await bench.shard.written()
    await settle()
    assert (deleted, room.asked) == ([ErrorCode.NOT_COORDINATOR], [])
    assert bench.shard.shard.state.groups["r"].closing  # type: ignore[attr-defined]
    await bench.broker.close()


def test_the_retention_sweep_asks_nobody_and_so_deletes_none(log: LoggedShard) -> None:
    raffle = log.shard.state.groups["r"]
    log.write(log.shard.expire((DRAW, "r", ""), NOW).records)
    with patch.object(Raffle, "offset_owner", property(lambda one: one)):
        log.sweep()
        assert log.shard.state.groups == {"r": raffle}, "though it could have offsets"
        raffle.epoch = 0  # nobody has to be asked
        log.sweep()
    assert log.shard.state.groups == {}
