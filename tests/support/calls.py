"""Counts calls, where a test wants to know how long something takes."""

from __future__ import annotations

import sys
from collections.abc import Generator
from typing import Any


def most_calls_of_a_step(steps: Generator[None, None, Any]) -> int:
    """Run `steps` to the end; the largest number of calls, of Python and C, from one yield to the
    next."""
    most = count = 0

    def called(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    while True:
        count = 0
        sys.setprofile(called)
        try:
            next(steps)
        except StopIteration:
            return max(most, count)
        finally:
            sys.setprofile(None)
        most = max(most, count)
