"""The traces of one process: follows the events of a broker and sends each rebalance that has
ended. Heartbeats without an effect cause no event, so they cost nothing here."""

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
"""How long the stop of a process waits until traces are sent."""

TRACES_PER_SECOND = 10
"""How many rebalances of a process may begin a trace in one second. After a restart all groups
rebalance, which should not flood a receiver. The next trace says how many were left out."""

Listeners = list[Callable[[int, Sequence[Event]], None]]


class Tracing:
    """Sends traces; does nothing if the settings name no endpoint. Raises ConfigError if the
    packages that it needs are not installed. `wall_ns`: a clock, in nanoseconds since the epoch."""

    def __init__(self, settings: AdminSettings, wall_ns: Callable[[], int] = time.time_ns) -> None:
        self._settings = settings
        self._wall_ns = wall_ns
        self._enabled = bool(settings.otel_traces_endpoint) and not _disabled()
        self._spans: OtlpSpans | None = None
        self._traces: Traces
        if self._enabled:
            _check_packages()

    def follow(self, listeners: Listeners, node_id: int) -> None:
        """Add a listener to `listeners` of the broker. Raises ConfigError."""
        if not self._enabled:
            return
        from groupd.coordinator.tracing.otlp import OtlpSpans

        try:
            self._spans = OtlpSpans(self._settings, node_id)
        except Exception as error:  # caused by the library's own settings in the environment
            raise ConfigError(f"OpenTelemetry cannot be started: {error}") from error
        self._traces = Traces(TRACES_PER_SECOND)
        listeners.append(self._on_events)

    def _on_events(self, partition: int, events: Sequence[Event]) -> None:
        # Most events are commits, and they need no more work than this.
        if self._spans is None or not any(event.kind in FOLDED for event in events):
            return
        try:
            for ended in self._traces.take(events, self._wall_ns()):
                self._spans.send(ended, self._traces.left_out())
        except Exception:
            log.exception("a trace failed", shard=partition)

    async def stop(self) -> None:
        """Send what is left, within `FLUSH_S`. No more events may come."""
        spans, self._spans = self._spans, None
        if spans is None:
            return
        for ended in self._traces.stop(self._wall_ns()):
            spans.send(ended, self._traces.left_out())
        sent = asyncio.Event()
        loop = asyncio.get_running_loop()

        def flush() -> None:
            spans.stop()
            with suppress(RuntimeError):  # the loop is closed, so nothing waits any more
                loop.call_soon_threadsafe(sent.set)

        # A daemon thread, so that the end of the process does not wait for it.
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
    """Whether the environment switches OpenTelemetry off, with OpenTelemetry's own variable."""
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def _check_packages() -> None:
    """Raises ConfigError if OpenTelemetry is not installed."""
    try:
        import groupd.coordinator.tracing.otlp  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"groupd.otel.traces.endpoint: OpenTelemetry is not installed ({error.name}); "
            "run: pip install 'groupd[otel]'"
        ) from error
