"""The errors of the harness, in addition to those of `groupd/coordinator/faults/errors.py`. Each
carries one text."""

from __future__ import annotations

from groupd.coordinator.faults.errors import PUBLIC, RequestRefused
from groupd.protocol.errors import ErrorCode


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
