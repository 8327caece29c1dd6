"""Requests that wait for their answer.

A `Waiter` is one request that has not been answered yet. It is also the token by which the core
names the request (`RequestContext.token`), so an answer needs no look-up. Rules:

- A waiter is answered once. Later answers are dropped, and so is an answer for a client that is
  gone (`forget`).
- The code that answers has other work to finish, such as the other replies of the same batch. So an
  error while a reply is sent is logged here and not raised. Then `on_no_reply` is called.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Sequence
from typing import Any, Protocol

import structlog

from groupd.coordinator.core.slices import Steps
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.offsets import OffsetFetchGroup
from groupd.protocol.wire.registry import Failure

log = structlog.get_logger("groupd.broker")


def no_reply(request: Any, code: ErrorCode, message: str | None) -> None:
    """The `Failure` of a request that is never answered."""


class StoredReplyValidity(Protocol):
    """Says how long the stored reply to a steady heartbeat may be sent again."""

    def renew(self) -> bool:
        """The same request has come again. Returns True if the member's session has been renewed
        and the stored reply is still right; False if the request must be handled."""
        ...


class Timing(Protocol):
    """Measures how much time is spent on a request."""

    def timed(self, work: Coroutine[Any, Any, None], /) -> Awaitable[None]:
        """Returns `work`, with the time of its steps measured."""
        ...


class WaitingRequests(dict["Waiter", bool]):
    """The waiters of one broker, oldest first."""

    def add(self, waiter: Waiter) -> None:
        waiter.waiting = self
        self[waiter] = True

    def end_all(self, code: ErrorCode, without_reply: Container[type]) -> None:
        """Fail every request that still waits with `code`. Requests of the types `without_reply`
        are ended by `Waiter.end_without_reply`."""
        for waiter in list(self):
            if type(waiter.request) in without_reply:
                waiter.end_without_reply()
            else:
                waiter.fail(code)


def _nothing() -> None:
    """Does nothing: no callback was registered."""


_NOWHERE = WaitingRequests()
"""The `waiting` of a waiter that has not been added to any broker. Always empty."""


class Waiter:
    """One request and the way back to its client. Subclasses say in `send` what happens to the
    reply. `failure` makes the reply that carries an error."""

    meter: Timing | None = None
    """Measures how much time is spent on the request; None if that is not measured."""
    waiting: WaitingRequests = _NOWHERE
    """The waiters among which it waits."""
    part: Any = None
    """What a shard was asked, if that is only a part of the request."""
    finish: Callable[[Any], Any] | None = None
    """Makes the reply of the shard's answer to `part`. In this case `failure` makes an answer to
    `part`."""

    def __init__(self, request: Any, failure: Failure) -> None:
        self.request = request
        self.failure = failure

    @property
    def asked(self) -> Any:
        """What a shard was asked: the request or a part of it."""
        return self.request if self.finish is None else self.part

    # The answer ---------------------------------------------------------------------------

    def answer(self, reply: Any) -> None:
        if not self.waiting.pop(self, False):
            return
        try:
            self.send(reply if self.finish is None else self.finish(reply))
        except Exception:
            log.exception("reply lost", request=type(self.request).__name__)
            self.on_no_reply()

    def fail(self, code: ErrorCode, message: str | None = None) -> None:
        if self not in self.waiting:
            return
        try:
            reply = self.failure(self.asked, code, message)
        except Exception:
            log.exception("reply lost", request=type(self.request).__name__, code=code.name)
            self.forget()
            self.on_no_reply()
        else:
            if reply is None:
                self.end_without_reply()
            else:
                self.answer(reply)

    def fail_with(self, error: Exception) -> None:
        """Answer with the code of an ApiError. Any other error is a bug of ours and is logged."""
        if isinstance(error, ApiError):
            self.fail(error.code, error.message)
            return
        log.error("request failed", request=type(self.request).__name__, exc_info=error)
        self.fail(ErrorCode.UNKNOWN_SERVER_ERROR)

    def end_without_reply(self) -> None:
        """Close the connection, because no reply would fit. The client asks again, and asks another
        node if it must."""
        self.forget()
        self.hang_up()

    def forget(self) -> None:
        """The client is gone: a later answer is dropped."""
        if self in self.waiting:
            del self.waiting[self]

    # What becomes of it. Subclasses say so. -----------------------------------------------

    def send(self, reply: Any) -> None:
        """Take the reply message. None: this request has no reply."""
        raise NotImplementedError

    def on_no_reply(self) -> None:
        """There will be no reply, for lack of memory or because of a bug of ours."""

    def hang_up(self) -> None:
        """Close the connection, after the replies to earlier requests: the request has failed, and
        its client expects no reply that could say so."""
        self.on_no_reply()

    # What the client's connection offers. A request of our own has none. ------------------

    def may_repeat(self, validity: StoredReplyValidity) -> None:
        """The next reply may be sent again for the same request while `validity` says so."""

    def block_connection(self) -> None:
        """Start no other request of this client before this one is answered, because it takes long
        and no client may have two such requests under way."""

    def reserve_bytes(self, wanted: int) -> int:
        """Reserve memory for the records of the reply, until the reply is sent. Returns how many
        bytes are reserved, at most `wanted`."""
        return wanted

    def set_reserved_bytes(self, size: int) -> None:
        """Change how many bytes are reserved for the reply."""

    def on_memory_short(self, callback: Callable[[], None] | None) -> None:
        """Call `callback` when other requests wait for the memory that this one has reserved. For a
        request that waits for something that may never come. None takes the callback back."""

    def on_disconnect(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` when the client's connection has ended, at once if it has ended already.
        Returns a function that takes the callback back."""
        return _nothing


