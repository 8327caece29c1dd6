"""States of the past equal what OffsetFetch answered then, whatever happened before and since."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.history import replay as history
from groupd.coordinator.history.stream import UnreadableLog, split
from groupd.protocol.records.batch import DELETE_HORIZON, iter_records
from groupd.protocol.records.batch_builder import encode_batch
from tests.support.examples import examples
from tests.unit.history.harness import (
    START_MS,
    LoggedShard,
    compacted,
    state_at,
    stream,
    survey,
    with_crc,
)

GROUPS = st.sampled_from(["g", "h"])
PARTITIONS = st.integers(0, 2)
OFFSETS = st.integers(0, 9)
PRODUCERS = st.integers(1, 2)
STEPS = st.one_of(
    st.tuples(st.just("commit"), GROUPS, PARTITIONS, OFFSETS),
    st.tuples(st.just("commit"), GROUPS, PARTITIONS, OFFSETS),
    st.tuples(st.just("member_commit"), GROUPS, PARTITIONS, OFFSETS),
    st.tuples(st.just("txn"), GROUPS, PARTITIONS, OFFSETS, PRODUCERS),
    st.tuples(st.just("marker"), PRODUCERS, st.booleans()),
    st.tuples(st.just("delete"), GROUPS, PARTITIONS),
    st.tuples(st.just("members"), GROUPS, st.booleans()),
    st.tuples(st.just("sweep"), st.sampled_from([0, 1_800_000, 3_600_000])),
    st.tuples(st.just("delete_group"), GROUPS),
)


def run(log: LoggedShard, step: str, *args: Any) -> None:
    if step == "commit":
        log.commit(*args)
    elif step == "member_commit":
        log.commit(*args, member_id="m1", generation_or_epoch=3)
    elif step == "txn":
        log.txn_commit(*args)
    elif step == "marker":
        log.marker(args[0], commit=args[1])
    elif step == "delete":
        log.delete(*args)
    elif step == "members":
        log.members(args[0], 3, **({"m1": (0, 1)} if args[1] else {}))
    elif step == "sweep":
        log.sweep(args[0])
    else:
        for group in args:
            log.delete_group(group)


@examples(150)
@given(steps=st.lists(STEPS, max_size=25))
def test_state_at_every_point_is_what_was_answered_then(steps: list[tuple[Any, ...]]) -> None:
    log = LoggedShard()
    seen = [(0, START_MS, log.answer("g"))]
    for step in steps:
        run(log, *step)
        seen.append((log.end, log.now_ms, log.answer("g")))

    async def check() -> None:
        for end, at_ms, answer in seen:
            assert await state_at(log, "g", end) == answer
            # The clock moves with every batch, so the instant is the same point of the log.
            assert (await survey(log.batches, at_ms)).cut_offset == end

    asyncio.run(check())


@examples(150)
@given(steps=st.lists(STEPS, max_size=25), share=st.floats(0, 1), drop=st.booleans())
def test_compaction_takes_nothing_from_what_can_still_be_answered(
    steps: list[tuple[Any, ...]], share: float, drop: bool
) -> None:
    log = LoggedShard()
    seen = [(0, START_MS, log.answer("g"))]
    for step in steps:
        run(log, *step)
        seen.append((log.end, log.now_ms, log.answer("g")))
    log.batches = compacted(log.batches, int(log.end * share), drop_tombstones=drop)

    async def check() -> None:
        extent = await survey(log.batches)
        for end, at_ms, answer in seen:
            cut = (await survey(log.batches, at_ms)).cut_offset
            assert cut <= end
            if cut >= extent.complete_from:
                assert await state_at(log, "g", end) == answer
        if extent.earliest_ms is not None:
            cut = (await survey(log.batches, extent.earliest_ms)).cut_offset
            assert cut >= extent.complete_from

    asyncio.run(check())


async def test_what_may_have_had_an_older_record_is_uncertain_until_it_comes() -> None:
    log = LoggedShard()
    log.commit("g", 0, 1)
    log.commit("g", 1, 2)
    log.commit("h", 0, 3)
    log.commit("g", 0, 4)
    log.batches = compacted(log.batches, 4)  # offset 0 is gone
    extent = await survey(log.batches)
    # Behind the gap partition 0 had an offset that nobody knows any more.
    assert (extent.complete_from, extent.earliest_ms) == (4, START_MS + 4000)
    # For the other group nothing is missing after the gap.
    assert (await survey(log.batches, group="i")).complete_from == 1


async def test_keys_that_are_new_after_the_compacted_part_are_really_new() -> None:
    log = LoggedShard()
    for partition, offset in ((0, 1), (0, 2), (0, 3), (1, 7)):
        log.commit("g", partition, offset)
    log.batches = compacted(log.batches, 2)  # offset 0 is gone
    extent = await survey(log.batches)
    assert (extent.complete_from, extent.earliest_ms) == (2, START_MS + 2000)


async def test_transactions_are_uncertain_up_to_their_marker() -> None:
    log = LoggedShard()
    log.commit("g", 0, 1)
    log.txn_commit("g", 0, 2, 1)
    log.commit("h", 0, 3)
    log.marker(1, commit=True)
    log.batches = log.batches[1:]  # the committed transaction superseded offset 0
    assert (await survey(log.batches)).complete_from == 4


async def test_a_hole_inside_a_batch_and_a_late_start_count_as_compacted() -> None:
    log = LoggedShard()
    log.commit("g", 0, 1)
    log.commit("g", 0, 2)
    (first, second) = log.batches
    late = await survey([second], start=1)
    assert (late.complete_from, late.earliest_ms) == (2, START_MS + 2000)
    # Last offset delta 3 with one record: three records are gone.
    hollow = with_crc(first[:23] + (3).to_bytes(4) + first[27:])
    extent = await survey([hollow])
    assert (extent.complete_from, extent.earliest_ms) == (4, START_MS + 1000)


async def test_a_cleaned_batch_has_a_delete_horizon_where_its_time_stood() -> None:
    log = LoggedShard()
    log.commit("g", 0, 1)
    (payload,) = log.batches
    later_ms = START_MS + 10**6
    # As a cleaner writes it: flag 6, the horizon as base timestamp, one record long before it.
    (record,) = iter_records(payload)
    other = encode_batch(0, 0, later_ms, [(record.key, record.value), (b"x", b"")])
    attributes = (DELETE_HORIZON).to_bytes(2)
    marked = with_crc(other[:21] + attributes + other[23:])
    assert (await survey([marked], later_ms)).cut_offset == 2
    assert (await survey([marked], later_ms - 1)).cut_offset == 0


async def test_a_clock_that_was_once_ahead_hides_nothing() -> None:
    log = LoggedShard()
    log.commit("g", 0, 1)
    log.now_ms += 10**9
    log.commit("g", 0, 2)
    log.now_ms -= 10**9
    log.commit("g", 0, 3)
    assert (await survey(log.batches, log.now_ms)).cut_offset == 3
    assert (await survey(log.batches, START_MS + 1000)).cut_offset == 1


async def test_a_prefix_may_end_inside_a_batch() -> None:
    log = LoggedShard()
    log.members("g", 1)
    log.commit("g", 0, 5)
    log.commit("g", 1, 6)
    log.delete_group("g")  # three tombstones in one batch
    assert (await state_at(log, "g", 4)) == {("t", 1): (6, 1, "m6")}
    state = await history.state_at(stream(log.batches), "g", log.end)
    assert (state.group_type, state.offsets) == ("", [])


@pytest.mark.parametrize("at", [20, 90])
async def test_damage_is_named_with_its_offset(at: int) -> None:
    log = LoggedShard()
    log.commit("g", 0, 1)
    log.commit("g", 0, 2)
    broken = bytearray(log.batches[1])
    broken[at] ^= 1
    with pytest.raises(UnreadableLog, match="offset 1"):
        await history.state_at(stream([log.batches[0], bytes(broken)]), "g", 9)


def test_batches_that_stand_together_are_taken_apart() -> None:
    log = LoggedShard()
    log.commit("g", 0, 1)
    log.commit("g", 1, 2)
    together = b"".join(log.batches)
    assert list(split(together)) == log.batches
    assert list(split(together[:-1], whole=False)) == log.batches[:1]
    with pytest.raises(UnreadableLog, match="1 bytes are missing"):
        list(split(together[:-1]))
