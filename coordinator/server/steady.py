"""Stored replies of one connection, found by the bytes of their request.

A settled client repeats its heartbeat byte for byte, except the correlation id. So the request
without that id is the key, and a reply is sent again with the new id in its place, as long as
its lease holds. Host and principal are part of the answer, hence one table per connection.

Frames are meant without their length field, `data` is what a socket gave.
"""

from __future__ import annotations

from struct import Struct

from coordinator.runtime.clock import Clock
from coordinator.runtime.steady import SteadyReply
from coordinator.server.connection_stats import ApiVersion, ConnectionStats, Repeats

ENTRIES_MAX = 1024
"""Members that may share one connection with stored replies; beyond it the table starts anew."""

SEVERAL_BYTES_MAX = 16 * 1024
"""More at once is taken one by one: nobody has so many heartbeats under way."""


class StoredReply:
    """`start`: of the request up to the correlation id, its length field included; `rest`: all
    behind it; `head` and `tail`: the same of the reply."""

    __slots__ = (
        "_joint",
        "_layout",
        "_reply_joint",
        "head",
        "lease",
        "repeats",
        "rest",
        "start",
        "tail",
    )

    def __init__(
        self, request: bytes, reply: bytes | bytearray, lease: SteadyReply, repeats: Repeats
    ) -> None:
        self.start = len(request).to_bytes(4, "big") + request[:4]
        self.rest = request[8:]
        self.head = bytes(reply[:4])
        self.tail = bytes(reply[8:])
        self.lease = lease
        self.repeats = repeats
        self._layout: Struct | None = None
        self._joint = self._reply_joint = b""

    def ids(self, data: bytes) -> tuple[bytes, ...]:
        """The correlation ids of `data`, if it is this request several times; else none."""
        layout = self._layout
        if layout is None or layout.size != len(data):
            size = len(self.start) + 4 + len(self.rest)
            count = len(data) // size
            layout = self._layout = Struct(f"{len(self.start)}x4s{len(self.rest)}x" * count)
            self._joint = self.rest + self.start
            self._reply_joint = self.tail + self.head
        ids = layout.unpack(data)
        return ids if self.start + self._joint.join(ids) + self.rest == data else ()

    def replies(self, ids: tuple[bytes, ...]) -> bytes:
        return self.head + self._reply_joint.join(ids) + self.tail


class SteadyTable:
    """Requests and their replies. `now_ms`: the time at which sessions begin, taken with every
    renewal."""

    __slots__ = ("_clock_ms", "_entries", "_last", "_stats", "now_ms")

    def __init__(self, clock: Clock, stats: ConnectionStats) -> None:
        self._clock_ms = clock.monotonic_ms
        self._stats = stats
        self._entries: dict[bytes, StoredReply] = {}
        self._last: StoredReply | None = None
        """Nearly always the only one."""
        self.now_ms = 0

    def __len__(self) -> int:
        return len(self._entries)

    def put(
        self, request: bytes, reply: bytes | bytearray, lease: SteadyReply, api: ApiVersion
    ) -> None:
        if len(self._entries) >= ENTRIES_MAX:
            self._entries.clear()
        self._last = stored = StoredReply(request, reply, lease, self._stats.repeats(api))
        self._entries[stored.rest] = stored

    def find(self, request: bytes) -> StoredReply | None:
        """The reply that may be repeated now; its lease has been renewed."""
        stored = self._entries.get(request[8:])
        if stored is None or stored.start[4:] != request[:4]:
            return None
        return stored if self._renewed(stored, 1) else None

    def repeated(self, data: bytes) -> bytes | None:
        """The replies to `data`, if it is one stored request, or the same one several times. None:
        it is something else, and nothing has been done."""
        stored = self._last
        if stored is None:
            return None
        rest = data[12:]
        if stored.rest != rest:
            stored = self._entries.get(rest) if len(data) <= SEVERAL_BYTES_MAX else None
            if stored is None:
                return self._several(data)
            self._last = stored
        if stored.start != data[:8] or not self._renewed(stored, 1):
            return None
        return stored.head + data[8:12] + stored.tail

    def _several(self, data: bytes) -> bytes | None:
        size = int.from_bytes(data[:4], "big") + 4
        if not 12 <= size < len(data) <= SEVERAL_BYTES_MAX or len(data) % size:
            return None
        stored = self._entries.get(data[12:size])
        if stored is None:
            return None
        ids = stored.ids(data)
        if not ids or not self._renewed(stored, len(ids)):
            return None
        return stored.replies(ids)

    def _renewed(self, stored: StoredReply, count: int) -> bool:
        """`count` requests have come; False: the lease has ended."""
        self.now_ms = now_ms = self._clock_ms()
        if not stored.lease.renew(now_ms):
            del self._entries[stored.rest]
            self._last = next(iter(self._entries.values()), None)
            return False
        stored.repeats.count += count
        return True