class Callback(Waiter):
    """Calls a function with the reply, or calls `lost` if there will be none."""

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

    def on_no_reply(self) -> None:
        if self._lost is not None:
            self._lost()


class Gather:
    """Collects the answers to several questions and makes them one reply to `waiter`.

    `merge(parts)` makes the reply. `parts` has the answers in the order of the questions, in
    whatever order they came. `count`: the number of questions; if it is 0 the reply is made at
    once. If `merge` fails, so does the request. `work_on`: `LongWork.answer`, if `merge` is long
    work that returns the reply.
    """

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
        """Take the answer to question `index`. Called once for each question."""
        self._parts[index] = part
        self._missing -= 1
        if self._missing == 0:
            self._finish()

    def on_no_reply(self) -> None:
        """A question will not be answered: so `waiter` is not answered either."""
        self._waiter.forget()
        self._waiter.on_no_reply()

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

    def __init__(self, request: Any, failure: Failure, gather: Gather, index: int) -> None:
        super().__init__(request, failure)
        self._gather = gather
        self._index = index

    def send(self, reply: Any) -> None:
        self._gather.add(self._index, reply)

    def on_no_reply(self) -> None:
        self._gather.on_no_reply()


Replies = Sequence[tuple[Waiter, Any]]


def answer_all(replies: Iterable[tuple[Waiter, Any]]) -> None:
    for waiter, reply in replies:
        waiter.answer(reply)


def refuse(replies: Iterable[tuple[Waiter, Any]], code: ErrorCode) -> None:
    """Answer each request with `code` instead of its reply."""
    for waiter, _ in replies:
        waiter.fail(code)


def time_out(waiters: Iterable[Waiter]) -> None:
    """Refuse requests for which the log takes too long. Consumers before Kafka 3.9 stop for good
    when an OffsetFetch is answered with COORDINATOR_NOT_AVAILABLE, so it gets NOT_COORDINATOR, as
    in Kafka."""
    for waiter in waiters:
        fetch = isinstance(waiter.asked, OffsetFetchGroup)
        waiter.fail(ErrorCode.NOT_COORDINATOR if fetch else ErrorCode.COORDINATOR_NOT_AVAILABLE)
