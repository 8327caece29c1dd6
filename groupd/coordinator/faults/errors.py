"""The errors of faults, and of the test harness, when they are asked for something that cannot be
done.

Each carries one text, so that it can be sent between processes.
"""

from __future__ import annotations

PUBLIC = "groupd.testing"
"""Where tests import them from. pytest shows it in front of the name, and has little room."""


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
