"""The one failure path: refuse everybody once, drop memory, read the log, go on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.runtime.journal import Journal
from groupd.coordinator.runtime.reload import BACKOFF_MS
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.groups import ListGroupsRequest
from groupd.protocol.records.schema import Record
from groupd.storage.log import LogUnavailable
from tests.unit.runtime.harness import (
    Bench,
    beat,
    commit,
    commit_errors,
    committed,
    consumer_join,
    fetch,
    join,
    settle,
    sync,
)

REFUSED = [ErrorCode.NOT_COORDINATOR]


async def test_a_failed_append_refuses_every_parked_request_once_and_the_next_one_works() -> None:
    bench = await Bench().start()
    await bench.answer(commit("g", 1))
    bench.store.hold_appends()
    bench.store.fail_next_append()
    in_flight = bench.ask(commit("g", 2))
    await settle()
    still_open, gated = bench.ask(commit("h", 2)), bench.ask(fetch("g"))
    listed = bench.ask(ListGroupsRequest())
    bench.store.release_appends()
    await settle()
    assert [commit_errors(reply) for reply in in_flight] == [REFUSED]
    assert [commit_errors(reply) for reply in still_open] == [REFUSED]
    assert [reply.groups[0].error for reply in gated] == REFUSED
    assert [reply.error for reply in listed] == REFUSED
    assert len(bench.broker.waiting) == 0
    assert bench.shard.state is CoordinatorState.ACTIVE
    assert committed(await bench.answer(fetch("g"))) == [1], "what failed is not in memory"
    assert commit_errors(await bench.answer(commit("g", 3))) == [ErrorCode.NONE]
    assert committed(await bench.answer(fetch("g"))) == [3]
    await bench.broker.close()


async def test_an_ambiguous_append_is_settled_by_the_log() -> None:
    bench = await Bench().start()
    bench.store.fail_next_append(applied=True)
    assert commit_errors(await bench.answer(commit("g", 7))) == REFUSED
    assert committed(await bench.answer(fetch("g"))) == [7], "it was written after all"
    assert commit_errors(await bench.answer(commit("g", 8))) == [ErrorCode.NONE]
    await bench.broker.close()


async def test_a_fenced_shard_takes_its_log_again_and_the_others_do_not_notice() -> None:
    bench = await Bench(shards=2).start()
    groups = {bench.broker.shard_of(name).partition: name for name in ("a", "b", "c", "d")}
    await bench.store.open("__consumer_offsets-0")  # somebody else
    fenced, fine = bench.ask(commit(groups[0], 7)), bench.ask(commit(groups[1], 7))
    await settle()
    assert commit_errors(fenced[0]) == REFUSED
    assert commit_errors(fine[0]) == [ErrorCode.NONE]
    assert commit_errors(await bench.answer(commit(groups[0], 8))) == [ErrorCode.NONE]
    await bench.broker.close()


async def test_parked_joins_are_refused_by_a_failure_of_their_shard() -> None:
    bench = await Bench(group_initial_rebalance_delay_ms=3000).start()
    parked = [bench.ask(join("g"), version=3) for _ in range(3)]
    bench.store.fail_next_append()
    bench.ask(commit("other", 1))
    await settle()
    assert [[reply.error for reply in replies] for replies in parked] == [REFUSED] * 3
    assert len(bench.broker.waiting) == 0
    await bench.broker.close()


async def test_members_refused_in_a_join_phase_get_through_the_next_one() -> None:
    """The generation that was durable is still there, and nobody is counted twice."""
    bench = await Bench().start()
    first = (await bench.answer(join("g"), version=3)).member_id
    assert (await bench.answer(sync("g", 1, first), version=5)).error == ErrorCode.NONE
    parked = bench.ask(join("g"), version=3)
    await settle()
    assert parked == []
    bench.store.fail_next_append()
    await bench.answer(commit("other", 1))
    assert [reply.error for reply in parked] == REFUSED
    assert (await bench.answer(beat("g", 1, first))).error == ErrorCode.NONE
    second = bench.ask(join("g"), version=3)
    again = await bench.answer(join("g", first), version=3)
    assert (again.error, again.generation_id, len(again.members)) == (ErrorCode.NONE, 2, 2)
    assert [reply.generation_id for reply in second] == [2]
    await bench.broker.close()


async def test_parked_syncs_are_refused_once_by_the_failure_of_the_leaders_write() -> None:
    bench = await Bench(group_initial_rebalance_delay_ms=3000).start()
    joins = [bench.ask(join("g"), version=3) for _ in range(3)]
    bench.clock.advance(10_000)
    await settle()
    members = [replies[0].member_id for replies in joins]
    leader = joins[0][0].leader
    bench.store.fail_next_append()
    syncs = [bench.ask(sync("g", 1, member, member == leader), version=5) for member in members]
    await settle()
    assert [[reply.error for reply in replies] for replies in syncs] == [REFUSED] * 3
    assert len(bench.broker.waiting) == 0
    assert bench.shard.state is CoordinatorState.ACTIVE
    await bench.broker.close()


async def test_a_shard_that_cannot_be_read_refuses_until_it_can() -> None:
    bench = await Bench().start()
    await bench.answer(commit("g", 1))
    bench.store.fail_next_append(LogUnavailable("disk full"))
    bench.store.fail_next_read(LogUnavailable("disk full"))
    assert commit_errors(await bench.answer(commit("g", 2))) == REFUSED
    assert bench.shard.state is CoordinatorState.FAILED
    assert commit_errors(await bench.answer(commit("g", 3))) == REFUSED
    bench.clock.advance(BACKOFF_MS)
    assert bench.shard.state is CoordinatorState.FAILED
    await settle()
    assert bench.shard.state is CoordinatorState.ACTIVE
    assert committed(await bench.answer(fetch("g"))) == [1]
    await bench.broker.close()


async def test_a_store_that_stays_away_is_asked_ever_more_rarely() -> None:
    bench = await Bench().start()
    await bench.answer(commit("g", 1))
    attempts = 0
    original = bench.store.open_many

    async def away(names: Any, owned: Any = None) -> Any:
        nonlocal attempts
        attempts += 1
        if attempts <= 6:
            raise LogUnavailable("away")
        return await original(names)

    bench.store.open_many = away  # type: ignore[method-assign]
    bench.store.fail_next_append()
    await bench.answer(commit("g", 2))
    gaps = []
    while bench.shard.state is not CoordinatorState.ACTIVE:
        due = bench.clock.next_timer_ms()
        assert due is not None
        gaps.append(due - bench.clock.now().monotonic_ms)
        bench.clock.advance(gaps[-1])
        await settle()
    assert gaps == [500, 1000, 2000, 4000, 8000, 10000]
    await bench.broker.close()


async def test_closing_ends_the_attempts_to_load() -> None:
    bench = await Bench().start()
    await bench.answer(commit("g", 1))
    bench.store.fail_next_append()
    bench.store.fail_next_read()
    await bench.answer(commit("g", 2))
    assert bench.shard.state is CoordinatorState.FAILED
    await bench.broker.close()
    assert bench.shard.state is CoordinatorState.CLOSED
    assert bench.clock.next_timer_ms() is None


async def test_an_error_in_replay_rebuilds_the_shard_without_the_record() -> None:
    def change(shard: GroupCoordinatorShard) -> None:
        replay = shard.replay_all

        def failing(
            records: Iterable[Record], offset: int, producer: tuple[int, int] | None
        ) -> None:
            if any(record.key.group == "bad" for record in records):
                raise RuntimeError("bug")
            replay(records, offset, producer)

        shard.replay_all = failing  # type: ignore[method-assign]

    bench = await Bench(change=change).start()
    await bench.answer(commit("good", 1))
    bench.store.hold_appends()
    waiting = bench.ask(commit("good", 2))
    await settle()
    replies = bench.ask(commit("bad", 1))
    bench.store.release_appends()
    await settle()
    assert [commit_errors(reply) for reply in replies] == [REFUSED]
    assert [commit_errors(reply) for reply in waiting] == [REFUSED]
    assert len(bench.broker.waiting) == 0
    assert bench.shard.state is CoordinatorState.ACTIVE
    assert committed(await bench.answer(fetch("good"))) in ([1], [2])
    assert commit_errors(await bench.answer(commit("good", 3))) == [ErrorCode.NONE]
    again = await bench.restart()
    assert committed(await again.answer(fetch("good"))) == [3]
    await again.broker.close()


async def test_who_is_refused_may_ask_again_at_once_and_is_not_lost() -> None:
    """A client's next request is handled inside the refusal of its last one."""
    bench = await Bench().start()
    again: list[list[Any]] = []
    bench.store.fail_next_append()
    replies = bench.ask(commit("g", 1))
    waiter = list(bench.broker.waiting)[-1]
    receive = waiter._receive

    def receive_and_ask(reply: Any) -> None:
        receive(reply)
        again.append(bench.ask(fetch("g")))

    waiter._receive = receive_and_ask
    await settle()
    assert [commit_errors(reply) for reply in replies] == [REFUSED]
    (read,) = again
    assert [reply.groups[0].error for reply in read] == REFUSED, "not what was never durable"
    assert len(bench.broker.waiting) == 0
    await bench.broker.close()


