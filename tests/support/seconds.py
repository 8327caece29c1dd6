"""A clock in seconds that only a test moves."""

from __future__ import annotations


class Seconds:
    """Call it for the time; set `now` to move it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now
