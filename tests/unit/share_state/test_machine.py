"""The rules of the requests about share-partitions (docs/spec/share-group.md#3), and replay."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupd.coordinator.core.types import Instant
from groupd.coordinator.share_state import machine as machine_module
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.share_state import (
    ReadShareState,
    ShareStateResult,
    ShareStateSummary,
)
from groupd.protocol.records.share_state_records import (
    SharePartitionKey,
    ShareSnapshot,
    ShareUpdate,
)
from tests.unit.share_state.harness import (
    DELETE,
    GROUP,
    INIT,
    READ,
    START_MS,
    SUMMARY,
    WRITE,
    B,
    MachineBench,
    T,
    U,
    asked,
    init,
    write,
)

INVALID = ErrorCode.INVALID_REQUEST
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
OLD_LEADER = ErrorCode.FENCED_LEADER_EPOCH
OLD_STATE = ErrorCode.FENCED_STATE_EPOCH
KEY = SharePartitionKey(GROUP, T, 0)


@pytest.fixture
def bench() -> MachineBench:
    return MachineBench()


@pytest.fixture
def begun() -> MachineBench:
    """State epoch 3, start offset 10, leader epoch 5, one batch."""
    bench = MachineBench()
    bench.good(INIT, init(3, 10))
    bench.read(5)
    bench.good(WRITE, write(B(10, 19, 2, 1), start=10, state_epoch=3, leader_epoch=5))
    return bench


def test_initialize(bench: MachineBench) -> None:
    """docs/spec/share-group.md#SG-57"""
    assert bench.ask(INIT, init(2)) == ShareStateResult(0)
    assert bench.summary() == ShareStateSummary(0, state_epoch=2, start_offset=-1)
    bench.now_ms += 7
    assert bench.ask(INIT, init(3, 7)) == ShareStateResult(0)
    assert bench.summary() == ShareStateSummary(
        0, state_epoch=3, start_offset=7, delivery_complete_count=0
    )
    later = START_MS + 7
    assert bench.log == [
        (KEY, ShareSnapshot(0, 2, 0, -1, START_MS, START_MS, (), -1)),
        (KEY, ShareSnapshot(1, 3, 0, 7, later, later, (), 0)),
    ]


def test_initialize_again(begun: MachineBench) -> None:
    """docs/spec/share-group.md#SG-58"""
    records = len(begun.log)
    assert begun.ask(INIT, init(2, 40)) is OLD_STATE
    assert begun.ask(INIT, init(3, 10)) == ShareStateResult(0)
    assert len(begun.log) == records
    assert begun.read(5).batches
    begun.good(INIT, init(3, 11))  # a late question: the state is in use
    assert begun.read(5).batches
    begun.good(INIT, init(4, 11))
    assert begun.read() == ReadShareState(0, state_epoch=4, start_offset=11)
    begun.good(INIT, init(4, 11))
    assert begun.summary() == ShareStateSummary(
        0, state_epoch=4, start_offset=11, delivery_complete_count=0
    )


@pytest.mark.parametrize(
    ("request_type", "one"),
    [
        (INIT, init(3, 10, partition=3)),
        (READ, asked(5, partition=3)),
        (WRITE, write(state_epoch=3, leader_epoch=5, partition=3)),
        (DELETE, 3),
        (SUMMARY, asked(partition=3)),
    ],
)
def test_a_partition_that_does_not_exist_any_more(
    bench: MachineBench, request_type: type, one: Any
) -> None:
    bench.topics.counts[T] = 4
    bench.good(INIT, init(1, 0, partition=3))
    bench.topics.counts[T] = 3
    assert bench.ask(request_type, one) is UNKNOWN
    assert bench.ask(INIT, init(), U) is UNKNOWN
    assert bench.ask(SUMMARY, asked(), U) is UNKNOWN
    assert bench.ask(DELETE, 0, U) is UNKNOWN


@pytest.mark.parametrize(
    ("request_type", "one", "code"),
    [
        (INIT, init(partition=-1), INVALID),
        (INIT, init(-1), INVALID),
        (INIT, init(2, partition=0), OLD_STATE),
        (READ, asked(5, partition=-1), INVALID),
        (READ, asked(-1), INVALID),
        (READ, asked(4), OLD_LEADER),
        (READ, asked(5, partition=1), INVALID),
        (READ, asked(5, partition=9), INVALID),
        (WRITE, write(partition=-1), INVALID),
        # docs/spec/share-group.md#SG-60
        (WRITE, write(leader_epoch=-1, state_epoch=3), INVALID),
        (WRITE, write(leader_epoch=5, state_epoch=-1), INVALID),
        (WRITE, write(leader_epoch=5, state_epoch=3, partition=1), INVALID),
        (WRITE, write(leader_epoch=4, state_epoch=3), OLD_LEADER),
        (WRITE, write(leader_epoch=5, state_epoch=2), OLD_STATE),
        (WRITE, write(leader_epoch=4, state_epoch=2), OLD_LEADER),
        (WRITE, write(leader_epoch=5, state_epoch=3, partition=9), INVALID),
        (DELETE, -1, INVALID),
        (SUMMARY, asked(partition=-1), INVALID),
        # What no leader writes
        (WRITE, write(B(5, 4, 0, 1), leader_epoch=5, state_epoch=3), INVALID),
        (WRITE, write(B(-1, 4, 0, 1), leader_epoch=5, state_epoch=3), INVALID),
        (WRITE, write(B(0, 4, 1, 1), leader_epoch=5, state_epoch=3), INVALID),
        (WRITE, write(B(0, 4, 5, 1), leader_epoch=5, state_epoch=3), INVALID),
        (WRITE, write(B(0, 4, 0, -1), leader_epoch=5, state_epoch=3), INVALID),
    ],
)
def test_refusals(begun: MachineBench, request_type: type, one: Any, code: ErrorCode) -> None:
    before = begun.summary(), list(begun.log)
    assert begun.ask(request_type, one) is code
    assert (begun.summary(), begun.log) == before


