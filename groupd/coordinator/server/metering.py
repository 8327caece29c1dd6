"""Counts how much requests use of the quotas of their clients, and makes clients wait
(docs/spec/security.md#5.1).

A reply leaves at once and says how long its client is to wait (KIP-219). For this time the
connection is muted: it is not read, and requests that have arrived are not started. A new
connection also waits for the rest of the time that its client was told on another one (`owed_ms`).
So a client that does not wait by itself, or connects again, gains nothing.

Waiting times run by the broker's clock, so a test that stops it also stops the waiting. How long a
request has been worked on is measured by another clock, `elapsed_ns`, which stands still in
recordings.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any

from groupd.coordinator.runtime.clock import Clock, SystemClock, TimerHandle, elapsed_ns
from groupd.coordinator.security.quota_entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
)
from groupd.coordinator.security.quotas import ClientQuotas, Limit, Quotas
from groupd.protocol.messages.data import FetchReply
from groupd.protocol.messages.share_fetch import ShareFetchReply
from groupd.protocol.messages.throttled import Throttled
from groupd.protocol.wire.api.fetch import FETCH
from groupd.protocol.wire.api.produce import PRODUCE
from groupd.protocol.wire.api.topics import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS
from groupd.protocol.wire.api.transactions import ADD_PARTITIONS_TO_TXN, WRITE_TXN_MARKERS
from groupd.protocol.wire.header import RequestHeader

_BETWEEN_BROKERS = ((WRITE_TXN_MARKERS.key, 0), (ADD_PARTITIONS_TO_TXN.key, 4))
"""The keys of APIs that only brokers use, each with the version from which on that is so. They cost
clients no time."""

_FETCHED = (FetchReply, ShareFetchReply)
"""Types of replies with records: their bytes count."""

_MUTATIONS = (CREATE_TOPICS.key, DELETE_TOPICS.key, CREATE_PARTITIONS.key)


class Metering:
    """Counts how much the connections of a process use of their quotas. `clock`: the broker's."""

    __slots__ = ("clock", "elapsed_ns", "quotas")

    def __init__(self, quotas: Quotas, clock: Clock, elapsed_ns: Callable[[], int]) -> None:
        self.quotas = quotas
        self.clock = clock
        self.elapsed_ns = elapsed_ns

    def of(self, principal: str, header: RequestHeader, size: int) -> RequestMeter | None:
        """The meter of a request of `size` bytes that begins now; None if its client has no
        quota."""
        limits = self.quotas.of(principal, header.client_id or "")
        return None if limits is None else RequestMeter(self, limits, header, size)

    def owed_ms(self, principal: str, header: RequestHeader, asked: set[Limit]) -> int:
        """How long the client of a new connection has to wait before this request is taken, in ms.
        Each quota is asked once and is then in `asked`: for its own later uses the connection gets
        its own waiting times. So other clients of the same quota cannot keep it waiting."""
        limits = self.quotas.of(principal, header.client_id or "")
        if limits is None:
            return 0
        key = header.api_key
        new = {
            limit
            for limit, counts in (
                (limits.produce, key == PRODUCE.key),
                (limits.fetch, key == FETCH.key),
                (limits.mutation, key in _MUTATIONS),
                (limits.request, not between_brokers(header)),
            )
            if limit is not None and counts and limit not in asked
        }
        asked |= new
        return max(map(self.quotas.owed_ms, new), default=0)


