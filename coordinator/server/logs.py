"""Logging through structlog: key=value text or JSON lines, on stderr."""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog


def configure_logging(log_format: str, level: str, **always: Any) -> None:
    """`log_format`: "text" or "json"; `level`: a name of the logging module, any case. `always`:
    what every line of this process says."""

    def add_always(
        _: structlog.typing.WrappedLogger, __: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        return {**event, **always}

    renderer: structlog.typing.Processor
    if log_format == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.processors.KeyValueRenderer(
            key_order=["timestamp", "level", "event"], drop_missing=True
        )
    structlog.configure(
        processors=[
            *([add_always] if always else []),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
