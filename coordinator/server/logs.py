"""Logging through structlog on stderr: text for people, or JSON lines for programs.

A line of text is `name=value` pairs (logfmt), first time, level and what happened; values are as
people write them (`coordinator.plain_text`). A traceback follows on lines of its own.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import structlog

from coordinator.plain_text import fields_text

_FIRST = ("timestamp", "level", "event")


def configure_logging(log_format: str, level: str, **always: Any) -> None:
    """`log_format`: "text" or "json"; `level`: a name of the logging module, any case. `always`:
    what every line of this process says."""

    def add_always(
        _: structlog.typing.WrappedLogger, __: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        return {**event, **always}

    renderer: structlog.typing.Processor = _text
    if log_format == "json":
        renderer = structlog.processors.JSONRenderer(default=_plain_json)
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


def _text(_: structlog.typing.WrappedLogger, __: str, event: structlog.typing.EventDict) -> str:
    traceback = event.pop("exception", None)
    ordered = {name: event.pop(name) for name in _FIRST if name in event}
    line = fields_text({**ordered, **event})
    return line if traceback is None else f"{line}\n{traceback}"


def _plain_json(value: object) -> object:
    """What JSON has no form for."""
    match value:
        case Enum():
            return value.value
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case type():
            return value.__name__
        case Mapping():
            return dict(value)
        case Collection():
            return list(value)
    if is_dataclass(value):
        return {entry.name: getattr(value, entry.name) for entry in fields(value)}
    return str(value)
