"""The errors of faults and of the test harness: they were asked for something that cannot be done,
a wait ran out of time, or the coordinator has broken a promise.

Each carries one text, so that it can be sent between processes.
"""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode

PUBLIC = "groupd.testing"
"""The module from which tests import these errors. pytest shows it in front of the name, and has
little room."""


class HarnessError(Exception):
    """The harness was used in a way that cannot work, or its broker is gone."""

    __module__ = PUBLIC


class WrongType(HarnessError, TypeError):
    """An argument is missing, is one too many, or has the wrong type; `str()` names it."""

    __module__ = PUBLIC


class NotFound(HarnessError):
    """A topic, a fault or the like does not exist."""

    __module__ = PUBLIC


class RequestRefused(HarnessError):
    """The broker answered a request of the harness with an error; `str()` starts with its name."""

    __module__ = PUBLIC


class WaitTimeout(AssertionError):
    """A wait ran out of time. `str()` says what was waited for, what the state is, and what blocks
    it."""

    __module__ = PUBLIC


class InvariantViolation(AssertionError):
    """The coordinator broke one of its promises; `str()` holds the trace."""

    __module__ = PUBLIC


def check_code(what: str, code: ErrorCode, message: str | None) -> None:
    """Raises RequestRefused if `code` is an error."""
    if code is not ErrorCode.NONE:
        raise RequestRefused(f"{code.name}: {what}" + (f": {message}" if message else ""))
