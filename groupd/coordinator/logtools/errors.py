"""The error that stops a log tool."""

from __future__ import annotations


class LogToolError(Exception):
    """`str()` is one line that says what is wrong and how to correct it."""