def test_a_group_id_that_fits_into_no_record(bench: MachineBench) -> None:
    assert bench.ask(INIT, init(), group="é" * 16_384) is INVALID
    assert bench.ask(INIT, init(), group="é" * 16_383) == ShareStateResult(0)


def test_read_raises_the_leader_epoch(bench: MachineBench) -> None:
    """docs/spec/share-group.md#SG-59"""
    assert bench.ask(READ, asked()) is INVALID
    bench.good(INIT, init(1, 5))
    assert bench.read() == ReadShareState(0, state_epoch=1, start_offset=5)
    assert len(bench.log) == 1
    assert bench.ask(SUMMARY, asked(9)).leader_epoch == 0
    bench.read(4)
    assert bench.log[1:] == [(KEY, ShareUpdate(0, 4, 5, (), 0))]
    assert bench.summary().leader_epoch == 4
    assert bench.ask(READ, asked(3)) is OLD_LEADER
    # The epochs of a write are not stored.
    bench.good(WRITE, write(leader_epoch=9, state_epoch=9))
    assert (bench.summary().leader_epoch, bench.summary().state_epoch) == (4, 1)


@pytest.mark.parametrize(
    ("start", "count", "expected"),
    [
        (-1, 5, (10, 3)),
        (5, 5, (10, 3)),
        (10, 5, (10, 5)),
        (10, 2, (10, 3)),
        (12, 2, (12, 2)),
        (12, -1, (12, -1)),
    ],
)
def test_start_offset_and_count(
    bench: MachineBench, start: int, count: int, expected: tuple[int, int]
) -> None:
    """docs/spec/share-group.md#SG-63"""
    bench.good(INIT, init(1, 10))
    bench.good(WRITE, write(B(10, 19, 2, 1), start=10, count=3))
    bench.good(WRITE, write(B(5, 11, 4, 2), start=start, count=count))
    summary = bench.summary()
    assert (summary.start_offset, summary.delivery_complete_count) == expected
    assert bench.read().batches[-1] == B(12, 19, 2, 1)
    assert bench.read().batches[0].first_offset == expected[0]


def test_the_first_write_sets_the_start(bench: MachineBench) -> None:
    bench.good(INIT, init())
    bench.good(WRITE, write(B(0, 4, 2, 1), start=-1, count=0))
    assert bench.summary() == ShareStateSummary(
        0, state_epoch=1, start_offset=-1, delivery_complete_count=0
    )
    bench.good(WRITE, write(start=5, count=0))
    assert bench.read() == ReadShareState(0, state_epoch=1, start_offset=5)


def test_delete(begun: MachineBench) -> None:
    """docs/spec/share-group.md#SG-64"""
    assert begun.ask(DELETE, 1) == ShareStateResult(1)
    records = len(begun.log)
    assert begun.ask(DELETE, 0) == ShareStateResult(0)
    assert begun.log[records:] == [(KEY, None)]
    assert begun.ask(DELETE, 0) == ShareStateResult(0)
    assert len(begun.log) == records + 1
    assert begun.ask(READ, asked(5)) is INVALID
    assert begun.summary() == ShareStateSummary(0, start_offset=-1)
    # After that its epochs begin anew.
    begun.good(INIT, init(1, 0))
    assert begun.log[-1][1] == ShareSnapshot(0, 1, 0, 0, START_MS, START_MS, (), 0)


def test_a_leader_of_a_deleted_state_does_not_write_the_next_one(begun: MachineBench) -> None:
    """A new group of the same name may have the same state epoch."""
    write_it = write(B(10, 19, 2, 1), start=10, state_epoch=3, leader_epoch=5)
    begun.good(DELETE, 0)
    begun.good(INIT, init(3, 10))
    assert begun.ask(WRITE, write_it) is OLD_STATE
    begun.machine = begun.replayed()  # another node
    assert begun.ask(WRITE, write_it) is OLD_STATE
    assert begun.read(5).state_epoch == 3
    begun.good(WRITE, write_it)
    assert begun.replayed().kept == begun.machine.kept
    begun.machine = begun.replayed()
    begun.good(WRITE, write_it)


