"""Resets and restores: what is shown is what is done, or it is refused and told what was done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from groupd.coordinator.lag.growth import Bounds
from groupd.coordinator.moves.mover import (
    PART_PARTITIONS,
    CannotMove,
    OutcomeNotKnown,
    PlannedMove,
    planned_reset,
    planned_restore,
    write_reset,
    write_restore,
)
from groupd.coordinator.moves.own_broker import PARTITIONS_MAX, TIMES_MAX, CannotRead
from groupd.coordinator.moves.plan import Current, ResetTarget, WantedReset
from groupd.coordinator.security.audit import PLACES_MAX
from groupd.protocol.messages.classic_group import LeaveGroupRequest, LeavingMember
from groupd.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest
from tests.unit.moves.harness import GROUP, MANY, TOPIC, Moves, shown
from tests.unit.runtime.harness import commit, join, settle

BACK = WantedReset(ResetTarget.SHIFT, -100)


def audited(lines: list[Any], event: str = "offsets reset") -> list[dict[str, Any]]:
    return [line for line in lines if line.get("log") == "audit" and line["event"] == event]


async def planned(
    moves: Moves, wanted: WantedReset = BACK, partitions: list[int] | None = None
) -> PlannedMove:
    chosen = None if partitions is None else {TOPIC: partitions}
    group = moves.group
    return await moves.done(planned_reset(group, wanted, group.partitions_of(chosen)))


async def reset(moves: Moves, plan: PlannedMove) -> None:
    await moves.done(write_reset(moves.group, shown(plan)))


async def committing(count: int, offset: int = 300) -> Moves:
    moves = await Moves.made()
    await moves.commit({number: Current(offset) for number in range(count)})
    return moves


async def test_a_move_refused_half_way_says_what_was_written_and_is_not_done_twice() -> None:
    moves = await committing(MANY)
    plan = await planned(moves)
    joined: list[Any] = []
    moves.before(OffsetCommitRequest, 5, lambda: joined.append(moves.bench.ask(join(GROUP), 3)))
    with capture_logs() as lines, pytest.raises(CannotMove) as refused:
        await reset(moves, plan)
    done = 4 * PART_PARTITIONS
    assert str(refused.value) == (
        f"{PART_PARTITIONS} of {MANY} partitions refused, such as t-{done}: UNKNOWN_MEMBER_ID. "
        f"{done} have been written, {MANY - done - PART_PARTITIONS} not tried"
    )
    wanted = {number: 200 if number < done else 300 for number in range(MANY)}
    assert moves.committed() == wanted
    told = {number: to for line in audited(lines) for number, to in line["offsets"].items()}
    assert told == dict.fromkeys(range(done), 200), "what was written is in the audit log"

    ((member,),) = joined
    leaving = LeaveGroupRequest(GROUP, (LeavingMember(member.member_id),))
    await moves.bench.answer(leaving)
    with pytest.raises(CannotMove, match=f"{done} offsets moved since .* t-0 from 300 to 200"):
        await reset(moves, plan)
    assert moves.committed() == wanted, "nothing has gone back twice"


async def test_every_reset_is_in_the_audit_log_with_all_partitions() -> None:
    moves = await committing(PLACES_MAX + 5)
    for to in (200, 100, 0):
        with capture_logs() as lines:
            await reset(moves, await planned(moves))
        found = audited(lines)
        assert [len(line["offsets"]) for line in found] == [PLACES_MAX, 5]
        told = {number: at for line in found for number, at in line["offsets"].items()}
        assert told == dict.fromkeys(range(PLACES_MAX + 5), to)
        assert {(line["principal"], line["client"], line["topic"]) for line in found} == {
            ("admin port: token", "/10.0.0.7", TOPIC)
        }


async def test_a_write_that_takes_too_long_may_be_written_and_has_its_line() -> None:
    moves = await committing(2)
    plan = await planned(moves)
    moves.bench.store.hold_appends()
    with capture_logs() as lines:
        order = asyncio.ensure_future(write_reset(moves.group, shown(plan)))
        await settle()
        moves.bench.clock.advance(moves.bench.config.offsets_commit_timeout_ms)
        with pytest.raises(OutcomeNotKnown) as ended:
            await moves.done(order)
        moves.bench.store.release_appends()
        await settle()
    assert str(ended.value) == (
        "2 of 2 partitions may have been written, such as t-0: COORDINATOR_NOT_AVAILABLE"
    )
    assert moves.committed() == {0: 200, 1: 200}
    assert audited(lines) == []
    (line,) = audited(lines, "offsets reset: ordered")
    assert (line["offsets"], line["outcome"]) == ({0: 200, 1: 200}, "not known")


async def test_a_lost_reply_may_be_written() -> None:
    """To a commit, and, with one error for the whole request, to a delete."""
    moves = await Moves.made()
    at_ms = await later(moves)
    await moves.commit({0: Current(300)})
    for kind in (OffsetCommitRequest, OffsetDeleteRequest):
        if kind is OffsetCommitRequest:
            work = write_reset(moves.group, {(TOPIC, 0): (300, 200)})
            event = "offsets reset: ordered"
        else:
            plan = await plan_restore(moves, at_ms)
            work = write_restore(moves.group, at_ms, shown(plan), delete_new=True)
            event = "offsets deleted: ordered"
        moves.lose_reply(kind)
        with (
            capture_logs() as lines,
            pytest.raises(OutcomeNotKnown, match=r"1 of 1 partition may .* UNKNOWN_SERVER_ERROR$"),
        ):
            await moves.done(work)
        assert len(audited(lines, event)) == 1
    assert moves.committed() == {}


async def test_what_was_shown_is_done_although_the_log_has_grown() -> None:
    moves = await committing(2)
    plan = await planned(moves, WantedReset(ResetTarget.LATEST))
    moves.ends.bounds = Bounds(0, 5000)
    await reset(moves, plan)
    assert moves.committed() == {0: 1000, 1: 1000}


async def test_an_offset_that_has_moved_since_the_plan_is_not_overwritten() -> None:
    moves = await committing(3)
    plan = await planned(moves)
    await moves.commit({1: Current(301)})
    with pytest.raises(CannotMove) as refused:
        await reset(moves, plan)
    assert str(refused.value) == (
        "1 offset moved since that was shown, such as t-1 from 300 to 301. "
        "Nothing has been written; ask for a preview again"
    )
    assert moves.committed() == {0: 300, 1: 301, 2: 300}


async def test_an_offset_that_somebody_moves_meanwhile_is_told() -> None:
    moves = await committing(PART_PARTITIONS + 1)
    plan = await planned(moves)
    moves.before(OffsetCommitRequest, 2, lambda: moves.bench.ask(commit(GROUP, 200, 0, "mine"), 9))
    with pytest.raises(CannotMove, match=r"all 251 partitions written, but .* 1 of them .* t-0"):
        await reset(moves, plan)


async def test_a_group_with_members_is_not_moved() -> None:
    moves = await committing(1)
    plan = await planned(moves)
    await moves.bench.answer(join(GROUP), 3)
    with pytest.raises(CannotMove, match="it has members"):
        await reset(moves, plan)
    assert "it has members" in (await planned(moves)).refusal
    assert moves.committed() == {0: 300}


async def test_an_order_has_a_most_of_partitions() -> None:
    moves = await committing(1)
    with pytest.raises(CannotMove, match=f"which may have {PARTITIONS_MAX}"):
        await planned(moves, BACK, list(range(PARTITIONS_MAX + 1)))
    with pytest.raises(CannotMove, match=f"which may have {TIMES_MAX}"):
        await planned(moves, WantedReset(ResetTarget.TIME, 7), list(range(TIMES_MAX + 1)))
    many = {(TOPIC, number): (None, 5) for number in range(PARTITIONS_MAX + 1)}
    with pytest.raises(CannotMove, match=f"which may have {PARTITIONS_MAX}"):
        await moves.done(write_reset(moves.group, many))


class Countless(list[int]):
    """A list that only says how long it is."""

    def __len__(self) -> int:
        return PARTITIONS_MAX + 1

    def __iter__(self) -> Iterator[int]:
        raise AssertionError


async def test_partitions_are_counted_before_they_are_looked_at() -> None:
    moves = await committing(1)
    with pytest.raises(CannotMove, match=f"which may have {PARTITIONS_MAX}"):
        await planned(moves, BACK, Countless())


async def test_partitions_that_are_named_twice_are_shown_once_and_in_order() -> None:
    moves = await committing(3)
    plan = await planned(moves, BACK, [2, 0, 2, 0])
    assert [step.partition for step in plan.steps] == [0, 2]


async def test_a_store_that_is_away_is_told_as_such() -> None:
    moves = await committing(1)
    moves.ends.away = True
    with pytest.raises(CannotRead, match="cannot be read now: the database is away"):
        await planned(moves)
    moves.bench.store.fail_next_read()
    with pytest.raises(CannotRead, match="cannot be read now"):
        await moves.done(moves.own.last_moves(moves.shard, GROUP))


# Restore -------------------------------------------------------------------------------------


async def restored(moves: Moves, at_ms: int, plan: PlannedMove) -> None:
    work = write_restore(moves.group, at_ms, shown(plan), delete_new=True)
    await moves.done(work)


async def plan_restore(moves: Moves, at_ms: int) -> PlannedMove:
    return await moves.done(planned_restore(moves.group, at_ms, delete_new=True))


async def later(moves: Moves) -> int:
    """A time behind everything that is written; what comes is behind it."""
    at_ms = moves.bench.clock.now().wall_ms
    moves.bench.clock.advance(10)
    return at_ms + 5


async def test_offsets_with_long_metadata_are_restored_in_requests_that_fit() -> None:
    """One request with all of them would be larger than `message.max.bytes`."""
    count, metadata = 400, "x" * 4000
    moves = await Moves.made()
    await moves.commit({number: Current(300, 7, metadata) for number in range(count)})
    at_ms = await later(moves)
    await moves.commit({number: Current(0) for number in range(count)})
    await restored(moves, at_ms, await plan_restore(moves, at_ms))
    stored = moves.shard.shard.offsets.store.topics(GROUP)[TOPIC]
    assert {(one.offset, one.leader_epoch, one.metadata) for one in stored.values()} == {
        (300, 7, metadata)
    }


async def test_a_restore_deletes_in_parts_and_has_every_partition_in_the_audit_log() -> None:
    moves = await Moves.made()
    at_ms = await later(moves)
    count = 2 * PART_PARTITIONS + 1
    await moves.commit({number: Current(300) for number in range(count)})
    requests: list[int] = []
    for number in (1, 2, 3):
        moves.before(OffsetDeleteRequest, number, lambda: requests.append(1))
    plan = await plan_restore(moves, at_ms)
    with capture_logs() as lines:
        await restored(moves, at_ms, plan)
    assert (moves.committed(), len(requests)) == ({}, 3)
    found = audited(lines, "offsets deleted")
    assert max(len(line["partitions"]) for line in found) == PLACES_MAX
    assert [one for line in found for one in line["partitions"]] == list(range(count))


async def test_a_restore_that_would_do_something_else_now_is_refused() -> None:
    moves = await committing(2)
    at_ms = await later(moves)
    await moves.commit({0: Current(1), 1: Current(1)})
    plan = await plan_restore(moves, at_ms)
    moves.bench.broker.image = type(moves.bench.broker.image)([], version=3)
    with pytest.raises(CannotMove, match="would not do what was shown"):
        await restored(moves, at_ms, plan)
    assert moves.committed() == {0: 1, 1: 1}


async def test_only_records_that_there_are_count_and_what_starts_anew_says_so() -> None:
    moves = await Moves.made()
    await moves.commit({0: Current(300), 1: Current(50), 2: Current(300), 4: Current(120)})
    at_ms = await later(moves)
    await moves.commit({0: Current(9000), 1: Current(400), 2: Current(300, 1), 3: Current(7)})
    await moves.commit({4: Current(60)})
    moves.ends.bounds = Bounds(100, 1000)
    steps = (await plan_restore(moves, at_ms)).steps
    found = [(step.action.value, step.records, step.starts_anew) for step in steps]
    assert found == [
        ("commit", 700, False),  # the end is at 1000
        ("commit", None, True),  # the partition begins at 100
        ("commit", 0, False),
        ("delete", None, True),
        ("commit", 20, False),  # from the start at 100 on
    ]
