"""Stored replies of one connection, found by the bytes of their request.

A settled client repeats its heartbeat byte for byte, except the correlation id. So the request
without that id is the key, and a reply is sent again with the new id in its place, as long as
its lease holds. Host and principal are part of the answer, hence one table per connection.
"""

from __future__ import annotations

from typing import NamedTuple

from coordinator.runtime.clock import Clock
from coordinator.runtime.steady import SteadyReply

ENTRIES_MAX = 1024
"""Members that may share one connection with stored replies; beyond it the table starts anew."""


class StoredReply(NamedTuple):
    """`head`: the length field; `tail`: all behind the correlation id; `api`: key and version."""

    head: bytes
    tail: bytes
    lease: SteadyReply
    api: tuple[int, int]


class SteadyTable:
    """Requests (frames without their length field) and their replies (whole frames)."""

    __slots__ = ("_clock", "_entries")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[bytes, StoredReply] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def put(
        self, request: bytes, reply: bytes | bytearray, lease: SteadyReply, api: tuple[int, int]
    ) -> None:
        if len(self._entries) >= ENTRIES_MAX:
            self._entries.clear()
        self._entries[request[:4] + request[8:]] = StoredReply(
            bytes(reply[:4]), bytes(reply[8:]), lease, api
        )

    def find(self, request: bytes) -> StoredReply | None:
        """The reply that may be repeated now; its lease has been renewed."""
        if not self._entries:
            return None
        key = request[:4] + request[8:]
        stored = self._entries.get(key)
        if stored is None:
            return None
        if stored.lease.renew(self._clock.now().monotonic_ms):
            return stored
        del self._entries[key]
        return None
