"""One timer that is moved often and rarely fires."""

from __future__ import annotations

from collections.abc import Callable

from groupd.coordinator.runtime.clock import Clock, TimerHandle


class Alarm:
    """Calls `ring()` once the time has come; it is off while `ring` runs and may be set there."""

    __slots__ = ("_at_ms", "_clock", "_handle", "_ring")

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._at_ms = 0
        self._handle: TimerHandle | None = None

    @property
    def at_ms(self) -> int | None:
        """When it rings; None while it is off."""
        return None if self._handle is None else self._at_ms

    def at_latest(self, monotonic_ms: int) -> None:
        """Ring at `monotonic_ms` or before: a time that is set and earlier stays."""
        if self._handle is not None:
            if self._at_ms <= monotonic_ms:
                return
            self._handle.cancel()
        self._at_ms = monotonic_ms
        self._handle = self._clock.call_at(monotonic_ms, self._fire)

    def cancel(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _fire(self) -> None:
        self._handle = None
        self._ring()
