"""How quotas count: rates over windows of time, and buckets of tokens (docs/spec/security.md#5.1).

Both are Kafka's, so that the same traffic is slowed down as much as there. Times are milliseconds,
and the caller says what time it is.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct


class Windows(Struct, frozen=True):
    """`count` samples of `size_ms` make up a rate. The defaults are Kafka's, for all quotas."""

    count: int = 11
    size_ms: int = 1000

    @property
    def burst_ms(self) -> int:
        """What arrives at once counts as if it had come in this time."""
        return (self.count - 1) * self.size_ms


class _Sample(Struct):
    """The sum of what was counted in one window, from `start_ms` to `last_ms`."""

    start_ms: int
    last_ms: int
    total: float = 0.0


class Rate:
    """An amount per second."""

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque()

    def add(self, amount: float, now_ms: int) -> None:
        """A negative amount takes back what was added before."""
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._windows.size_ms:
            samples.append(_Sample(now_ms, now_ms))
            if len(samples) > self._windows.count + 1:
                samples.popleft()
        samples[-1].total += amount
        samples[-1].last_ms = now_ms

    def total(self, now_ms: int) -> float:
        """The sum of the samples that still count."""
        samples = self._samples
        age_ms = self._windows.count * self._windows.size_ms
        while samples and now_ms - samples[0].last_ms >= age_ms:
            samples.popleft()
        return sum(sample.total for sample in samples)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long the client has to be quiet, so that the rate falls to `bound`; 0 if it is not
        above it."""
        total, span_ms = self.total(now_ms), self._span_ms(now_ms)
        rate = total * 1000 / span_ms
        return round((rate - bound) / bound * span_ms) if rate > bound else 0

    def _span_ms(self, now_ms: int) -> int:
        """The time that the samples stand for: all windows but the last in full, and the part of
        the last that is over."""
        span_ms = now_ms - self._samples[0].start_ms if self._samples else 0
        missing = self._windows.count - 1 - span_ms // self._windows.size_ms
        return max(1, span_ms + max(0, missing) * self._windows.size_ms)


class TokenBucket:
    """Tokens come back at the rate of the quota, as many as fit in. More may be taken than there
    are; then the next one has to wait until none is owed."""

    __slots__ = ("_at_ms", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None
        self._at_ms = 0

    def take(self, amount: float, bound: float, now_ms: int) -> None:
        self._tokens = self._left(bound, now_ms) - amount
        self._at_ms = now_ms

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """The time until no token is owed."""
        return max(0, round(-self._left(bound, now_ms) / bound * 1000))

    def _left(self, bound: float, now_ms: int) -> float:
        most = self._windows.count * self._windows.size_ms / 1000 * bound
        if self._tokens is None:
            return most
        return min(most, self._tokens + bound * (now_ms - self._at_ms) / 1000)
