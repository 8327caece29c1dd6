"""What the console and the command line have in common when they move a group's offsets: when they
may, what one request carries, and how the result is compared with what was wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from groupd.coordinator.history.restore import Current, Place

PART_BYTES = 400_000
"""The records of one request, so that they fit into one batch of the coordinator."""

PART_PLACES = 250
"""Partitions of one request, so that the coordinator handles it in one go: all of it or nothing is
written."""

_RECORD_BYTES = 100
"""Most bytes of the record of an offset, without the names and the metadata."""

_MEMBERLESS = ("Empty", "Dead")

Wanted = TypeVar("Wanted", Current, None, Current | None)


def members_refusal(group_id: str, state: str) -> str:
    """Why the offsets of a group in this state cannot be moved; "": they can."""
    if state in _MEMBERLESS:
        return ""
    return (
        f"group {group_id} is {state}: it has members, which would go on committing. "
        "Stop its consumers first"
    )


def parts_of(
    group_id: str, wanted: Mapping[Place, Wanted], most_bytes: int = PART_BYTES
) -> Iterator[dict[Place, Wanted]]:
    """What is wanted, as much of it at a time as one request may carry: `PART_PLACES` partitions
    whose records have `most_bytes` bytes at most. Every part has at least one partition."""
    part: dict[Place, Wanted] = {}
    size = 0
    for place, offset in wanted.items():
        own = _RECORD_BYTES + _length(group_id) + _length(place[0])
        if offset is not None:
            own += _length(offset.metadata)
        if part and (len(part) == PART_PLACES or size + own > most_bytes):
            yield part
            part, size = {}, 0
        part[place] = offset
        size += own
    if part:
        yield part


def _length(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def differing(
    wanted: Mapping[Place, Current | None], now: Mapping[Place, Current | None]
) -> list[Place]:
    """The partitions that are not as wanted. None, or no entry in `now`: nothing is committed."""
    return [place for place, offset in wanted.items() if now.get(place) != offset]


def refused_text(refused: Mapping[Place, str], written: int, count: int) -> str:
    """One line that says what was done when a part was refused, and nothing was tried after it.
    `refused`: the errors by partition; `written` of `count` partitions have been written."""
    (topic, number), error = next(iter(refused.items()))
    left = count - written - len(refused)
    done = f"{written} have been written" if written else "Nothing has been written"
    return (
        f"{len(refused)} of {counted(count, 'partition')} refused, such as "
        f"{topic}-{number}: {error}. {done}, {left} not tried"
    )


def counted(count: int, noun: str) -> str:
    """`1 offset`, `2 offsets`."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
