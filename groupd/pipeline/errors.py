"""Errors that the person at the terminal can correct."""

from __future__ import annotations


class PipelineError(Exception):
    """`str()` is one line that says what is wrong and how to correct it."""


class JobFailed(Exception):
    """A job failed, or this installation cannot do it; `str()` is one line."""