class RequestMeter:
    """Counts how much one request uses."""

    __slots__ = ("_header", "_limits", "_metering", "_since_ns", "_size", "_used_ns")

    def __init__(
        self, metering: Metering, limits: ClientQuotas, header: RequestHeader, size: int
    ) -> None:
        self._metering = metering
        self._limits = limits
        self._header = header
        self._size = size
        self._used_ns = 0
        self._since_ns: int | None = None
        self.start()

    @property
    def counts_requests(self) -> bool:
        """Whether each single request counts, so that none may be answered with a stored reply."""
        return self._limits.request is not None

    def start(self) -> None:
        """Starts to count the time of the work on the request."""
        self._since_ns = self._metering.elapsed_ns()

    def stop(self) -> None:
        """Stops counting until the next `start`: the request is not worked on for a while."""
        if self._since_ns is not None:
            self._used_ns += self._metering.elapsed_ns() - self._since_ns
            self._since_ns = None

    @coroutine
    def timed(self, work: Coroutine[Any, Any, None]) -> Generator[Any, Any, None]:
        """Runs `work` and counts the time that its steps take."""
        go: Callable[[Any], Any] = work.send
        argument: Any = None
        while True:
            self.start()
            try:
                waits_for = go(argument)
            except StopIteration:
                return
            finally:
                self.stop()
            try:
                go, argument = work.send, (yield waits_for)
            except BaseException as error:  # noqa: BLE001 - raised where `work` waits
                go, argument = work.throw, error

    def settle(self, reply: Any) -> int:
        """Counts the request, which is about to be answered with `reply`; None: it has no reply.
        Returns how long its client has to wait, in ms: the longest wait of its quotas."""
        quotas, limits = self._metering.quotas, self._limits
        waits: list[tuple[int, str, Limit | None]] = []
        if isinstance(reply, Throttled):
            fetched = isinstance(reply, _FETCHED)
            quota = CONSUMER_BYTE_RATE if fetched else CONTROLLER_MUTATION_RATE
            limit = limits.fetch if fetched else limits.mutation
            waits.append((reply.throttle_ms, quota, limit))
        if limits.produce is not None and self._header.api_key == PRODUCE.key:
            wait_ms = quotas.produced(limits.produce, self._size)
            waits.append((wait_ms, PRODUCER_BYTE_RATE, limits.produce))
        if limits.request is not None and reply is not None and not between_brokers(self._header):
            working = self._since_ns is not None
            self.stop()
            wait_ms = quotas.worked(limits.request, self._used_ns)
            waits.append((wait_ms, REQUEST_PERCENTAGE, limits.request))
            self._used_ns = 0
            if working:
                self.start()
        for wait_ms, _, limit in waits:
            if wait_ms and limit is not None:
                quotas.owes(limit, wait_ms)
        throttle_ms, quota, _ = max(waits, default=(0, "", None), key=lambda wait: wait[:2])
        if throttle_ms:
            quotas.count(quota, throttle_ms)
        return throttle_ms

    def framed(self, reply: Any, size: int) -> None:
        """Counts the `size` bytes of a reply to a Fetch or ShareFetch that was not refused. The
        bytes of its records have been counted already."""
        limit = self._limits.fetch
        if limit is not None and isinstance(reply, _FETCHED) and not reply.throttle_ms:
            self._metering.quotas.sent(limit, size - reply.counted)


def between_brokers(header: RequestHeader) -> bool:
    """Whether only brokers send requests of this API and version."""
    return any(
        header.api_key == key and header.api_version >= since for key, since in _BETWEEN_BROKERS
    )


class Mute:
    """The time for which a connection is muted. `end()` is called when the time is over."""

    __slots__ = ("_clock", "_end", "_timer", "_until_ms")

    def __init__(self, clock: Clock, end: Callable[[], None]) -> None:
        self._clock = clock
        self._end = end
        self._until_ms = 0
        self._timer: TimerHandle | None = None

    def for_ms(self, throttle_ms: int) -> None:
        """Mutes the connection from now on for at least `throttle_ms`."""
        self._until_ms = max(self._until_ms, self._clock.monotonic_ms() + throttle_ms)
        if self._timer is None:
            self._timer = self._clock.call_at(self._until_ms, self._ring)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._end = _nothing

    def _ring(self) -> None:
        self._timer = None
        if self._clock.monotonic_ms() < self._until_ms:
            self._timer = self._clock.call_at(self._until_ms, self._ring)
        else:
            self._end()


def _nothing() -> None:
    """Stands in for `end` once the connection has ended."""


UNMETERED = Metering(Quotas(lambda: 0), SystemClock(), elapsed_ns)
"""A metering without quotas, which counts nothing."""