# An append that hangs -----------------------------------------------------------------------


async def test_of_38_lg_11_a_hanging_append_is_refused_in_time_and_commits_later() -> None:
    bench = await Bench(offsets_commit_timeout_ms=5000).start()
    bench.store.hold_appends()
    replies = bench.ask(commit("g", 7))
    gated = bench.ask(fetch("g"))
    await settle()
    bench.clock.advance(4999)
    assert replies == []
    bench.clock.advance(1)
    assert [commit_errors(reply) for reply in replies] == [[ErrorCode.COORDINATOR_NOT_AVAILABLE]]
    assert [reply.groups[0].error for reply in gated] == [ErrorCode.NOT_COORDINATOR]
    assert bench.shard.state is CoordinatorState.ACTIVE
    bench.store.release_appends()
    await settle()
    assert len(replies) == 1
    assert committed(await bench.answer(fetch("g"))) == [7]
    await bench.broker.close()


async def test_each_waiting_write_has_its_own_time() -> None:
    bench = await Bench(offsets_commit_timeout_ms=5000).start()
    bench.store.hold_appends()
    first = bench.ask(commit("g", 1))
    await settle()
    bench.clock.advance(3000)
    second = bench.ask(commit("h", 1))
    bench.clock.advance(2000)
    assert (len(first), len(second)) == (1, 0)
    bench.clock.advance(3000)
    assert commit_errors(second[0]) == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    bench.store.release_appends()
    await settle()
    assert len(bench.broker.waiting) == 0
    await bench.broker.close()


