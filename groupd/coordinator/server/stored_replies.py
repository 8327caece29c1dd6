"""Stores the reply to one kind of request: the steady heartbeat of each member on a connection.

A settled client sends the same heartbeat again, byte for byte except the correlation id. Its reply
is stored under the bytes of the request and sent again with the new id while the reply is valid
(`runtime.shard_runtime.ShardReplyValidity`), that is while group, member, configs and topics have
not changed. Then nothing is decoded, handled or encoded. ADR 10 says what this costs to maintain.

There is one table for each connection, because client and principal are part of the answer.
"""

from __future__ import annotations

from groupd.coordinator.runtime.waiting import StoredReplyValidity
from groupd.coordinator.server.connection_stats import ApiVersion, ConnectionStats, Repeats

ENTRIES_MAX = 1024
"""How many members of one connection have stored replies at most; beyond it the table is
cleared."""

BYTES_MAX = 256 * 1024
"""How many bytes of requests and replies are stored at most; beyond it the table is cleared."""


class StoredReply:
    """One stored reply. `request_start`: the request up to the correlation id, with the length
    field. `request_end`: everything behind the id. `reply_start` and `reply_end`: the same parts of
    the reply."""

    __slots__ = ("repeats", "reply_end", "reply_start", "request_end", "request_start", "validity")

    def __init__(
        self,
        request: bytes,
        reply: bytes | bytearray,
        validity: StoredReplyValidity,
        repeats: Repeats,
    ) -> None:
        """`request` is without its length field, `reply` with it."""
        self.request_start = len(request).to_bytes(4, "big") + request[:4]
        self.request_end = request[8:]
        self.reply_start = bytes(reply[:4])
        self.reply_end = bytes(reply[8:])
        self.validity = validity
        self.repeats = repeats


class StoredReplies:
    __slots__ = ("_size", "_stats", "_stopped", "_stored", "last")

    def __init__(self, stats: ConnectionStats) -> None:
        self._stats = stats
        self._stored: dict[bytes, StoredReply] = {}
        self._size = 0
        """How many bytes were stored since the table was last empty."""
        self.last: StoredReply | None = None
        """The stored reply that was used last. It is nearly always the only one."""
        self._stopped = False

    def __len__(self) -> int:
        return len(self._stored)

    def put(
        self,
        request: bytes,
        reply: bytes | bytearray,
        validity: StoredReplyValidity,
        api: ApiVersion,
    ) -> None:
        """Stores a reply. `request` is without its length field, `reply` with it."""
        if self._stopped:
            return
        stored = StoredReply(request, reply, validity, self._stats.repeats(api))
        size = len(request) + len(reply)
        self._size += size
        if len(self._stored) >= ENTRIES_MAX or self._size > BYTES_MAX:
            self._stored.clear()
            self._size = size
        self.last = stored
        self._stored[stored.request_end] = stored

    def reply_to(self, data: bytes) -> bytes | None:
        """The reply to `data` with the new correlation id, and the member's session is renewed, if
        `data` is exactly one stored request with its length field. None: nothing was done, and the
        request must be handled."""
        stored = self.last
        if stored is None:
            return None
        if stored.request_end != data[12:]:
            stored = self._stored.get(data[12:])
            if stored is None:
                return None
            self.last = stored
        if stored.request_start != data[:8]:
            return None
        if not stored.validity.renew():
            del self._stored[stored.request_end]
            self.last = next(iter(self._stored.values()), None)
            return None
        stored.repeats.count += 1
        return stored.reply_start + data[8:12] + stored.reply_end

    def stop(self) -> None:
        """Stores and repeats nothing until `go_on`: the client has to authenticate."""
        self._stopped = True
        self.clear()

    def go_on(self) -> None:
        """Stores and repeats replies again: the client has authenticated."""
        self._stopped = False

    def clear(self) -> None:
        """Forgets all replies, when the connection ends."""
        self._stored.clear()
        self.last = None
