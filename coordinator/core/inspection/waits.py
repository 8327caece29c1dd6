"""Entries of `blocked`: what a group waits for, in words and in numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from groupd.coordinator.core.deadlines import DeadlineKey, Deadlines
from groupd.coordinator.core.offsets.store import OffsetStore
from groupd.coordinator.core.types import Instant

Wait = dict[str, Any]


def wait(why: str, member_id: str = "", in_ms: int | None = None, **place: Any) -> Wait:
    """`member_id`: who waits or is waited for; "" = the group as a whole. `in_ms`: when the
    coordinator stops waiting, whatever happens; None = there is no such time."""
    return {"member_id": member_id, **place, "why": why, "in_ms": in_ms}


def due_in(deadlines: Deadlines, key: DeadlineKey, now: Instant) -> int | None:
    """Milliseconds until a deadline; None if it is not set."""
    at_ms = deadlines.due(key)
    return None if at_ms is None else max(0, at_ms - now.monotonic_ms)


def transactions(store: OffsetStore, group_id: str) -> Iterator[Wait]:
    """One entry for each producer whose open transaction holds offsets of the group. OffsetFetch
    with `require_stable` waits for these."""
    for producer_id, places in sorted(_by_producer(store, group_id).items()):
        first = min(places)
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        why = (
            f"offsets of {first[0]}-{first[1]}{more} wait for the end of the transaction of "
            f"producer {producer_id}"
        )
        yield wait(why)


def _by_producer(store: OffsetStore, group_id: str) -> Mapping[int, list[tuple[str, int]]]:
    found: dict[int, list[tuple[str, int]]] = {}
    for place, producers in store.pending(group_id).items():
        for producer_id in producers:
            found.setdefault(producer_id, []).append(place)
    return found