async def test_an_append_that_hung_over_a_reload_changes_nothing_any_more() -> None:
    fail = False

    def change(shard: GroupCoordinatorShard) -> None:
        replay = shard.replay_all

        def failing(
            records: Iterable[Record], offset: int, producer: tuple[int, int] | None
        ) -> None:
            if fail:
                raise RuntimeError("bug")
            replay(records, offset, producer)

        shard.replay_all = failing  # type: ignore[method-assign]

    bench = await Bench(change=change).start()
    bench.store.hold_appends()
    hung = bench.ask(commit("g", 1))
    await settle()
    fail = True
    bench.ask(commit("g", 2))
    fail = False
    await settle()
    assert commit_errors(hung[0]) == REFUSED
    assert bench.shard.state is CoordinatorState.ACTIVE, "reading the log needs no writer"
    third = bench.ask(commit("g", 3))
    bench.store.release_appends()
    await settle()
    assert [commit_errors(reply) for reply in third] == [[ErrorCode.NONE]]
    assert committed(await bench.answer(fetch("g"))) == [3]
    again = await bench.restart()
    assert committed(await again.answer(fetch("g"))) == [3], "the late append was fenced"
    await again.broker.close()


@pytest.mark.parametrize("applied", [False, True])
async def test_a_classic_group_survives_the_failed_write_of_its_assignment(applied: bool) -> None:
    bench = await Bench().start()
    member = (await bench.answer(join("g"), version=3)).member_id
    bench.store.fail_next_append(applied=applied)
    reply = await bench.answer(sync("g", 1, member), version=5)
    assert reply.error == ErrorCode.NOT_COORDINATOR
    beaten = (await bench.answer(beat("g", 1, member))).error
    assert beaten == (ErrorCode.NONE if applied else ErrorCode.UNKNOWN_MEMBER_ID)
    await bench.broker.close()


async def test_a_consumer_group_joins_again_after_a_failure() -> None:
    bench = await Bench().start()
    bench.store.fail_next_append()
    assert (await bench.answer(consumer_join("g", "m1"))).error == ErrorCode.NOT_COORDINATOR
    reply = await bench.answer(consumer_join("g", "m1"))
    assert reply.error == ErrorCode.NONE
    assert reply.member_epoch == await first_epoch()
    await bench.broker.close()


async def first_epoch() -> int:
    """The epoch of the first member of a group that never failed."""
    bench = await Bench().start()
    reply = await bench.answer(consumer_join("g", "m1"))
    await bench.broker.close()
    return int(reply.member_epoch)


async def test_memory_that_is_ahead_of_the_journal_is_rebuilt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When memory runs out, a record is replayed but does not get into the journal."""

    def no_memory(*_: Any) -> None:
        raise MemoryError

    bench = await Bench().start()
    await bench.answer(commit("g", 1))
    with monkeypatch.context() as patched:
        patched.setattr(Journal, "accept", no_memory)
        replies = bench.ask(commit("g", 2))
    await settle()
    assert [commit_errors(reply) for reply in replies] == [REFUSED]
    assert bench.shard.state is CoordinatorState.ACTIVE
    assert committed(await bench.answer(fetch("g"))) == [1]
    assert commit_errors(await bench.answer(commit("g", 3))) == [ErrorCode.NONE]
    again = await bench.restart()
    assert committed(await again.answer(fetch("g"))) == [3]
    await again.broker.close()


async def test_a_handler_without_memory_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(*_: Any) -> None:
        raise MemoryError

    bench = await Bench().start()
    with monkeypatch.context() as patched:
        patched.setattr(bench.shard.shard, "handle", no_memory)
        replies = bench.ask(commit("g", 2))
    assert [commit_errors(reply) for reply in replies] == [[ErrorCode.UNKNOWN_SERVER_ERROR]]
    assert commit_errors(await bench.answer(commit("g", 3))) == [ErrorCode.NONE]
    await bench.broker.close()


async def test_a_store_without_memory_refuses_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_memory(*_: Any) -> None:
        raise MemoryError

    bench = await Bench().start()
    with monkeypatch.context() as patched:
        patched.setattr(bench.store, "append", no_memory)
        assert commit_errors(await bench.answer(commit("g", 2))) == REFUSED
    await settle()
    assert commit_errors(await bench.answer(commit("g", 3))) == [ErrorCode.NONE]
    await bench.broker.close()
