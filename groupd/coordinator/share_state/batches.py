"""The rule by which the batches of a share-partition are merged (docs/spec/share-group.md#3).

Each offset has the entry with the higher delivery count, and on a tie the one with the higher
delivery state. Neighbours that are equal are one batch. The result is sorted, its batches do not
overlap, and it begins at the start offset.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from heapq import heappop, heappush
from operator import attrgetter

from groupd.protocol.messages.share_state import NO_OFFSET, ShareStateBatch

Batches = tuple[ShareStateBatch, ...]

_first_offset = attrgetter("first_offset")
_last_offset = attrgetter("last_offset")


def in_order(batches: Iterable[ShareStateBatch]) -> Batches:
    """Merge batches that may be in any order."""
    return tuple(_swept(list(batches)))


def merged(old: Batches, new: Batches, start_offset: int) -> Batches:
    """Merge `new` batches into `old` ones; each of the two is merged already. What is below
    `start_offset` is cut off."""
    old, new = cut(old, start_offset), cut(new, start_offset)
    if not new:
        return old
    # Only the old batches that overlap or touch the new ones may change. A state may have thousands
    # of batches, and most writes have one.
    begin = bisect_left(old, new[0].first_offset - 1, key=_last_offset)
    end = bisect_right(old, new[-1].last_offset + 1, lo=begin, key=_first_offset)
    if begin < end:
        new = in_order([*old[begin:end], *new])
    return old[:begin] + new + old[end:]


def cut(batches: Batches, start_offset: int) -> Batches:
    """The batches without what is below `start_offset`; `NO_OFFSET`: all of them."""
    if not batches or batches[0].first_offset >= start_offset or start_offset == NO_OFFSET:
        return batches
    return tuple(
        [
            one
            if one.first_offset >= start_offset
            else ShareStateBatch(
                start_offset, one.last_offset, one.delivery_state, one.delivery_count
            )
            for one in batches
            if one.last_offset >= start_offset
        ]
    )


def _swept(batches: list[ShareStateBatch]) -> list[ShareStateBatch]:
    """Returns the merged batches. Where some overlap, a heap holds those that have begun, the one
    that counts first."""
    batches.sort(key=_first_offset)
    swept: list[ShareStateBatch] = []
    begun: list[tuple[int, int, int]] = []  # (-count, -state, last offset)
    index, offset = 0, 0
    while begun or index < len(batches):
        if not begun:
            one = batches[index]
            offset = one.first_offset
            if index + 1 == len(batches) or one.last_offset < batches[index + 1].first_offset:
                index += 1
                _append(swept, one)
                continue
        while index < len(batches) and (one := batches[index]).first_offset <= offset:
            heappush(begun, (-one.delivery_count, -one.delivery_state, one.last_offset))
            index += 1
        count, state, last = begun[0]
        if index < len(batches):
            last = min(last, batches[index].first_offset - 1)
        _append(swept, ShareStateBatch(offset, last, -state, -count))
        offset = last + 1
        while begun and begun[0][2] < offset:
            heappop(begun)
    return swept


def _append(swept: list[ShareStateBatch], one: ShareStateBatch) -> None:
    """Append a batch that begins behind the last one, or make it longer if it goes on equally."""
    if (
        swept
        and (before := swept[-1]).last_offset + 1 == one.first_offset
        and before.delivery_state == one.delivery_state
        and before.delivery_count == one.delivery_count
    ):
        swept[-1] = ShareStateBatch(
            before.first_offset, one.last_offset, one.delivery_state, one.delivery_count
        )
    else:
        swept.append(one)
