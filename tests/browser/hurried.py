"""A daemon whose first hour takes a minute, so that its pages have a past: `python -m
tests.browser.hurried DIRECTORY`.

Its clock begins an hour ago and runs sixty times as fast until it has caught up with the real time.
With `--pages` behind the directory only pages and rounds over the lag hurry, and go on to do so;
sessions are as long as they always are.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import structlog

from groupd.coordinator.config.coordinator_config import CoordinatorConfig, with_settings
from groupd.coordinator.core.types import Instant
from groupd.coordinator.daemon import admin_port as daemon_admin
from groupd.coordinator.daemon.daemon import Daemon
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.coordinator.runtime.clock import SystemClock, TimerHandle
from groupd.testing.clock import ControlledClock

FACTOR = 60
HURRY_S = 60
TOPICS = {"clicks": 8, "emails": 4, "orders": 12, "payments": 6}
SETTINGS = {
    "group.consumer.max.session.timeout.ms": "120000",
    "group.consumer.session.timeout.ms": "120000",
    # Clients count in real time: twelve seconds of the first hour.
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.max.session.timeout.ms": "120000",
    "group.share.session.timeout.ms": "120000",
    "group.share.min.heartbeat.interval.ms": "100",
    "group.share.heartbeat.interval.ms": "200",
    "group.share.record.lock.duration.ms": "60000",
}


class CatchingUp:
    """A `Clock`. `catch_up` has it go on as real time does."""

    def __init__(self) -> None:
        self._clock = ControlledClock(FACTOR)
        self._back_ms = (FACTOR - 1) * HURRY_S * 1000

    def now(self) -> Instant:
        now = self._clock.now()
        return Instant(now.monotonic_ms, now.wall_ms - self._back_ms)

    def monotonic_ms(self) -> int:
        return self._clock.monotonic_ms()

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> TimerHandle:
        return self._clock.call_at(monotonic_ms, callback)

    def catch_up(self) -> None:
        self._clock.set_mode("real")
        self._back_ms = self._clock.now().wall_ms - time.time_ns() // 1_000_000


async def serve(directory: Path, *, only_pages: bool) -> None:
    """Until the process is killed."""
    errors = structlog.make_filtering_bound_logger(logging.ERROR)
    structlog.configure(
        wrapper_class=errors, logger_factory=structlog.PrintLoggerFactory(sys.stderr)
    )
    clock = ControlledClock(FACTOR) if only_pages else CatchingUp()
    options = DaemonOptions(
        listen=("127.0.0.1", 0),
        admin=("127.0.0.1", 0),
        data_dir=directory,
        topics=tuple(TOPICS.items()),
        config=with_settings(CoordinatorConfig(), SETTINGS),
    )
    daemon = Daemon(options, SystemClock() if only_pages else clock)
    # The rounds over the lag, and the pages, go by real time.
    with patch.object(daemon_admin, "SystemClock", lambda: clock):
        await daemon.start()
    if isinstance(clock, CatchingUp):
        asyncio.get_running_loop().call_later(HURRY_S, clock.catch_up)
    (kafka, admin) = daemon.kafka_address[1], daemon.admin_address[1]
    print(f"groupd ready kafka=127.0.0.1:{kafka} admin=127.0.0.1:{admin}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), only_pages="--pages" in sys.argv))
