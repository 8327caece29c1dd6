"""What a shard of a log decides by: the pure machine that `log_shard` runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.types import (
    AppendError,
    Completion,
    Instant,
    Outcome,
    OutsideCall,
    RequestContext,
    Task,
)


class Machine(Protocol):
    """What a shard decides by. No method waits; time is an argument; only `replay_all` writes hard
    state (classic groups: ADR 7). An exception other than ApiError is a bug of ours. What a record
    is, is between the machine and who encodes it (`LogShard.encode`)."""

    def handle(self, context: RequestContext, request: Any, now: Instant) -> Outcome:
        """Answers a request, now or with a later outcome. Raises ApiError before any effect."""
        ...

    def expire(self, key: DeadlineKey, now: Instant) -> Outcome:
        """A deadline has passed."""
        ...

    def task_done(self, task: Task, result: Any, now: Instant) -> Outcome:
        """The result of a task, or the Exception that ended it."""
        ...

    def answered(self, call: OutsideCall, answer: Any, now: Instant) -> Outcome:
        """The answer to a call, or the Exception that came instead."""
        ...

    def appended(self, completion: Completion, error: AppendError | None, now: Instant) -> Outcome:
        """The records of an outcome with a completion are durable, or have failed."""
        ...

    def replay_all(
        self, records: Iterable[Any], offsets: Iterable[int], producer: tuple[int, int] | None
    ) -> None:
        """Applies records that stand at these offsets of the log, live and at load alike.
        `producer`: (id, epoch) of their transaction. Whatever it raises, the shard is rebuilt from
        the log."""
        ...

    def unload(self) -> Outcome:
        """The shard is given up: the last answers to the requests that are parked in it."""
        ...

    def discard(self) -> None:
        """The machine is not used any more."""
        ...

    def next_deadline(self) -> int | None:
        """Monotonic ms, not after the earliest deadline."""
        ...

    def pop_due(self, now_ms: int, at_most: int | None = None) -> list[DeadlineKey]:
        """Removes and returns the deadlines up to `now_ms`, earliest first."""
        ...

    def retry(self, key: DeadlineKey, at_ms: int) -> None:
        """`key` was popped, but could not be handled."""
        ...


class QuietMachine:
    """A `Machine` without deadlines, tasks, calls or parked requests, which does nothing when its
    records are durable. A machine with some of these replaces the methods that they need."""

    def expire(self, key: DeadlineKey, now: Instant) -> Outcome:
        return Outcome()

    def task_done(self, task: Task, result: Any, now: Instant) -> Outcome:
        return Outcome()

    def answered(self, call: OutsideCall, answer: Any, now: Instant) -> Outcome:
        return Outcome()

    def appended(self, completion: Completion, error: AppendError | None, now: Instant) -> Outcome:
        return Outcome()

    def unload(self) -> Outcome:
        return Outcome()

    def discard(self) -> None:
        pass

    def next_deadline(self) -> int | None:
        return None

    def pop_due(self, now_ms: int, at_most: int | None = None) -> list[DeadlineKey]:
        return []

    def retry(self, key: DeadlineKey, at_ms: int) -> None:
        pass


M = TypeVar("M", bound=Machine)


class LoadedMachine(Struct, Generic[M], frozen=True):
    """A machine made from its log. `outcome`: what starting its timers leads to; `records`: how
    many were applied; the offsets are those of the log as it was opened."""

    machine: M
    outcome: Outcome
    records: int
    start_offset: int
    next_offset: int
    owner_epoch: int
