"""Replies that may be sent again without handling the request (design: bytes to bytes).

A lease of the core says that the state has not moved; this adds what the core cannot see: the
shard is the one that gave it and serves, and nothing of the group waits for the log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class SteadyReply(Protocol):
    """What a connection keeps beside the bytes of a reply."""

    def renew(self, now_ms: int) -> bool:
        """The same request came again: True = send the same reply."""
        ...


class ShardLease:
    """A core lease, bound to the shard that gave it. `holds()` is the shard's side."""

    __slots__ = ("_holds", "_renew")

    def __init__(self, holds: Callable[[], bool], renew: Callable[[int], bool]) -> None:
        self._holds = holds
        self._renew = renew

    def renew(self, now_ms: int) -> bool:
        return self._holds() and self._renew(now_ms)
