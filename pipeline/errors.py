"""What goes wrong in a way that the person at the terminal can mend."""

from __future__ import annotations


class PipelineError(Exception):
    """`str()` is one line that says what and how to mend it."""


class JobFailed(Exception):
    """A job that was started and did not end well; `str()` is one line."""
