"""Requests that wait for their answer.

A `Waiter` is one request that has not been answered yet. It is also the token by which the core
names the request (`RequestContext.token`), so an answer needs no look-up. Rules:

- A waiter is answered once. Whatever comes after the first answer is dropped, and so is an answer
  for a client that has gone (`forget`).
- Whoever answers has other work to finish, such as the other replies of the same batch. So an
  error while a reply is being sent is logged here and goes no further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import structlog

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import OffsetFetchGroup

log = structlog.get_logger("groupd.broker")

Failure = Callable[[Any, ErrorCode, "str | None"], Any]
"""(request, code, message) -> the reply that carries the error."""


class Lease(Protocol):
    """Says how long the reply to a steady heartbeat may be sent again."""

    def renew(self) -> bool:
        """The same request has come again. True: the member's session has been renewed, and the
        stored reply is still right. False: the request must be handled."""
        ...


class WaitingRequests(dict["Waiter", bool]):
    """The waiters of one broker, oldest first."""

    def add(self, waiter: Waiter) -> None:
        waiter.waiting = self
        self[waiter] = True

    def fail_all(self, code: ErrorCode) -> None:
        """Answer every request that still waits with `code`."""
        for waiter in list(self):
            waiter.fail(code)


_NOWHERE = WaitingRequests()
"""Of waiters that have not been added to any; always empty."""


class Waiter:
    """One request and its way back. Subclasses say in `send` what happens to the reply.
    `failure` makes the reply that carries an error."""

    __slots__ = ("failure", "request", "waiting")

    def __init__(self, request: Any, failure: Failure) -> None:
        self.request = request
        self.failure = failure
        self.waiting = _NOWHERE

    def send(self, reply: Any) -> None:
        """Take the reply message; None: this request has no reply."""
        raise NotImplementedError

    def may_repeat(self, lease: Lease) -> None:
        """The reply that comes next may be sent again for the same request while `lease` holds."""

    def answer(self, reply: Any) -> None:
        if not self.waiting.pop(self, False):
            return
        try:
            self.send(reply)
        except Exception:
            log.exception("reply lost", request=type(self.request).__name__)

    def fail(self, code: ErrorCode, message: str | None = None) -> None:
        """Answer with an error."""
        if self not in self.waiting:
            return
        try:
            reply = self.failure(self.request, code, message)
        except Exception:
            log.exception("reply lost", request=type(self.request).__name__, code=code.name)
            self.forget()
        else:
            self.answer(reply)

    def forget(self) -> None:
        """The client is gone: a later answer is dropped."""
        if self in self.waiting:
            del self.waiting[self]


class Callback(Waiter):
    """Calls a function with the reply."""

    __slots__ = ("_receive",)

    def __init__(self, request: Any, failure: Failure, receive: Callable[[Any], None]) -> None:
        super().__init__(request, failure)
        self._receive = receive

    def send(self, reply: Any) -> None:
        self._receive(reply)


class Gather:
    """Several questions whose answers become one reply to `waiter`.

    `merge(parts)` makes the reply; `parts` stand in the order of the questions, whatever order they
    came in. `count`: how many parts there will be; with none the reply is made at once. If `merge`
    fails, so does the request."""

    __slots__ = ("_merge", "_missing", "_parts", "_waiter")

    def __init__(self, waiter: Waiter, count: int, merge: Callable[[list[Any]], Any]) -> None:
        self._waiter = waiter
        self._merge = merge
        self._parts: list[Any] = [None] * count
        self._missing = count
        if count == 0:
            self._finish()

    def add(self, index: int, part: Any) -> None:
        """The answer to question `index`; once for each."""
        self._parts[index] = part
        self._missing -= 1
        if self._missing == 0:
            self._finish()

    def _finish(self) -> None:
        try:
            reply = self._merge(self._parts)
        except Exception:
            log.exception("parts cannot be merged", request=type(self._waiter.request).__name__)
            self._waiter.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            self._waiter.answer(reply)


class Part(Waiter):
    """Question `index` of a `Gather`."""

    __slots__ = ("_gather", "_index")

    def __init__(self, request: Any, failure: Failure, gather: Gather, index: int) -> None:
        super().__init__(request, failure)
        self._gather = gather
        self._index = index

    def send(self, reply: Any) -> None:
        self._gather.add(self._index, reply)


Replies = Sequence[tuple[Waiter, Any]]


def answer_all(replies: Iterable[tuple[Waiter, Any]]) -> None:
    for waiter, reply in replies:
        waiter.answer(reply)


def refuse(replies: Iterable[tuple[Waiter, Any]], code: ErrorCode) -> None:
    """Answer with `code` instead of the replies that were meant."""
    for waiter, _ in replies:
        waiter.fail(code)


def time_out(replies: Iterable[tuple[Waiter, Any]]) -> None:
    """The log takes too long. Consumers before Kafka 3.9 stop for good when an OffsetFetch is
    answered with COORDINATOR_NOT_AVAILABLE, so it gets NOT_COORDINATOR, as in Kafka."""
    for waiter, _ in replies:
        fetch = isinstance(waiter.request, OffsetFetchGroup)
        waiter.fail(ErrorCode.NOT_COORDINATOR if fetch else ErrorCode.COORDINATOR_NOT_AVAILABLE)
