"""Merging the batches of a share-partition (docs/spec/share-group.md#3), compared with a model that
knows each offset."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.share_state.batches import Batches, in_order, merged
from groupd.protocol.messages.share_state import NO_OFFSET, ShareStateBatch

B = ShareStateBatch

BATCHES = st.lists(
    st.builds(
        lambda first, length, state, count: B(first, first + length, state, count),
        st.integers(0, 30),
        st.integers(0, 8),
        st.sampled_from((0, 2, 3, 4)),
        st.integers(0, 3),
    ),
    max_size=8,
)
STARTS = st.sampled_from((NO_OFFSET, 0, 1, 7, 20, 50))


def model(batches: Any, start_offset: int) -> dict[int, tuple[int, int]]:
    """Offset -> (count, state)."""
    found: dict[int, tuple[int, int]] = {}
    for one in batches:
        for offset in range(max(one.first_offset, start_offset), one.last_offset + 1):
            entry = one.delivery_count, one.delivery_state
            found[offset] = max(found.get(offset, entry), entry)
    return found


def by_offset(batches: Batches) -> dict[int, tuple[int, int]]:
    return model(batches, NO_OFFSET)


def check_form(batches: Batches) -> None:
    """Sorted, disjoint, and no two neighbours that could be one."""
    for one, after in pairwise(batches):
        assert one.last_offset < after.first_offset
        if one.last_offset + 1 == after.first_offset:
            assert (one.delivery_state, one.delivery_count) != (
                after.delivery_state,
                after.delivery_count,
            )
    assert all(one.first_offset <= one.last_offset for one in batches)


@given(st.lists(st.tuples(BATCHES, STARTS), max_size=5))
def test_merging_agrees_with_the_model(writes: list[tuple[list[ShareStateBatch], int]]) -> None:
    kept: Batches = ()
    written: list[ShareStateBatch] = []
    start_offset = NO_OFFSET
    for batches, moved in writes:
        start_offset = max(start_offset, moved)
        kept = merged(kept, in_order(batches), start_offset)
        written += batches
        check_form(kept)
        assert by_offset(kept) == model(written, start_offset)


@given(BATCHES, BATCHES, STARTS)
def test_a_part_may_be_merged_first(
    one: list[ShareStateBatch], other: list[ShareStateBatch], start_offset: int
) -> None:
    """What an update says of itself may be merged before it is written."""
    kept = merged((), in_order(one), start_offset)
    new = merged((), in_order(other), start_offset)
    both = in_order([*one, *other])
    assert merged(kept, new, start_offset) == merged((), both, start_offset)


@pytest.mark.parametrize(
    ("old", "new", "start_offset", "result"),
    [
        # docs/spec/share-group.md#SG-61
        ([B(0, 9, 0, 1)], [B(5, 14, 2, 1)], 0, [B(0, 4, 0, 1), B(5, 14, 2, 1)]),
        # docs/spec/share-group.md#SG-62
        ([B(0, 9, 2, 2)], [B(0, 9, 0, 1)], 0, [B(0, 9, 2, 2)]),
        ([B(0, 9, 2, 2)], [B(0, 9, 0, 3)], 0, [B(0, 9, 0, 3)]),
        # docs/spec/share-group.md#SG-63
        ([B(10, 19, 2, 1)], [B(5, 12, 4, 2)], 10, [B(10, 12, 4, 2), B(13, 19, 2, 1)]),
        ([B(0, 9, 2, 1)], [B(10, 19, 2, 1)], 0, [B(0, 19, 2, 1)]),
        ([B(0, 9, 2, 1)], [], 10, []),
        ([B(0, 9, 2, 1)], [B(0, 2**63 - 1, 2, 1)], -1, [B(0, 2**63 - 1, 2, 1)]),
    ],
)
def test_examples(
    old: list[ShareStateBatch],
    new: list[ShareStateBatch],
    start_offset: int,
    result: list[ShareStateBatch],
) -> None:
    assert merged(tuple(old), tuple(new), start_offset) == tuple(result)
