"""The traces of one process: it listens to the events of a broker and sends what is finished.

It listens to events only: heartbeats, of which nothing comes, never pass here.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from groupd.coordinator.config.admin_settings import AdminSettings
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.core.types import Event
from groupd.coordinator.history.rebalance_fold import FOLDED
from groupd.coordinator.tracing.traces import Traces

if TYPE_CHECKING:
    from groupd.coordinator.tracing.otlp import OtlpSpans

log = structlog.get_logger("groupd.tracing")

FLUSH_S = 2.0
"""How long the end of a process waits for traces to go out."""

TRACES_PER_SECOND = 10
"""Most rebalances of a process that begin a trace in one second: after a restart all groups have
one, and a receiver should not drown. The next trace says how many were left out."""

Listeners = list[Callable[[int, Sequence[Event]], None]]


class Tracing:
    """Does nothing if the settings name no endpoint. Raises ConfigError if the packages that it
    takes are not installed. `wall_ns`: a clock, in nanoseconds since the epoch."""

    def __init__(self, settings: AdminSettings, wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._settings = settings
        self._wall_ns = wall_ns
        self._enabled = bool(settings.otel_traces_endpoint) and not _disabled()
        self._spans: OtlpSpans | None = None
        self._traces: Traces
        if self._enabled:
            _check_packages()

    def follow(self, listeners: Listeners, node_id: int) -> None:
        """Listen from now on. `listeners`: those of the broker. Raises ConfigError."""
        if not self._enabled:
            return
        from groupd.coordinator.tracing.otlp import OtlpSpans

        try:
            self._spans = OtlpSpans(self._settings, node_id)
        except Exception as error:  # the library's own settings, in the environment
            raise ConfigError(f"OpenTelemetry cannot be started: {error}") from error
        self._traces = Traces(TRACES_PER_SECOND)
        listeners.append(self._on_events)

    def _on_events(self, partition: int, events: Sequence[Event]) -> None:
        # Commits, which are most of all events, end here.
        if self._spans is None or not any(event.kind in FOLDED for event in events):
            return
        try:
            for ended in self._traces.take(events, self._wall_ns()):
                self._spans.send(ended, self._traces.left_out())
        except Exception:
            log.exception("a trace failed", shard=partition)

    async def stop(self) -> None:
        """Send what is left, within `FLUSH_S`. There are no more events."""
        spans, self._spans = self._spans, None
        if spans is None:
            return
        for ended in self._traces.stop(self._wall_ns()):
            spans.send(ended, self._traces.left_out())
        sent = asyncio.Event()
        loop = asyncio.get_running_loop()

        def flush() -> None:
            spans.stop()
            with suppress(RuntimeError):  # nobody waits any more: the loop is closed
                loop.call_soon_threadsafe(sent.set)

        # A thread of its own, which nothing waits for at the end of the process.
        threading.Thread(target=flush, name="groupd-traces", daemon=True).start()
        try:
            async with asyncio.timeout(FLUSH_S):
                await sent.wait()
        except TimeoutError:
            log.warning("traces are lost: the receiver has not taken them in time")
            spans.cut()
        finally:
            spans.leave()


def _disabled() -> bool:
    """Whether the environment switches OpenTelemetry off, by its own variable."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _check_packages() -> None:
    """Raises ConfigError."""
    try:
        import groupd.coordinator.tracing.otlp  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"groupd.otel.traces.endpoint: OpenTelemetry is not installed ({error.name}); "
            "run: pip install 'groupd[otel]'"
        ) from error
