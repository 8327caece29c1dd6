"""Requests that wait for their answer, by token.

A token is taken when a request enters and answered exactly once. An answer for an unknown token
(the connection is gone) is dropped. Whoever answers has other work to finish (other replies of
the same batch, the writer's loop), so a receiver that fails is logged and never heard of there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import structlog
from msgspec import Struct

from groupd.coordinator.core.types import RequestToken
from groupd.coordinator.runtime.steady import SteadyReply
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import OffsetFetchGroup

log = structlog.get_logger("groupd.broker")

Resolve = Callable[[Any], None]
"""Takes the reply message; None = this request has no reply."""

Failure = Callable[[Any, ErrorCode, "str | None"], Any]
"""(request, code, message) -> the reply that carries the error."""


class Waiter(Struct):
    """One unanswered request. `on_steady` hears before the answer that it may be repeated
    (see `WaitingRequests.steady`)."""

    request: Any
    failure: Failure
    resolve: Resolve
    on_steady: Callable[[SteadyReply], None] | None = None


class WaitingRequests:
    """Token -> waiter."""

    __slots__ = ("_next", "_waiters")

    def __init__(self) -> None:
        self._next = 0
        self._waiters: dict[RequestToken, Waiter] = {}

    def __len__(self) -> int:
        return len(self._waiters)

    def add(self, waiter: Waiter) -> RequestToken:
        token = self._next
        self._next += 1
        self._waiters[token] = waiter
        return token

    def failure_of(self, token: RequestToken) -> Failure:
        """The failure function of a request that still waits."""
        return self._waiters[token].failure

    def refusal(self, token: RequestToken, code: ErrorCode, message: str | None = None) -> Any:
        """The reply that would refuse the request, for `answer`; None if nobody waits."""
        waiter = self._waiters.get(token)
        return None if waiter is None else waiter.failure(waiter.request, code, message)

    def answer(self, token: RequestToken, reply: Any) -> None:
        waiter = self._waiters.pop(token, None)
        if waiter is None:
            return
        try:
            waiter.resolve(reply)
        except Exception:
            log.exception("reply lost", request=type(waiter.request).__name__)

    def fail(self, token: RequestToken, code: ErrorCode, message: str | None = None) -> None:
        waiter = self._waiters.pop(token, None)
        if waiter is None:
            return
        try:
            waiter.resolve(waiter.failure(waiter.request, code, message))
        except Exception:
            log.exception("reply lost", request=type(waiter.request).__name__, code=code.name)

    def fail_all(self, code: ErrorCode) -> None:
        """Refuse whoever still waits, oldest first."""
        for token in list(self._waiters):
            self.fail(token, code)

    def answer_all(self, replies: Iterable[tuple[RequestToken, Any]]) -> None:
        for token, reply in replies:
            self.answer(token, reply)

    def refuse(self, replies: Iterable[tuple[RequestToken, Any]], code: ErrorCode) -> None:
        """`code` instead of the replies that were meant."""
        for token, _ in replies:
            self.fail(token, code)

    def time_out(self, replies: Iterable[tuple[RequestToken, Any]]) -> None:
        """The log takes too long. Older consumers stop at COORDINATOR_NOT_AVAILABLE when they fetch
        offsets (Kafka 3.9 taught them), so these get NOT_COORDINATOR, as in Kafka."""
        for token, _ in replies:
            waiter = self._waiters.get(token)
            fetch = waiter is not None and isinstance(waiter.request, OffsetFetchGroup)
            code = ErrorCode.NOT_COORDINATOR if fetch else ErrorCode.COORDINATOR_NOT_AVAILABLE
            self.fail(token, code)

    def steady(self, token: RequestToken, lease: SteadyReply) -> None:
        """The answer that is about to come may be repeated while `lease` holds."""
        waiter = self._waiters.get(token)
        if waiter is not None and waiter.on_steady is not None:
            waiter.on_steady(lease)

    def forget(self, token: RequestToken) -> None:
        """The asker is gone; a later answer is dropped."""
        self._waiters.pop(token, None)
