"""Stored replies of one connection, found by the bytes of their request.

A settled client repeats its heartbeat byte for byte, except the correlation id. So the request
without that id is the key, and a reply is sent again with the new id in its place, as long as
its lease holds. Host and principal are part of the answer, hence one table per connection.

Frames are meant without their length field, `data` is what a socket gave.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct

from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.steady import SteadyReply
from groupd.coordinator.server.connection_stats import ApiVersion, ConnectionStats, Repeats

ENTRIES_MAX = 1024
"""Members that may share one connection with stored replies; beyond it the table starts anew."""

SEVERAL_BYTES_MAX = 16 * 1024
"""More at once is taken one by one: nobody has so many heartbeats under way."""


@lru_cache(maxsize=256)
def ids_layout(size: int, count: int) -> Struct:
    """Finds the correlation ids of `count` requests of `size` bytes each."""
    return Struct(f"8x4s{size - 12}x" * count)


_NO_LAYOUT = Struct("")


class StoredReply:
    """`start`: of the request up to the correlation id, its length field included; `rest`: all
    behind it; `size`: of the whole; `head` and `tail`: the same of the reply."""

    __slots__ = (
        "_joint",
        "_layout",
        "_reply_joint",
        "head",
        "lease",
        "repeats",
        "rest",
        "several_bytes",
        "size",
        "start",
        "tail",
    )

    def __init__(
        self, request: bytes, reply: bytes | bytearray, lease: SteadyReply, repeats: Repeats
    ) -> None:
        self.start = len(request).to_bytes(4, "big") + request[:4]
        self.rest = request[8:]
        self.size = 4 + len(request)
        self.head = bytes(reply[:4])
        self.tail = bytes(reply[8:])
        self.lease = lease
        self.repeats = repeats
        self.several_bytes = 0
        """Of the last ones that came together."""
        self._layout = _NO_LAYOUT
        self._joint = self._reply_joint = b""

    def ids(self, data: bytes) -> tuple[bytes, ...]:
        """The correlation ids of `data`, if it is this request several times; else none."""
        if len(data) != self.several_bytes and not self._expect(len(data)):
            return ()
        ids = self._layout.unpack(data)
        return ids if self.start + self._joint.join(ids) + self.rest == data else ()

    def _expect(self, data_bytes: int) -> bool:
        """A client has mostly as many under way as before."""
        if data_bytes % self.size:
            return False
        if not self._joint:
            self._joint = self.rest + self.start
            self._reply_joint = self.tail + self.head
        self._layout = ids_layout(self.size, data_bytes // self.size)
        self.several_bytes = data_bytes
        return True

    def replies(self, ids: tuple[bytes, ...]) -> bytes:
        return self.head + self._reply_joint.join(ids) + self.tail


class SteadyTable:
    """Requests and their replies, and what is looked at with every request of a connection: all
    that a settled heartbeat touches lies together.

    `quiet`: nothing of the connection is under way, so what comes next may be answered from here.
    `active_ms`: when something came or left last."""

    __slots__ = (
        "_clock_ms",
        "_entries",
        "_last",
        "_stats",
        "active_ms",
        "quiet",
    )

    def __init__(self, clock: Clock, stats: ConnectionStats) -> None:
        self._clock_ms = clock.monotonic_ms
        self._stats = stats
        self._entries: dict[bytes, StoredReply] = {}
        self._last: StoredReply | None = None
        """Nearly always the only one."""
        self.quiet = True
        self.active_ms = 0

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
        return stored if self._renewed(stored, 1, self._clock_ms()) else None

    def repeated(self, data: bytes) -> bytes | None:
        """`repeated_at` now."""
        return self.repeated_at(data, self._clock_ms())

    def repeated_at(self, data: bytes, now_ms: int) -> bytes | None:
        """The replies to `data`, if it is one stored request, or the same one several times. None:
        it is something else, and nothing has been done. `now_ms`: when their sessions begin."""
        stored = self._last
        if stored is None:
            return None
        size = len(data)
        if size == stored.several_bytes:
            return self._several(stored, data, now_ms)
        if size != stored.size or stored.rest != data[12:]:
            return self._another(data, now_ms)
        if stored.start != data[:8]:
            return None
        if not stored.lease.renew(now_ms):
            self._forget(stored)
            return None
        stored.repeats.count += 1
        return stored.head + data[8:12] + stored.tail

    def _another(self, data: bytes, now_ms: int) -> bytes | None:
        """`repeated_at` of a request that is not the last one, and of more than one."""
        if len(data) > SEVERAL_BYTES_MAX:
            return None
        size = int.from_bytes(data[:4], "big") + 4
        stored = self._entries.get(data[12:size])
        if stored is None or stored.start != data[:8]:
            return None
        self._last = stored
        if size != len(data):
            return self._several(stored, data, now_ms)
        if not self._renewed(stored, 1, now_ms):
            return None
        return stored.head + data[8:12] + stored.tail

    def _several(self, stored: StoredReply, data: bytes, now_ms: int) -> bytes | None:
        ids = stored.ids(data)
        return stored.replies(ids) if ids and self._renewed(stored, len(ids), now_ms) else None

    def _renewed(self, stored: StoredReply, count: int, now_ms: int) -> bool:
        """`count` requests have come; False: the lease has ended."""
        if not stored.lease.renew(now_ms):
            self._forget(stored)
            return False
        stored.repeats.count += count
        return True

    def _forget(self, stored: StoredReply) -> None:
        del self._entries[stored.rest]
        self._last = next(iter(self._entries.values()), None)