def test_so_many_deleted_states_are_remembered(
    bench: MachineBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_module, "DELETED_MAX", 1)
    for partition in (0, 1):
        bench.good(INIT, init(1, 0, partition))
        bench.good(DELETE, partition)
        bench.good(INIT, init(1, 0, partition))
    bench.good(WRITE, write())
    assert bench.ask(WRITE, write(partition=1)) is OLD_STATE


def test_a_snapshot_after_500_updates(bench: MachineBench) -> None:
    """docs/spec/share-group.md#SG-65"""
    bench.good(INIT, init(1, 0))
    for offset in range(1002):
        bench.good(WRITE, write(B(2 * offset, 2 * offset, 2, 1), count=offset))
    values = [value for _, value in bench.log]
    snapshots = {at: value for at, value in enumerate(values) if isinstance(value, ShareSnapshot)}
    assert list(snapshots) == [0, 501, 1002]
    assert [value.snapshot_epoch for value in snapshots.values()] == [0, 1, 2]
    assert len(snapshots[501].batches) == 501
    assert snapshots[501].delivery_complete_count == 500
    assert values[502] == ShareUpdate(1, 0, 0, (B(1002, 1002, 2, 1),), 501)
    assert bench.replayed().kept == bench.machine.kept


def test_snapshots_only() -> None:
    bench = MachineBench(share_snapshot_updates=0)
    bench.good(INIT, init(1, 0))
    bench.good(WRITE, write(B(0, 4, 2, 1)))
    bench.read(3)
    assert [type(value) for _, value in bench.log] == [ShareSnapshot] * 3
    assert (bench.summary().leader_epoch, bench.read(3).batches) == (3, (B(0, 4, 2, 1),))


def test_a_cold_snapshot_changes_nothing_else(begun: MachineBench) -> None:
    before = begun.read(5), begun.summary()
    begun.apply(begun.machine.snapshot(KEY, Instant(0, START_MS + 9)).records)
    assert begun.log[-1][1] == ShareSnapshot(
        1, 3, 5, 10, START_MS, START_MS + 9, (B(10, 19, 2, 1),), 0
    )
    assert (begun.read(5), begun.summary()) == before
    begun.topics.counts.clear()
    assert begun.machine.snapshot(KEY, Instant(0, 0)).records == [(KEY, None)]


def test_the_number_of_share_partitions_is_limited() -> None:
    bench = MachineBench(max_share_partitions=2)
    for partition in (0, 1):
        bench.good(INIT, init(partition=partition))
    assert bench.ask(INIT, init(partition=2)) is ErrorCode.POLICY_VIOLATION
    bench.good(INIT, init(2, 8, partition=1))
    bench.good(DELETE, 0)
    bench.good(INIT, init(partition=2))


def test_the_number_of_batches_is_limited(
    bench: MachineBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_module, "BATCHES_MAX", 3)
    bench.good(INIT, init(1, 0))
    bench.good(WRITE, write(B(0, 0, 2, 1), B(2, 2, 2, 1), B(4, 4, 2, 1)))
    too_many = ErrorCode.POLICY_VIOLATION
    assert bench.ask(WRITE, write(B(6, 6, 2, 1))) is too_many
    assert bench.ask(WRITE, write(*[B(at, at, 2, 1) for at in range(4)])) is too_many
    # What makes them fewer is always taken.
    bench.good(WRITE, write(B(1, 1, 2, 1)))
    bench.good(WRITE, write(B(6, 6, 2, 1)))
    assert bench.read().batches == (B(0, 2, 2, 1), B(4, 4, 2, 1), B(6, 6, 2, 1))


def test_an_update_whose_snapshot_was_pruned_is_skipped(bench: MachineBench) -> None:
    bench.apply([(KEY, ShareUpdate(0, 4, 5, (), 0))])
    assert bench.machine.kept == {}


_WRITES = st.one_of(
    st.builds(
        lambda epoch, start: (INIT, init(epoch, start)), st.integers(0, 4), st.integers(-1, 9)
    ),
    st.builds(lambda epoch: (READ, asked(epoch)), st.integers(0, 4)),
    st.builds(
        lambda first, length, state, count, start, epoch: (
            WRITE,
            write(
                B(first, first + length, state, count), start=start, state_epoch=epoch, count=start
            ),
        ),
        st.integers(0, 20),
        st.integers(0, 5),
        st.sampled_from((0, 2, 4)),
        st.integers(0, 3),
        st.integers(-1, 12),
        st.integers(0, 4),
    ),
    st.just((DELETE, 0)),
)


@settings(deadline=None)
@given(st.lists(_WRITES, max_size=30), st.integers(0, 3))
def test_the_log_gives_the_same_state(requests: list[tuple[type, Any]], updates: int) -> None:
    bench = MachineBench(share_snapshot_updates=updates)
    for request_type, one in requests:
        bench.now_ms += 1
        bench.ask(request_type, one)
        assert bench.replayed().kept == bench.machine.kept
