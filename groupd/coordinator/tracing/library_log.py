"""What the OpenTelemetry library logs, as lines of groupd's own log, at a limited rate."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import structlog

log = structlog.get_logger("groupd.tracing")

LIBRARY = "opentelemetry"
"""The loggers of the library have names below this one."""
INTERVAL_S = 60.0


class LibraryLog(logging.Handler):
    """Lets one line pass in `INTERVAL_S`; the next one says how many there were meanwhile. A
    receiver that is down makes several with every try. `elapsed`: a clock in seconds."""

    def __init__(self, elapsed: Callable[[], float] = time.monotonic) -> None:
        super().__init__(logging.WARNING)
        self._elapsed = elapsed
        self._next_s = float("-inf")
        self._left_out = 0
        self._own_lock = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        with self._own_lock:
            now_s = self._elapsed()
            if now_s < self._next_s:
                self._left_out += 1
                return
            self._next_s = now_s + INTERVAL_S
            left_out, self._left_out = self._left_out, 0
        more = {"left_out": left_out} if left_out else {}
        log.warning("traces are not delivered", reason=record.getMessage(), **more)

    def listen(self) -> None:
        logger = logging.getLogger(LIBRARY)
        logger.addHandler(self)
        logger.propagate = False

    def leave(self) -> None:
        logger = logging.getLogger(LIBRARY)
        logger.removeHandler(self)
        logger.propagate = not logger.handlers
