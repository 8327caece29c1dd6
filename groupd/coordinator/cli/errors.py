"""Usage errors of the command line: one line on stderr, exit code 2."""

from __future__ import annotations


class UsageError(Exception):
    """`str()` is one line that says what is wrong and how to correct it."""
