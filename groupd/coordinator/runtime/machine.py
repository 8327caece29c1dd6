"""The interface of the pure machine that decides for a shard and that `log_shard` runs."""

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
    """Decides for a shard. No method waits; time is an argument; only `replay_all` writes hard
    state (exception: classic groups, ADR 7). An exception other than ApiError is a bug of ours.
    `LogShard.encode` and the machine agree on what a record is.

    A class that inherits from this one is a machine without deadlines, tasks, calls, parked
    requests or completions, until it overrides their methods."""

    def handle(self, context: RequestContext, request: Any, now: Instant) -> Outcome:
        """Handle a request, which is answered by this outcome or a later one. Raises ApiError
        before any change."""
        ...

    def expire(self, key: DeadlineKey, now: Instant) -> Outcome:
        """Handle a deadline that is over."""
        return Outcome()

    def task_done(self, task: Task, result: Any, now: Instant) -> Outcome:
        """Handle the result of a task, or the Exception that ended it."""
        return Outcome()

    def answered(self, call: OutsideCall, answer: Any, now: Instant) -> Outcome:
        """Handle the answer to a call, or the Exception that came instead."""
        return Outcome()

    def appended(self, completion: Completion, error: AppendError | None, now: Instant) -> Outcome:
        """The records of an outcome with a completion are durable, or (`error`) have failed."""
        return Outcome()

    def replay_all(
        self, records: Iterable[Any], offsets: Iterable[int], producer: tuple[int, int] | None
    ) -> None:
        """Apply records that are at these offsets of the log, live and at load alike. `producer`:
        (id, epoch) of their transaction. After any exception the shard is rebuilt from the log."""
        ...

    def unload(self) -> Outcome:
        """The shard is given up: returns the last answers to the requests that are parked in the
        machine."""
        return Outcome()

    def discard(self) -> None:
        """Called when the machine is not used any more."""
        return

    def next_deadline(self) -> int | None:
        """Returns a monotonic time in ms that is not after the earliest deadline."""
        return None

    def pop_due(self, now_ms: int, at_most: int | None = None) -> list[DeadlineKey]:
        """Remove and return the deadlines up to `now_ms`, earliest first."""
        return []

    def retry(self, key: DeadlineKey, at_ms: int) -> None:
        """Handle `key` again later: it was popped, but could not be handled."""
        return


M = TypeVar("M", bound=Machine)


class LoadedMachine(Struct, Generic[M], frozen=True):
    """A machine made from its log. `outcome`: what was to be done when its timers were started.
    `records`: how many were applied. The offsets are those of the log as it was opened."""

    machine: M
    outcome: Outcome
    records: int
    start_offset: int
    next_offset: int
    owner_epoch: int
