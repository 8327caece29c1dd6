"""The handle for a share group, as tests use it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate

from groupd.testing.calls import Call, P, R, SpellingHints, blocking
from groupd.testing.operations import Operations

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""


def _of_group(
    operation: Callable[Concatenate[Any, str, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[ShareHandle, P], R]:
    """Makes a plain method from an operation whose first argument is the group."""
    run = blocking(operation)

    @wraps(operation)
    def call(self: ShareHandle, /, *args: P.args, **options: P.kwargs) -> R:
        return run(self, self.group, *args, **options)

    return call


class ShareHandle(SpellingHints):
    """`groupd.share("workers")`: the records of a share group. docs/testing.md#share-groups has the
    rules.

    >>> groupd.share("workers")
    <Share group workers>
    """

    def __init__(self, call: Call, group: str) -> None:
        self._call = call
        self.group = group

    def __repr__(self) -> str:
        return f"<Share group {self.group}>"

    # The operations. Their docstrings are in `ShareOperations`

    configure = _of_group(Operations.configure_share)
    records = _of_group(Operations.share_records)
    record = _of_group(Operations.share_record)
    start_offsets = _of_group(Operations.share_start_offsets)
    lag = _of_group(Operations.share_lag)
    wait_acquired = _of_group(Operations.wait_share_acquired)
    wait_acknowledged = _of_group(Operations.wait_share_acknowledged)
    wait_released = _of_group(Operations.wait_share_released)
    wait_archived = _of_group(Operations.wait_share_archived)
