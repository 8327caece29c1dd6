"""Finds the point of a group's past that the flags name, and what the log can say about it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

import typer

from groupd.coordinator.cli.errors import UsageError
from groupd.coordinator.cli.kafka.connection import KafkaError
from groupd.coordinator.cli.times import parse_time, show_time
from groupd.coordinator.history.replay import (
    BeforeHistory,
    Extent,
    GroupLog,
    GroupState,
    extent_of,
    state_at,
)
from groupd.coordinator.history.stream import UnreadableLog
from groupd.storage.log import LogError

T = TypeVar("T")

EXIT_FAILED = 1


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end. If something cannot be read or asked, the command prints one line and
    ends with exit code 1. A UsageError passes, and ends it with exit code 2."""
    try:
        return asyncio.run(work)
    except (KafkaError, UnreadableLog, LogError) as error:
        fail(str(error))


@contextmanager
def asking() -> Iterator[None]:
    """If a broker does not answer or refuses, the command prints one line and ends with exit code
    1."""
    try:
        yield
    except KafkaError as error:
        fail(str(error))


def fail(reason: str) -> NoReturn:
    print("groupd: " + " ".join(reason.split()), file=sys.stderr)
    raise typer.Exit(EXIT_FAILED)


def note(text: str) -> None:
    """Print a remark for people, on stderr."""
    print(f"groupd: {text}", file=sys.stderr)


def time_of(at: str | None) -> int | None:
    """Raises UsageError."""
    return None if at is None else parse_time(at, now_ms())


async def extent_at(source: GroupLog, group_id: str, at_ms: int | None) -> Extent:
    """How far the log can answer. None = up to its end. Raises UsageError for a time before the
    history that the log still has."""
    try:
        return await extent_of(source, group_id, at_ms)
    except BeforeHistory as error:
        earliest_ms = error.earliest_ms
        raise UsageError(
            f"{show_time(at_ms or 0)} is before the history that {source.name} still has: the "
            f"earliest time that can be answered is {show_time(earliest_ms)} ({earliest_ms})"
        ) from None


async def past_state(
    source: GroupLog, group_id: str, at_ms: int | None, at_log_offset: int | None = None
) -> GroupState:
    """The group at a time, after the record at a log offset, or now. Raises UsageError."""
    if at_ms is not None and at_log_offset is not None:
        raise UsageError("--at and --at-log-offset name two points: give one of them")
    extent = await extent_at(source, group_id, at_ms)
    cut_offset = extent.cut_offset
    if at_log_offset is not None:
        cut_offset = at_log_offset + 1
        if cut_offset < extent.complete_from:
            raise UsageError(
                f"log offset {at_log_offset} of {source.name} is compacted: the earliest that can "
                f"be answered is {extent.complete_from - 1}"
            )
        if cut_offset > extent.end_offset:
            raise UsageError(
                f"log offset {at_log_offset} of {source.name} is not written yet: the last one is "
                f"{extent.end_offset - 1}"
            )
    return await state_at(source.batches(), group_id, cut_offset)
