"""Stored replies of one connection, found by the bytes of their request.

A settled client repeats its heartbeat byte for byte, except the correlation id. So the request
without that id is the key, and a reply is sent again with the new id in its place, as long as
its lease holds. Host and principal are part of the answer, hence one table per connection.

Frames are meant without their length field, `data` is what a socket gave.
"""

from __future__ import annotations

from coordinator.runtime.clock import Clock
from coordinator.runtime.steady import SteadyReply
from coordinator.server.connection_stats import ConnectionStats

ENTRIES_MAX = 1024
"""Members that may share one connection with stored replies; beyond it the table starts anew."""

REPEATED_BYTES_MAX = 16 * 1024
"""More at once is not looked at as one: nobody has so many heartbeats under way."""

_CORRELATION_ID = range(8, 12)
"""In a request behind its length field; in a reply four bytes earlier."""


class StoredReply:
    """`start`: of the request, up to the correlation id; `head`: the reply's length field; `tail`:
    all behind the correlation id; `api`: key and version."""

    __slots__ = ("api", "head", "lease", "rest", "start", "tail")

    def __init__(
        self, request: bytes, reply: bytes | bytearray, lease: SteadyReply, api: tuple[int, int]
    ) -> None:
        self.start = len(request).to_bytes(4, "big") + request[:4]
        self.rest = request[8:]
        self.head = bytes(reply[:4])
        self.tail = bytes(reply[8:])
        self.lease = lease
        self.api = api


class SteadyTable:
    """Requests and their replies. `clock`: what sessions go by."""

    __slots__ = ("_entries", "_now_ms", "_stats")

    def __init__(self, clock: Clock, stats: ConnectionStats) -> None:
        self._now_ms = clock.monotonic_ms
        self._stats = stats
        self._entries: dict[bytes, StoredReply] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def put(
        self, request: bytes, reply: bytes | bytearray, lease: SteadyReply, api: tuple[int, int]
    ) -> None:
        if len(self._entries) >= ENTRIES_MAX:
            self._entries.clear()
        stored = StoredReply(request, reply, lease, api)
        self._entries[stored.rest] = stored

    def find(self, request: bytes) -> StoredReply | None:
        """The reply that may be repeated now; its lease has been renewed."""
        stored = self._entries.get(request[8:])
        if stored is None or stored.start[4:] != request[:4]:
            return None
        return self._renewed(stored, 1)

    def repeated(self, data: bytes) -> bytes | bytearray | None:
        """The replies to `data`, if it is one stored request, or the same one several times. None:
        it is something else, and nothing has been done."""
        stored = self._entries.get(data[12:])
        if stored is not None and stored.start == data[:8]:
            if self._renewed(stored, 1) is None:
                return None
            return stored.head + data[8:12] + stored.tail
        size = int.from_bytes(data[:4], "big") + 4
        if not 12 <= size < len(data) <= REPEATED_BYTES_MAX or len(data) % size:
            return None
        stored = self._entries.get(data[12:size])
        return None if stored is None else self._several(stored, data, size)

    def _several(self, stored: StoredReply, data: bytes, size: int) -> bytearray | None:
        """All of them at once, a byte of the correlation ids at a time: pipelined heartbeats are
        many, and each by itself would cost ten times as much."""
        count = len(data) // size
        without_ids = bytearray(data)
        for at in _CORRELATION_ID:
            without_ids[at::size] = bytes(count)
        if without_ids != (stored.start + bytes(4) + stored.rest) * count:
            return None
        if self._renewed(stored, count) is None:
            return None
        replies = bytearray((stored.head + bytes(4) + stored.tail) * count)
        reply_size = 8 + len(stored.tail)
        for at in _CORRELATION_ID:
            replies[at - 4 :: reply_size] = data[at::size]
        return replies

    def _renewed(self, stored: StoredReply, count: int) -> StoredReply | None:
        """`count` requests have come; None: the lease has ended."""
        if stored.lease.renew(self._now_ms()):
            stats, api = self._stats, stored.api
            stats.repeated += count
            stats.requests[api] = stats.requests.get(api, 0) + count
            return stored
        del self._entries[stored.rest]
        return None
