"""Logging through structlog on stderr: text for people, or JSON lines for programs.

A line of text has time, level and event, then `name=value` pairs (logfmt). Values are written for
people (`coordinator.plain_text`). A traceback follows on lines of its own. `log_limits` limits the
length and the number of lines.
"""

from __future__ import annotations

import asyncio
import io
import logging
import os
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any, TextIO, cast

import structlog
from msgspec import Struct

from groupd.coordinator.log_limits import bounded, limit_lines
from groupd.coordinator.plain_text import fields_text
from groupd.protocol.messages.secret import Secret

log = structlog.get_logger("groupd.loop")

_FIRST = ("timestamp", "level", "event")


def configure_logging(log_format: str, level: str) -> None:
    """Set up logging for the process. `log_format`: "text" or "json". `level`: a level name of the
    logging module, in any case."""
    renderer: structlog.typing.Processor = _text
    if log_format == "json":
        renderer = structlog.processors.JSONRenderer(default=_plain_json)
    structlog.configure(
        processors=[
            limit_lines(),
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            bounded,
            renderer,
        ],
        wrapper_class=_unfailing(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(lasting(sys.stderr)),
        cache_logger_on_first_use=True,
    )


def _unfailing(level: int) -> type:
    """A logger class whose methods never raise. A line that cannot be written, because memory or
    the disk is full, is lost, but the request that it belongs to goes on."""
    base: Any = structlog.make_filtering_bound_logger(level)

    class Unfailing(base):  # type: ignore[misc] # made at run time
        def _proxy_to_logger(self, method: str, event: str | None = None, **facts: Any) -> Any:
            with suppress(Exception):
                return super()._proxy_to_logger(method, event, **facts)

    return Unfailing


def log_loop_errors(loop: asyncio.AbstractEventLoop) -> None:
    """Log errors in callbacks of the loop like other errors."""

    def report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        log.error("callback failed", what=context["message"], exc_info=context.get("exception"))

    loop.set_exception_handler(report)


def lasting(stream: TextIO) -> TextIO:
    """Wrap `stream` so that writing never fails after its reader has gone: the process that started
    a daemon may close the pipes before the daemon ends."""
    return cast(TextIO, _Lasting(stream))


class _Lasting(io.TextIOBase):
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._try(lambda: self._stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, act: Callable[[], object]) -> None:
        try:
            act()
        except BrokenPipeError:
            # Python also writes the rest of the stream's buffer at the end of the process.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)


def _text(_: structlog.typing.WrappedLogger, __: str, event: structlog.typing.EventDict) -> str:
    traceback = event.pop("exception", None)
    ordered = {name: event.pop(name) for name in _FIRST if name in event}
    line = fields_text({**ordered, **event})
    return line if traceback is None else f"{line}\n{traceback}"


def _plain_json(value: object) -> object:
    """Converts a value that JSON cannot hold."""
    match value:
        case Enum():
            return value.value
        case Secret():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return bytes(value).hex()
        case type():
            return value.__name__
        case Mapping():
            return dict(value)
        case Collection():
            return list(value)
    if isinstance(value, Struct):
        return {name: getattr(value, name) for name in value.__struct_fields__}
    return str(value)


def log_through_stdlib() -> None:
    """Send the broker's log to the loggers `groupd.*` of `logging`, where pytest captures it. If
    the program has configured structlog itself, its configuration stays. The number of lines is not
    limited, because each test sees its own lines."""
    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            bounded,
            structlog.processors.KeyValueRenderer(key_order=["event"]),
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
