"""A shard that is well: group commit, gated reads, timers, tasks, large writes, restarts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.core.metadata_image import TopicImage
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.types import Outcome
from groupd.coordinator.runtime import request_tasks
from groupd.coordinator.runtime.data_routes import DataRoute
from groupd.coordinator.runtime.log_shard import LINGER_MS
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.shard_timers import EXPIRE_RETRY_MS
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import HeartbeatReply
from groupd.protocol.messages.cluster import MetadataRequest
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from groupd.protocol.messages.groups import DeleteGroupsRequest, ListGroupsRequest
from groupd.protocol.messages.offsets import (
    CommitPartition,
    OffsetCommitRequest,
    commit_topic,
)
from groupd.storage.memory import MemoryStore
from tests.support.manual_clock import ManualClock
from tests.unit.runtime.harness import (
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

SHARD_LOG = "__consumer_offsets-0"


async def stable_classic_group(bench: Bench, group: str = "g") -> str:
    """A group with one member, who has synced."""
    member = (await bench.answer(join(group), version=3)).member_id
    reply = await bench.answer(sync(group, 1, member), version=5)
    assert reply.error == ErrorCode.NONE
    return str(member)


async def stable_consumer_group(bench: Bench, group: str = "g", member: str = "m1") -> int:
    reply = await bench.answer(consumer_join(group, member))
    assert (reply.error, reply.assignment[0].partitions) == (ErrorCode.NONE, (0, 1, 2))
    return int(reply.member_epoch)


# Group commit -------------------------------------------------------------------------------


async def test_a_reply_leaves_only_when_its_records_are_durable() -> None:
    bench = await Bench().start()
    bench.store.hold_appends()
    replies = bench.ask(commit("g", 7))
    await settle()
    assert replies == []
    assert bench.store.held_appends == 1
    bench.store.release_appends()
    await settle()
    assert [commit_errors(reply) for reply in replies] == [[ErrorCode.NONE]]
    await bench.broker.close()


async def test_commits_that_arrive_during_an_append_share_the_next_transaction() -> None:
    bench = await Bench().start()
    bench.store.hold_appends()
    replies = [bench.ask(commit("a", 1))]
    await settle()
    replies += [bench.ask(commit(group, 1)) for group in "bcdef"]
    bench.store.release_appends()
    await settle()
    assert all(len(reply) == 1 for reply in replies)
    assert bench.broker.writer.transactions == 2
    await bench.broker.close()


async def test_a_read_waits_for_the_pending_writes_of_its_group_only() -> None:
    bench = await Bench().start()
    await bench.answer(commit("other", 5))
    bench.store.hold_appends()
    write = bench.ask(commit("g", 7))
    gated, free = bench.ask(fetch("g")), bench.ask(fetch("other"))
    await settle()
    assert (write, gated) == ([], [])
    assert committed(free[0]) == [5]
    bench.store.release_appends()
    await settle()
    assert committed(gated[0]) == [7]
    await bench.broker.close()


async def test_listing_groups_waits_for_every_pending_write_of_the_shard() -> None:
    bench = await Bench().start()
    bench.store.hold_appends()
    bench.ask(commit("g", 7))
    listed = bench.ask(ListGroupsRequest())
    await settle()
    assert listed == []
    bench.store.release_appends()
    await settle()
    assert [group.group_id for group in listed[0].groups] == ["g"]
    await bench.broker.close()


async def test_memory_shows_a_write_to_the_next_request_before_it_is_durable() -> None:
    bench = await Bench().start()
    bench.store.hold_appends()
    first, second = bench.ask(commit("g", 7)), bench.ask(commit("g", 8))
    read = bench.ask(fetch("g"))
    bench.store.release_appends()
    await settle()
    assert [len(first), len(second)] == [1, 1]
    assert committed(read[0]) == [8]
    await bench.broker.close()


# Large writes -------------------------------------------------------------------------------


async def test_lg_24_a_write_larger_than_a_batch_is_refused_and_changes_nothing() -> None:
    bench = await Bench(message_max_bytes=2000, offset_metadata_max_bytes=100_000).start()
    reply = await bench.answer(commit("g", 7, metadata="x" * 4000))
    assert commit_errors(reply) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert bench.shard.shard.state.groups == {}
    assert bench.broker.events.counts.total() == 0
    assert bench.shard.state is CoordinatorState.ACTIVE
    assert commit_errors(await bench.answer(commit("g", 7))) == [ErrorCode.NONE]
    await bench.broker.close()


async def test_a_leaders_assignment_larger_than_a_batch_answers_every_parked_sync_once() -> None:
    bench = await Bench(message_max_bytes=1500).start()
    member = (await bench.answer(join("g"), version=3)).member_id
    request = sync("g", 1, member)
    large = type(request.assignments[0])(member, b"x" * 5000)
    reply = await bench.answer(
        type(request)("g", 1, member, None, "consumer", "range", (large,)), version=5
    )
    assert reply.error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert len(bench.broker.waiting) == 0
    assert (await bench.answer(beat("g", 1, member))).error == ErrorCode.REBALANCE_IN_PROGRESS
    await bench.broker.close()


def many_offsets(group: str, count: int) -> OffsetCommitRequest:
    entries = tuple(CommitPartition(partition, 1) for partition in range(count))
    return OffsetCommitRequest(group, (commit_topic("wide", entries, b"w" * 16),))


async def commit_widely(bench: Bench, partitions: int) -> None:
    """One committed offset for each partition of topic `wide`, few at a time."""
    bench.change_topics(TopicImage(b"w" * 16, "wide", partitions))
    for first in range(0, partitions, 20):
        entries = tuple(CommitPartition(p, 1) for p in range(first, first + 20))
        request = OffsetCommitRequest("g", (commit_topic("wide", entries, b"w" * 16),))
        assert set(commit_errors(await bench.answer(request))) == {ErrorCode.NONE}


async def test_lg_25_a_sweep_larger_than_a_batch_is_split() -> None:
    bench = await Bench(message_max_bytes=2000, offsets_retention_minutes=1).start()
    await commit_widely(bench, 200)
    before = bench.broker.writer.batches
    bench.clock.advance(bench.config.offsets_retention_check_interval_ms)
    await settle()
    left = bench.shard.shard.offset_count()
    assert left >= 200 - 1000 // 64, "a slice has half of the bytes of a batch"
    while bench.shard.shard.offset_count():
        bench.clock.advance(2)
        await settle()
        assert bench.shard.shard.offset_count() < left
        left = bench.shard.shard.offset_count()
    assert bench.broker.writer.batches >= before + 200 * 64 // 2000
    assert bench.shard.shard.state.groups == {}
    again = await bench.restart()
    assert again.shard.shard.offset_count() == 0
    await again.broker.close()


async def test_tombstones_of_a_deleted_topic_may_span_several_batches() -> None:
    bench = await Bench(message_max_bytes=4000).start()
    await commit_widely(bench, 200)
    await bench.answer(commit("g", 7))
    now_ms = bench.clock.monotonic_ms()
    bench.change_topics(deleted=("wide",))
    await settle()
    while bench.shard.shard.offset_count() > 1:
        assert bench.clock.next_timer_ms() == now_ms, "the next slice needs no time to pass"
        bench.clock.advance(0)
        await settle()
    assert bench.shard.shard.offset_count() == 1, "the offset of the other topic stays"
    assert not bench.shard.deleted
    again = await bench.restart()
    assert again.shard.shard.offset_count() == 1
    await again.broker.close()


@pytest.mark.parametrize("slices", [0, 1])
async def test_a_reload_between_two_slices_forgets_the_deleted_topic_anew(slices: int) -> None:
    bench = await Bench(message_max_bytes=4000, clock=ManualClock()).start()
    await commit_widely(bench, 200)
    await bench.answer(commit("g", 7))
    before = bench.shard.shard
    if not slices:
        bench.store.fail_next_append()
    bench.change_topics(deleted=("wide",))
    await settle()
    if slices:
        bench.store.fail_next_append()
        bench.clock.advance(0)
        await settle()
    assert bench.shard.shard is not before, "it was loaded again"
    while bench.shard.deleted:
        assert bench.shard.shard.offset_count() >= 1
        bench.clock.advance(0)
        await settle()
    again = await bench.restart()
    assert again.shard.shard.offset_count() == 1
    await again.broker.close()


async def test_a_topic_deleted_beside_a_failing_append_is_forgotten_after_the_reload() -> None:
    bench = await Bench().start()
    await bench.answer(commit("g", 7))
    before = bench.shard.shard
    bench.store.hold_appends()
    bench.store.fail_next_append()
    lost = bench.ask(commit("g", 8))
    await settle()
    bench.change_topics(deleted=("t",))
    bench.store.fail_next_read()  # the first reload
    bench.store.release_appends()
    await settle()
    assert bench.shard.deleted
    bench.clock.advance(10_000)
    await settle()
    assert commit_errors(lost[0]) == [ErrorCode.NOT_COORDINATOR]
    assert bench.shard.shard is not before, "it was loaded again"
    assert bench.shard.shard.offset_count() == 0
    assert not bench.shard.deleted
    await bench.broker.close()


# Restart ------------------------------------------------------------------------------------


async def test_a_restart_reads_everything_back() -> None:
    bench = await Bench().start()
    await bench.answer(commit("simple", 7))
    member = await stable_classic_group(bench, "classic")
    epoch = await stable_consumer_group(bench, "consumer")
    end = bench.shard.durable_offset
    assert end == (await bench.store.read(SHARD_LOG, 0, 10**6))[-1].last_offset + 1
    again = await bench.restart()
    assert again.shard.durable_offset == end
    assert committed(await again.answer(fetch("simple"))) == [7]
    assert (await again.answer(beat("classic", 1, member))) == HeartbeatReply()
    reply = await again.answer(consumer_beat("consumer", "m1", epoch))
    assert (reply.error, reply.member_epoch) == (ErrorCode.NONE, epoch)
    await again.broker.close()


# Timers -------------------------------------------------------------------------------------


async def test_a_silent_member_is_fenced_by_its_session_and_its_partitions_move() -> None:
    bench = await Bench().start()
    await stable_consumer_group(bench)
    reply = await bench.answer(consumer_join("g", "m2"))
    epoch = reply.member_epoch
    session_ms = bench.config.consumer_session_timeout_ms
    bench.clock.advance(session_ms - 1)
    await bench.answer(consumer_beat("g", "m2", epoch))
    bench.clock.advance(1)
    await settle()
    reply = await bench.answer(consumer_beat("g", "m2", epoch))
    assert reply.assignment[0].partitions == (0, 1, 2)
    assert (await bench.answer(consumer_beat("g", "m1", 1))).error == ErrorCode.UNKNOWN_MEMBER_ID
    await bench.broker.close()


async def test_a_loaded_member_gets_a_full_session() -> None:
    bench = await Bench().start()
    epoch = await stable_consumer_group(bench)
    bench.clock.advance(bench.config.consumer_session_timeout_ms - 1)
    again = await bench.restart()
    again.clock.advance(again.config.consumer_session_timeout_ms - 1)
    reply = await again.answer(consumer_beat("g", "m1", epoch))
    assert reply.error == ErrorCode.NONE
    again.clock.advance(again.config.consumer_session_timeout_ms)
    reply = await again.answer(consumer_beat("g", "m1", epoch))
    assert reply.error == ErrorCode.UNKNOWN_MEMBER_ID
    await again.broker.close()


async def test_one_timer_a_shard_follows_the_earliest_deadline() -> None:
    bench = await Bench().start()
    sweep_at = bench.clock.next_timer_ms()
    await stable_consumer_group(bench)
    now_ms = bench.clock.now().monotonic_ms
    assert sweep_at is not None
    bench.clock.advance(LINGER_MS)
    assert bench.clock.next_timer_ms() == now_ms + bench.config.offsets_commit_timeout_ms
    bench.clock.advance(bench.config.offsets_commit_timeout_ms)
    assert bench.clock.next_timer_ms() == now_ms + bench.config.consumer_session_timeout_ms
    await bench.broker.close()
    assert bench.clock.next_timer_ms() is None, "a closed broker leaves no timer"


async def test_the_join_phase_ends_by_its_timer() -> None:
    bench = await Bench(group_initial_rebalance_delay_ms=3000).start()
    replies = bench.ask(join("g"), version=3)
    bench.clock.advance(2999)
    await settle()
    assert replies == []
    bench.clock.advance(1)
    await settle()
    assert replies[0].generation_id == 1
    await bench.broker.close()


async def test_a_deadline_whose_handling_fails_comes_again() -> None:
    failures = 1

    def change(shard: GroupCoordinatorShard) -> None:
        expire = shard.expire

        def failing(key: Any, now: Any) -> Outcome:
            nonlocal failures
            if failures and key[2]:
                failures -= 1
                raise RuntimeError("bug")
            return expire(key, now)

        shard.expire = failing  # type: ignore[method-assign]

    bench = await Bench(change=change).start()
    epoch = await stable_consumer_group(bench)
    bench.clock.advance(bench.config.consumer_session_timeout_ms)
    assert failures == 0
    assert "m1" in bench.shard.shard.state.groups["g"].members  # type: ignore[attr-defined]
    bench.clock.advance(EXPIRE_RETRY_MS)
    await settle()
    reply = await bench.answer(consumer_beat("g", "m1", epoch))
    assert reply.error == ErrorCode.UNKNOWN_MEMBER_ID
    await bench.broker.close()


# Tasks --------------------------------------------------------------------------------------


def regex_join(group: str, member: str, pattern: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group,
        member,
        0,
        rebalance_timeout_ms=20_000,
        subscribed_topic_regex=pattern,
        topic_partitions=(),
    )


async def test_a_regular_expression_is_resolved_beside_the_request() -> None:
    bench = await Bench().start()
    reply = await bench.answer(regex_join("g", "m1", "t.*"))
    assert reply.error == ErrorCode.NONE
    reply = await bench.answer(consumer_beat("g", "m1", reply.member_epoch))
    assert reply.assignment[0].topic_id == TOPIC_ID
    await bench.broker.close()


async def test_a_task_of_a_shard_that_is_gone_is_dropped() -> None:
    bench = await Bench().start()
    bench.store.fail_next_append()
    replies = bench.ask(regex_join("g", "m1", "t.*"))
    await settle()
    assert replies[0].error == ErrorCode.NOT_COORDINATOR
    assert bench.shard.state is CoordinatorState.ACTIVE
    assert bench.shard.shard.state.groups == {}
    await bench.broker.close()


# Odds and ends ------------------------------------------------------------------------------


async def test_an_unexpected_exception_answers_unknown_server_error_and_costs_nobody_else() -> None:
    def change(shard: GroupCoordinatorShard) -> None:
        def failing(state: Any, context: Any, request: Any, now: Any) -> Outcome:
            raise KeyError("bug")

        shard._handlers[OffsetCommitRequest] = failing

    bench = await Bench(change=change).start()
    assert commit_errors(await bench.answer(commit("g", 7))) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert len(bench.broker.waiting) == 0
    assert (await bench.answer(consumer_join("c", "m1"))).error == ErrorCode.NONE
    await bench.broker.close()


async def test_records_that_cannot_be_encoded_are_refused_and_the_shard_goes_on() -> None:
    bench = await Bench().start()
    long_id = "g" * 40_000  # more than a record's string can hold
    reply = await bench.answer(commit(long_id, 7))
    assert commit_errors(reply) == [ErrorCode.UNKNOWN_SERVER_ERROR]
    assert commit_errors(await bench.answer(commit("g", 7))) == [ErrorCode.NONE]
    assert long_id not in bench.shard.shard.state.groups
    await bench.broker.close()


async def test_deleting_a_group_leaves_nothing_behind() -> None:
    bench = await Bench().start()
    await bench.answer(commit("g", 7))
    reply = await bench.answer(DeleteGroupsRequest(("g",)))
    assert reply.results[0].error == ErrorCode.NONE
    again = await bench.restart()
    assert again.shard.shard.state.groups == {}
    await again.broker.close()


@pytest.mark.parametrize("parked", ["join", "sync"])
async def test_closing_answers_whoever_is_parked(parked: str) -> None:
    bench = await Bench(group_initial_rebalance_delay_ms=3000).start()
    if parked == "join":
        replies = bench.ask(join("g"), version=3)
    else:
        first = bench.ask(join("g"), version=3)
        second = bench.ask(join("g"), version=3)
        bench.clock.advance(6000)
        await settle()
        follower = next(r[0] for r in (first, second) if r[0].member_id != r[0].leader)
        replies = bench.ask(sync("g", 1, follower.member_id, leads=False), version=5)
    await settle()
    assert replies == []
    await bench.broker.close()
    assert [reply.error for reply in replies] == [ErrorCode.NOT_COORDINATOR]
    assert len(bench.broker.waiting) == 0


async def test_closing_answers_what_becomes_durable_on_the_way() -> None:
    bench = await Bench().start()
    replies = bench.ask(commit("g", 7))
    await bench.broker.close()
    assert commit_errors(replies[0]) == [ErrorCode.NONE]
    again = await Bench(bench.store).start()
    assert committed(await again.answer(fetch("g"))) == [7]
    await again.broker.close()


async def test_closing_refuses_what_fails_on_the_way() -> None:
    bench = await Bench().start()
    bench.store.fail_next_append()
    replies = bench.ask(commit("g", 7))
    with capture_logs() as logs:
        await bench.broker.close()
    assert [commit_errors(reply) for reply in replies] == [[ErrorCode.NOT_COORDINATOR]]
    assert [line["event"] for line in logs] == ["the store refuses writes", "append failed"]
    assert len(bench.broker.waiting) == 0


async def test_closing_ends_even_what_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Fetch that was answered with an error of coordinators would stop Java's consumer."""
    monkeypatch.setattr(request_tasks, "CLOSE_TIMEOUT_S", 0.01)
    bench = await Bench().start()

    async def endless(context: Any, request: Any) -> Any:
        await asyncio.Event().wait()

    bench.broker.tasks.routes.update({MetadataRequest: DataRoute(endless)})
    lost: list[bool] = []
    replies = bench.ask(MetadataRequest(None), lost=lambda: lost.append(True))
    await settle()
    await bench.broker.close()
    assert replies == []
    assert lost == [True]
    assert len(bench.broker.waiting) == 0


async def test_a_closed_broker_refuses() -> None:
    bench = await Bench().start()
    await bench.broker.close()
    reply = await bench.answer(commit("g", 7))
    assert commit_errors(reply) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


async def test_the_store_of_a_closed_broker_can_be_opened_by_the_next() -> None:
    store = MemoryStore()
    for offset in range(3):
        bench = await Bench(store).start()
        assert commit_errors(await bench.answer(commit("g", offset))) == [ErrorCode.NONE]
        await bench.broker.close()
    assert len(await store.read(SHARD_LOG, 0, 10**6)) == 3
