"""What the console and the command line have in common when they move a group's offsets: when they
may, what one request carries, what a refusal means, and how the result is compared with what was
wanted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

from groupd.coordinator.history.restore import Current, Place
from groupd.protocol.errors import ErrorCode

PART_BYTES = 400_000
"""The records of one request, so that they fit into one batch of the coordinator."""

PART_PLACES = 250
"""Partitions of one request, so that the coordinator handles it in one go: all of it or nothing is
written."""

_RECORD_BYTES = 100
"""Most bytes of the record of an offset, without the names and the metadata."""

_MEMBERLESS = ("Empty", "Dead")

_OUTCOME_NOT_KNOWN = frozenset(
    error.name
    for error in (
        # A write took too long for its client, and may still become durable.
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        # The coordinator has lost its log in the middle of a write.
        ErrorCode.NOT_COORDINATOR,
        # The reply was lost, or the connection.
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    )
)
"""Errors with which a coordinator answers a write that it may have done, or may still do."""

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
    """Splits `wanted` into parts, one for each request. A part has at most `PART_PLACES`
    partitions, whose records have at most `most_bytes` bytes, and at least one partition."""
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


def may_be_written(error: str) -> bool:
    """Whether what was answered with this error may have been written nevertheless. `error`: its
    name in Kafka."""
    return error in _OUTCOME_NOT_KNOWN


def refused_text(errors: Mapping[Place, str], written: int, count: int) -> str:
    """One line that says what was done when a part was answered with errors, and nothing was tried
    after it. `errors`: their names by partition, one at least; `written` of `count` partitions have
    been written."""
    unsure = [place for place, error in errors.items() if may_be_written(error)]
    refused = [place for place, error in errors.items() if not may_be_written(error)]
    left = count - written - len(errors)
    sentences = []
    for places, what in ((refused, "refused"), (unsure, "may have been written")):
        if places:
            topic, number = place = places[0]
            sentences.append(
                f"{len(places)} of {counted(count, 'partition')} {what}, such as "
                f"{topic}-{number}: {errors[place]}"
            )
    rest = []
    if written:
        rest.append(f"{written} {'has' if written == 1 else 'have'} been written")
    elif not unsure:
        rest.append("Nothing has been written")
    if left:
        rest.append(f"{left} not tried")
    if rest:
        sentences.append(", ".join(rest))
    return ". ".join(sentences)


def counted(count: int, noun: str) -> str:
    """`1 offset`, `2 offsets`."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
