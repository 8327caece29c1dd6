"""What the harness raises. Each carries one text, so that it survives the way between processes."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode


class HarnessError(Exception):
    """The harness was used in a way that cannot work, or its broker is gone."""


class WrongType(HarnessError, TypeError):
    """An argument that is missing, too much, or of the wrong type; `str()` names it."""


class NotFound(HarnessError):
    """A topic, fault or the like that is not there."""


class RequestRefused(HarnessError):
    """The broker answered a request of the harness with an error; `str()` starts with its name."""


class WaitTimeout(AssertionError):
    """A wait ran out of time; `str()` says what was waited for, what is, and what blocks."""


class InvariantViolation(AssertionError):
    """The coordinator broke one of its promises; `str()` holds the trace."""


def check_code(what: str, code: ErrorCode, message: str | None) -> None:
    """Raises RequestRefused for a reply that carries an error."""
    if code is not ErrorCode.NONE:
        raise RequestRefused(f"{code.name}: {what}" + (f": {message}" if message else ""))
