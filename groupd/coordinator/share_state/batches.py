"""The rule by which the batches of a share-partition are merged (docs/spec/share-group.md#3).

Each offset has the entry with the higher delivery count, and on a tie the one with the higher
delivery state. Neighbours that are equal are one batch. The result is sorted, its batches do not
overlap, and it begins at the start offset.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from operator import attrgetter

from groupd.protocol.messages.share_state import NO_OFFSET, ShareStateBatch

Batches = tuple[ShareStateBatch, ...]

_first_offset = attrgetter("first_offset")
_last_offset = attrgetter("last_offset")


def merged(old: Batches, new: Sequence[ShareStateBatch], start_offset: int) -> Batches:
    """Merge `new` batches, in any order, into `old` ones, which are merged already. What is below
    `start_offset` is cut off; `NO_OFFSET`: nothing is."""
    if start_offset != NO_OFFSET:
        new = _cut(new, start_offset)
        if old and old[0].first_offset < start_offset:
            old = tuple(_cut(old, start_offset))
    if not new:
        return old
    # Only the old batches that overlap or touch the new ones may change. A state may have thousands
    # of batches, and most writes have one.
    first = min(map(_first_offset, new)) - 1
    last = max(map(_last_offset, new)) + 1
    begin = bisect_left(old, first, key=_last_offset)
    end = bisect_left(old, last + 1, lo=begin, key=_first_offset)
    return old[:begin] + tuple(_swept([*old[begin:end], *new])) + old[end:]


def _cut(batches: Iterable[ShareStateBatch], start_offset: int) -> list[ShareStateBatch]:
    return [
        one
        if one.first_offset >= start_offset
        else ShareStateBatch(start_offset, one.last_offset, one.delivery_state, one.delivery_count)
        for one in batches
        if one.last_offset >= start_offset
    ]


def _swept(batches: list[ShareStateBatch]) -> list[ShareStateBatch]:
    """Returns the merged batches. At each offset a heap holds the batches that have begun, the one
    that counts first."""
    batches.sort(key=_first_offset)
    swept: list[ShareStateBatch] = []
    begun: list[tuple[int, int, int]] = []  # (-count, -state, last offset)
    index, offset = 0, 0
    while begun or index < len(batches):
        if not begun:
            offset = batches[index].first_offset
        while index < len(batches) and (one := batches[index]).first_offset <= offset:
            heappush(begun, (-one.delivery_count, -one.delivery_state, one.last_offset))
            index += 1
        count, state, last = begun[0]
        if last < offset:
            heappop(begun)
            continue
        if index < len(batches):
            last = min(last, batches[index].first_offset - 1)
        first, offset = offset, last + 1
        if (
            swept
            and (before := swept[-1]).last_offset + 1 == first
            and before.delivery_count == -count
            and before.delivery_state == -state
        ):
            first = swept.pop().first_offset
        swept.append(ShareStateBatch(first, last, -state, -count))
    return swept
