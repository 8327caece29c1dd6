"""Requests that wait for their answer.

A `Waiter` is one request that has not been answered yet. It is also the token by which the core
names the request (`RequestContext.token`), so an answer needs no look-up. Rules:

- A waiter is answered once. Whatever comes after the first answer is dropped, and so is an answer
  for a client that has gone (`forget`).
- Whoever answers has other work to finish, such as the other replies of the same batch. So an
  error while a reply is being sent is logged here and goes no further, and `lose` makes sure that
  nobody waits for that reply.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Sequence
from typing import Any, Protocol

import structlog

from groupd.coordinator.core.slices import Steps
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import OffsetFetchGroup
from groupd.protocol.wire.registry import Failure

log = structlog.get_logger("groupd.broker")


def no_reply(request: Any, code: ErrorCode, message: str | None) -> None:
    """The `Failure` of a request that is never answered."""


class Lease(Protocol):
    """Says how long the reply to a steady heartbeat may be sent again."""

    def renew(self) -> bool:
        """The same request has come again. True: the member's session has been renewed, and the
        stored reply is still right. False: the request must be handled."""
        ...


class Timing(Protocol):
    """Measures how long a request is worked on."""

    def timed(self, work: Coroutine[Any, Any, None], /) -> Awaitable[None]:
        """`work`, with the time of its steps measured."""
        ...


class WaitingRequests(dict["Waiter", bool]):
    """The waiters of one broker, oldest first."""

    def add(self, waiter: Waiter) -> None:
        waiter.waiting = self
        self[waiter] = True

    def end_all(self, code: ErrorCode, without_reply: Container[type]) -> None:
        """Answer every request that still waits with `code`; end those of the types `without_reply`
        as `Waiter.end_without_reply` does."""
        for waiter in list(self):
            if type(waiter.request) in without_reply:
                waiter.end_without_reply()
            else:
                waiter.fail(code)


def _nothing() -> None:
    """Takes back what was never asked for."""


_NOWHERE = WaitingRequests()
"""Where waiters are that have not been added to any; always empty."""


class Waiter:
    """One request and its way back. Subclasses say in `send` what happens to the reply.
    `failure` makes the reply that carries an error."""

    __slots__ = ("failure", "request", "waiting")

    meter: Timing | None = None
    """Measures how long the request is worked on, where that matters."""

    def __init__(self, request: Any, failure: Failure) -> None:
        self.request = request
        self.failure = failure
        self.waiting = _NOWHERE

    def send(self, reply: Any) -> None:
        """Take the reply message; None: this request has no reply."""
        raise NotImplementedError

    def may_repeat(self, lease: Lease) -> None:
        """The reply that comes next may be sent again for the same request while `lease` holds."""

    def hold(self) -> None:
        """The request takes long: its client's next one has to wait until it is answered, so that
        no client has two of them under way."""

    def room(self, wanted: int) -> int:
        """How many bytes of records the reply may have, at most `wanted`. They are kept for it
        until the reply is sent, or until `holds` says otherwise."""
        return wanted

    def holds(self, size: int) -> None:
        """The reply has so many bytes for now."""

    def when_short(self, callback: Callable[[], None] | None) -> None:
        """Called for a request that waits for something that may never come: `callback` is called
        when others wait for the memory that it holds, until this is called with None."""

    def when_gone(self, callback: Callable[[], None]) -> Callable[[], None]:
        """`callback` is called when the connection of the client has ended, at once if it has;
        never for a request of our own. Returns a function that takes this back."""
        return _nothing

    def answer(self, reply: Any) -> None:
        if not self.waiting.pop(self, False):
            return
        try:
            self.send(reply)
        except Exception:
            log.exception("reply lost", request=type(self.request).__name__)
            self.lose()

    def fail(self, code: ErrorCode, message: str | None = None) -> None:
        """Answer with an error."""
        if self not in self.waiting:
            return
        try:
            reply = self.failure(self.request, code, message)
        except Exception:
            log.exception("reply lost", request=type(self.request).__name__, code=code.name)
            self.forget()
            self.lose()
        else:
            if reply is None:
                self.end_without_reply()
            else:
                self.answer(reply)

    def end_without_reply(self) -> None:
        """No reply would fit: the connection is closed, and the client asks again, elsewhere if it
        must."""
        self.forget()
        self.hang_up()

    def hang_up(self) -> None:
        """The request has failed, and its client waits for no reply that could say so: the
        connection is closed, after the replies to earlier requests."""
        self.lose()

    def lose(self) -> None:
        """There will be no reply, for want of memory or by a bug of ours."""

    def forget(self) -> None:
        """The client is gone: a later answer is dropped."""
        if self in self.waiting:
            del self.waiting[self]


class Callback(Waiter):
    """Calls a function with the reply, or `lost` if there will be none."""

    __slots__ = ("_lost", "_receive")

    def __init__(
        self,
        request: Any,
        failure: Failure,
        receive: Callable[[Any], None],
        lost: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(request, failure)
        self._receive = receive
        self._lost = lost

    def send(self, reply: Any) -> None:
        self._receive(reply)

    def lose(self) -> None:
        if self._lost is not None:
            self._lost()


class Gather:
    """Several questions whose answers become one reply to `waiter`.

    `merge(parts)` makes the reply; `parts` stand in the order of the questions, whatever order they
    came in. `count`: how many parts there will be; with none the reply is made at once. If `merge`
    fails, so does the request. `work_on`: that of the broker, if `merge` is long work, which
    returns the reply."""

    __slots__ = ("_merge", "_missing", "_parts", "_waiter", "_work_on")

    def __init__(
        self,
        waiter: Waiter,
        count: int,
        merge: Callable[[list[Any]], Any],
        work_on: Callable[[Waiter, Steps[None]], None] | None = None,
    ) -> None:
        self._waiter = waiter
        self._merge = merge
        self._work_on = work_on
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

    def lose(self) -> None:
        """A part has no answer, so the request has none."""
        self._waiter.forget()
        self._waiter.lose()

    def _finish(self) -> None:
        if self._work_on is not None:
            self._work_on(self._waiter, self._merged_in_steps())
            return
        try:
            reply = self._merge(self._parts)
        except Exception:
            log.exception("parts cannot be merged", request=type(self._waiter.request).__name__)
            self._waiter.fail(ErrorCode.UNKNOWN_SERVER_ERROR)
        else:
            self._waiter.answer(reply)

    def _merged_in_steps(self) -> Steps[None]:
        self._waiter.answer((yield from self._merge(self._parts)))


class Part(Waiter):
    """Question `index` of a `Gather`."""

    __slots__ = ("_gather", "_index")

    def __init__(self, request: Any, failure: Failure, gather: Gather, index: int) -> None:
        super().__init__(request, failure)
        self._gather = gather
        self._index = index

    def send(self, reply: Any) -> None:
        self._gather.add(self._index, reply)

    def lose(self) -> None:
        self._gather.lose()


Replies = Sequence[tuple[Waiter, Any]]


def answer_all(replies: Iterable[tuple[Waiter, Any]]) -> None:
    for waiter, reply in replies:
        waiter.answer(reply)


def refuse(replies: Iterable[tuple[Waiter, Any]], code: ErrorCode) -> None:
    """Answer with `code` instead of the replies that were meant."""
    for waiter, _ in replies:
        waiter.fail(code)


def time_out(waiters: Iterable[Waiter]) -> None:
    """The log takes too long. Consumers before Kafka 3.9 stop for good when an OffsetFetch is
    answered with COORDINATOR_NOT_AVAILABLE, so it gets NOT_COORDINATOR, as in Kafka."""
    for waiter in waiters:
        fetch = isinstance(waiter.request, OffsetFetchGroup)
        waiter.fail(ErrorCode.NOT_COORDINATOR if fetch else ErrorCode.COORDINATOR_NOT_AVAILABLE)
