"""TLS between a socket and its connection (`docs/spec/security.md#1.3`).

`asyncio` has TLS of its own, but there a connection exists only after the handshake, and keeps 256
KiB of memory. Here the connection exists from the start, so it counts for all limits, and keeps the
17 KiB that OpenSSL needs.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from contextlib import suppress
from typing import Any, cast

import structlog

from groupd.coordinator.security.tls import ListenerTls, NoPrincipal
from groupd.coordinator.server.connection import Connection
from groupd.coordinator.server.handshakes import Handshakes
from groupd.coordinator.server.shared_resources import (
    READ_BYTES,
    SharedBufferProtocol,
    SharedResources,
)
from groupd.coordinator.server.turns import SHORT_BYTES

# Records ------------------------------------------------------------------------------------

# Cuts the bytes of a socket into TLS records (RFC 8446, section 5.1).


RECORD_MAX = 16384
"""The most bytes of data in one record."""

HEADER = 5
_OVERHEAD_MAX = 2048
"""The most bytes that encryption may add to a record, according to TLS 1.2."""
_TYPES = frozenset(range(20, 25))


class Records:
    """The records of one connection. They are taken one at a time, so the bytes behind the next
    record cost nothing until their turn, however many records they hold. Bytes that cannot be a
    record are passed on at once, so that OpenSSL refuses them. `left`: how many bytes have come and
    are not taken yet."""

    __slots__ = ("_at", "_data", "left")

    def __init__(self) -> None:
        self._data = b""
        self._at = 0
        """How many bytes of `_data` have been taken."""
        self.left = 0

    def feed(self, data: bytes) -> None:
        """Adds the bytes that have come."""
        self._data = self._data[self._at :] + data if self.left else data
        self._at = 0
        self.left = len(self._data)

    def size(self) -> int:
        """The size of the next record in bytes, with its header; 0 until all of it has come."""
        data, at, left = self._data, self._at, self.left
        if left < HEADER:
            return 0
        size = HEADER + (data[at + 3] << 8 | data[at + 4])
        if data[at] not in _TYPES or size > HEADER + RECORD_MAX + _OVERHEAD_MAX:
            return left
        return size if size <= left else 0

    def take(self, size: int) -> bytes:
        """Takes the next record, of which all has come."""
        at = self._at
        end = self._at = at + size
        record = self._data[at:end]
        self.left -= size
        if not self.left:
            self._data = b""
        return record


# Connections --------------------------------------------------------------------------------

log = structlog.get_logger("groupd.tls")

SLICE = 256 * 1024
"""How many bytes are encrypted at once. Longer replies follow as the client reads."""

SILENT_MAX = 200
"""How many records without data a client may send in the life of a connection: for its handshake,
new keys and refused requests. New keys cost OpenSSL 30 microseconds and the client 27 bytes;
well-meaning clients change theirs after gigabytes."""

_HANDSHAKE = 22


class TlsConnection(asyncio.Transport, SharedBufferProtocol):
    """The protocol of a socket, and the transport of the connection `inner`. `shared`: what all
    sockets share."""

    __slots__ = (
        "_closing", "_full", "_handshakes", "_hello", "_in_line", "_incoming", "_inner",
        "_listener", "_open", "_outgoing", "_paused", "_queue", "_raw", "_reading", "_records",
        "_silent", "_tls", "_turns", "_writes_no_more", "host", "read_buffer",
    )  # fmt: skip

    _raw: asyncio.Transport
    _incoming: ssl.MemoryBIO
    _outgoing: ssl.MemoryBIO

    def __init__(
        self,
        inner: Connection,
        listener: ListenerTls,
        handshakes: Handshakes,
        shared: SharedResources,
    ) -> None:
        super().__init__()
        self.read_buffer = shared.read_buffer
        self._turns = shared.turns
        self._inner = inner
        self.host = ""
        self._listener = listener
        self._handshakes = handshakes
        self._hello = b""
        """The bytes that came before the handshake began."""
        self._records = Records()
        self._in_line = False
        """Whether it has received more than its share and waits for its turn. Meanwhile it is not
        read."""
        self._silent = 0
        """How many records have brought no data."""
        self._tls: ssl.SSLObject | None = None
        """OpenSSL's part of the connection, once the handshake has begun."""
        self._open = False
        """Whether the handshake is over."""
        self._paused = False
        """Whether the connection inside wants no data for now."""
        self._reading = True
        """Whether the socket is read."""
        self._full = False
        """Whether the socket takes no more data for now."""
        self._queue: deque[memoryview] = deque()
        """The data that is not encrypted yet."""
        self._closing = self._writes_no_more = False

    # The protocol of the socket -----------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)
        self._inner.connection_made(self)
        self.host = self._inner.host
        # A connection that is held back, or will be turned away, makes no handshake that could be
        # late.
        if not (self._paused or self._raw.is_closing()):
            self._handshakes.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._handshakes.ended(self, False)
        self._turns.leave(self)
        self._inner.connection_lost(exc)
        self._closing = True
        self._queue.clear()
        self._tls = None

    def data_received(self, data: bytes) -> None:
        if self._tls is None:
            self._gather(data)
            return
        self._records.feed(data)
        if len(data) >= READ_BYTES and self._turns.used_up():
            self._line_up()  # most likely there is more
        else:
            self._take_in()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inner.get_buffer(sizehint)

    def pause_writing(self) -> None:
        self._full = True
        if self._open:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._full = False
        self._encrypt_some()
        if self._open and not (self._full or self._queue or self._closing):
            self._inner.resume_writing()

    # The handshake ------------------------------------------------------------------------

    def _gather(self, data: bytes) -> None:
        """Waits for the whole first record. Until then a client costs nothing."""
        hello = self._hello = self._hello + data
        if hello[0] != _HANDSHAKE:
            self._fail("no TLS client")
        elif len(hello) >= HEADER:
            length = min(int.from_bytes(hello[3:HEADER], "big"), RECORD_MAX)
            if len(hello) >= HEADER + length:
                self._read(False)
                self._handshakes.line_up(self)

    def begin(self) -> None:
        """Begins the handshake: it is this connection's turn."""
        if self._raw.is_closing():
            return
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = self._listener.context
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._records.feed(self._hello)
        self._hello = b""
        self._take_in(True)

    def too_late(self) -> None:
        """Ends the handshake: its time is over."""
        self._fail("it took too long", at_once=True)

    def _shake_hands(self) -> None:
        assert self._tls is not None
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send_encrypted()
            return
        except ssl.SSLError as error:
            self._fail(_reason(error))
            return
        self._send_encrypted()
        if not self._listener.listener.protocol.sasl:
            try:
                principal = self._listener.principal_of(self._tls)
            except NoPrincipal as error:
                self._fail(str(error))
                return
            if principal is not None:
                self._inner.identify(principal)
        self._open = True
        self._handshakes.ended(self, True)
        if self._full:
            self._inner.pause_writing()

    def _fail(self, reason: str, at_once: bool = False) -> None:
        if self._closing or self._raw.is_closing():
            return
        self._closing = True
        self._handshakes.ended(self, False)
        log.info("TLS handshake failed", client=self._inner.host, reason=reason)
        if at_once:
            self._raw.abort()
            return
        if self._tls is not None:
            self._send_encrypted()  # the alert
        self._raw.close()

    # Data ---------------------------------------------------------------------------------

    def _line_up(self) -> None:
        self._in_line = True
        self._read(False)
        self._turns.line_up(self, not self._open or self._records.left <= SHORT_BYTES)

    def start_some(self) -> None:
        """Goes on with the received records: it is this connection's turn in the line."""
        self._in_line = False
        if not self._raw.is_closing():
            self._take_in(True)

    def _take_in(self, in_turn: bool = False) -> None:
        """Gives the data of the received records to the connection inside, as one piece. Gets in
        line if that is more than this turn of the loop has time for, or a step of a handshake.

        OpenSSL gets one record at a time, because in one call it would go over all records that
        bring no data."""
        turns, records = self._turns, self._records
        parts, part, until_ns = [], None, 0
        while records.left and not (self._open and self._paused):
            size = records.size()
            if not size:
                break
            if size < records.left or not self._open:
                until_ns = until_ns or turns.until(in_turn)
                if turns.elapsed() > until_ns:
                    self._line_up()
                    break
            self._incoming.write(records.take(size))
            try:
                part = self._data_of(size)
            except ssl.SSLError as error:
                self._broken(_reason(error))
                return
            if part:
                parts.append(part)
            elif part == b"":
                break
            elif self._refuses_more():
                return
        if self._outgoing.pending:
            self._send_encrypted()
        if parts and not self._closing:
            self._inner.data_received(parts[0] if len(parts) == 1 else b"".join(parts))
        if part == b"":
            self.close()
        self._read(not (self._paused or self._in_line))

    def _data_of(self, size: int) -> bytes | None:
        """The data in the record of `size` bytes. None if it brings none; empty if the client ends
        TLS."""
        assert self._tls is not None
        if not self._open:
            self._shake_hands()
            return None
        try:
            return self._tls.read(size)  # `size` is enough for all of the record's data
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLZeroReturnError:
            return b""

    def _refuses_more(self) -> bool:
        """Counts a record without data. Returns whether to take nothing more from this client."""
        self._silent += 1
        if self._silent > SILENT_MAX:
            self._broken("too many records without data")
        return self._closing and (not self._open or self._raw.is_closing())

    def _broken(self, reason: str) -> None:
        """Ends the connection, because the client has sent what no proper client sends."""
        if not self._open:
            self._fail(reason, at_once=True)
            return
        log.warning("connection closed", client=self._inner.host, reason=reason)
        self._send_encrypted()
        self.abort()

    def _encrypt(self, data: bytes | bytearray | memoryview) -> None:
        assert self._tls is not None
        at = self._tls.write(data)  # one record at most
        if at < len(data):
            with memoryview(data) as view:
                while at < len(view):
                    at += self._tls.write(view[at:])
        self._send_encrypted()

    def _encrypt_some(self) -> None:
        """Encrypts as much of the queue as the socket takes."""
        while self._queue and not (self._full or self._raw.is_closing()):
            data = self._queue.popleft()
            if len(data) > SLICE:
                self._queue.appendleft(data[SLICE:])
            self._encrypt(data[:SLICE])
        ending = self._closing or self._writes_no_more
        if ending and not self._queue and not self._raw.is_closing():
            self._say_goodbye()

    def _send_encrypted(self) -> None:
        if self._outgoing.pending and not self._raw.is_closing():
            self._raw.write(self._outgoing.read())

    def _say_goodbye(self) -> None:
        if self._open and self._tls is not None:
            with suppress(ssl.SSLError):  # the answer of the client is not waited for
                self._tls.unwrap()
            self._send_encrypted()
        if self._closing:
            self._raw.close()
        else:
            self._raw.write_eof()

    # The transport of the connection inside -----------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or self._writes_no_more or not self._open:
            return
        if self._queue or len(data) > SLICE:
            self._queue.append(memoryview(data))
            self._encrypt_some()
        else:
            self._encrypt(data)

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size() + sum(map(len, self._queue))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        self._paused = True
        self._read(False)

    def resume_reading(self) -> None:
        self._paused = False
        if not (self._open or self.is_closing()):
            self._handshakes.opened(self)
        if self._records.left and not self._in_line:
            self._line_up()
        self._read(not self._in_line)

    def _read(self, reading: bool) -> None:
        if reading == self._reading or self._raw.is_closing():
            return
        self._reading = reading
        if reading:
            self._raw.resume_reading()
        else:
            self._raw.pause_reading()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        """Ends our side of TLS after everything that was written. The client may still send."""
        self._writes_no_more = True
        if not (self._closing or self._queue):
            self._say_goodbye()

    def is_closing(self) -> bool:
        return self._closing or self._raw.is_closing()

    def close(self) -> None:
        if self._closing or self._raw.is_closing():
            return
        self._closing = True
        if not self._queue:
            self._say_goodbye()

    def abort(self) -> None:
        self._closing = True
        self._queue.clear()
        self._raw.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._raw.get_extra_info(name, default)


def _reason(error: ssl.SSLError) -> str:
    """The reason of the error, as OpenSSL names it."""
    detail = getattr(error, "verify_message", "")
    reason = (error.reason or str(error)).replace("_", " ").lower()
    return f"{reason}: {detail}" if detail else reason
