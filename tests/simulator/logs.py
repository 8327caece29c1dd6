"""The broker's log while it is simulated: nothing is printed, unexpected errors are kept."""

from __future__ import annotations

import structlog

from tests.simulator.process import LogCapture

_capture = LogCapture()


def captured_log() -> LogCapture:
    """The captured log, empty for a new run; from here on the process-wide log goes there."""
    structlog.configure(
        processors=[_capture],
        wrapper_class=structlog.make_filtering_bound_logger(30),
        cache_logger_on_first_use=False,
    )
    _capture.errors.clear()
    return _capture
