"""What carries the bytes of a connection: a socket, or TLS over one, spoilt or not."""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from tests.support.raw import api_versions, close_with_reset

_READ = 1 << 18
_RECORD = 5
"""Bytes of the header of a TLS record."""
_RECORDS = 16
"""At most so many TLS records are made of one piece at once."""

Change = Callable[[bytearray], None]


class Wrong(Exception):
    """The broker has broken its word."""


class Line:
    """A socket without TLS, which never blocks."""

    open = True
    """Whether the broker listens to what `send` takes."""
    spoilt = False
    """Whether the line changes the bytes that it was given."""
    unsent = False
    """Whether something that was given to it has to be flushed."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect_ex(address)

    def send(self, data: bytes) -> int:
        """Sends what the socket takes now; the number of bytes. Raises BlockingIOError, OSError."""
        return self.socket.send(data)

    def flush(self) -> None:
        """Sends what is left over. Raises OSError."""

    def receive(self) -> bytes:
        """Reads the bytes that are there; empty at the end. Raises BlockingIOError, OSError,
        Wrong."""
        return self.socket.recv(_READ)

    def send_end(self) -> None:
        """Nothing more will be sent. Raises OSError."""
        self.socket.shutdown(socket.SHUT_WR)

    def state(self) -> str:
        """What the kernel knows of both ends of the connection."""
        port = f":{self.socket.getsockname()[1]:04X} "
        rows = Path("/proc/net/tcp").read_text().splitlines()
        ends = [" ".join(row.split()[1:6]) for row in rows if port in row]
        return f"{type(self).__name__}, open {self.open}; {', '.join(ends)}"

    def close(self, *, reset: bool) -> None:
        if reset:
            close_with_reset(self.socket)
        self.socket.close()


class TlsLine(Line):
    """A socket with TLS. `spoil`: changes the bytes on their way. `most`: the bytes that go out at
    once."""

    def __init__(
        self,
        address: tuple[str, int],
        context: ssl.SSLContext,
        spoil: Spoil | None = None,
        most: int = 1 << 30,
    ) -> None:
        super().__init__(address)
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_hostname=address[0])
        self._spoil = spoil
        self._most = most
        self._left = bytearray()
        self.open = False
        self.spoilt = spoil is not None
        self._shake()

    @property
    def unsent(self) -> bool:  # type: ignore[override]
        return bool(self._left)

    def _shake(self) -> None:
        try:
            self._tls.do_handshake()
            self.open = True
        except ssl.SSLWantReadError:
            pass
        finally:
            self._gather()

    def _gather(self) -> None:
        if self._out.pending:
            made = self._out.read()
            self._left += made if self._spoil is None else self._spoil(made)

    def send(self, data: bytes) -> int:
        if self._left or not self.open:
            raise BlockingIOError
        at = 0
        for _ in range(_RECORDS):
            at += self._tls.write(data[at:])
            if at == len(data):
                break
        self._gather()
        self.flush()
        return at

    def flush(self) -> None:
        try:
            while self._left:
                sent = self.socket.send(self._left[: self._most])
                del self._left[:sent]
                if self._left and sent == self._most:
                    return
        except BlockingIOError:
            pass

    def receive(self) -> bytes:
        data = self.socket.recv(_READ)
        if not data:
            return b""
        self._in.write(data)
        parts = []
        try:
            if not self.open:
                self._shake()
            while self.open:
                part = self._tls.read(_READ)
                if not part:
                    return b"".join(parts)
                parts.append(part)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            return b"".join(parts)
        except ssl.SSLError as error:
            if not self.spoilt:
                raise Wrong(f"TLS: {error}") from error
            raise
        self._gather()
        self.flush()
        if not parts:
            raise BlockingIOError
        return b"".join(parts)

    def send_end(self) -> None:
        """Ends with the goodbye of TLS."""
        if self.open:
            with contextlib.suppress(ssl.SSLError):
                self._tls.unwrap()
            self._gather()
            self.flush()
        super().send_end()


class Spoil:
    """Changes one of the flights of a client: its hello (0), the end of the handshake (1), or one
    with data. `change` changes some bytes in place."""

    def __init__(self, chance: random.Random, change: Change) -> None:
        self._chance = chance
        self._change = change
        self._flight = chance.choice((0, 0, 0, 1, 1, 2, 2, 2, 3))
        self._ended = False
        self._ways: tuple[Callable[[bytearray], bytes], ...] = (
            self._changed,
            self._changed,
            self._with_true_length,
            self._cut,
            self._behind_garbage,
            self._before_garbage,
            self._instead,
            self._twice,
            self._fragmented,
        )

    def __call__(self, flight: bytes) -> bytes:
        self._flight -= 1
        if self._ended:
            return b""
        if self._flight != -1:
            return flight
        return self._chance.choice(self._ways)(bytearray(flight))

    def _changed(self, flight: bytearray) -> bytes:
        self._change(flight)
        while self._chance.random() < 0.4:
            self._change(flight)
        return bytes(flight)

    def _with_true_length(self, flight: bytearray) -> bytes:
        """Changes the first record but gives it its true length, so that OpenSSL looks into it."""
        rest = bytearray(flight[_RECORD:])
        self._change(rest)
        return bytes(flight[:3]) + (len(rest) & 0xFFFF).to_bytes(2, "big") + bytes(rest)

    def _cut(self, flight: bytearray) -> bytes:
        """Cuts the flight somewhere in the middle; nothing follows."""
        self._ended = True
        return bytes(flight[: self._chance.randrange(len(flight))])

    def _behind_garbage(self, flight: bytearray) -> bytes:
        return garbage(self._chance) + bytes(flight)

    def _before_garbage(self, flight: bytearray) -> bytes:
        return bytes(flight) + garbage(self._chance)

    def _instead(self, flight: bytearray) -> bytes:
        return garbage(self._chance)

    def _twice(self, flight: bytearray) -> bytes:
        return bytes(flight) * 2

    def _fragmented(self, flight: bytearray) -> bytes:
        """Cuts the first record into many, some of them empty."""
        kind, version = flight[:1], flight[1:3]
        rest = bytes(flight[_RECORD:])
        size = self._chance.choice((1, 1, 5, 50))
        made = []
        for at in range(0, len(rest), size):
            part = rest[at : at + size]
            made.append(kind + version + len(part).to_bytes(2, "big") + part)
            if self._chance.random() < 0.02:
                made.append(kind + version + bytes(2))
        return b"".join(made)


def garbage(chance: random.Random) -> bytes:
    """Records of every type that nobody has asked for, and bytes that are no record."""
    dice = chance.random()
    if dice < 0.1:
        return api_versions(1) * 20
    if dice < 0.2:
        return b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    if dice < 0.3:
        return chance.randbytes(chance.choice((1, 5, 100, 20_000)))
    kind = chance.choice((20, 21, 22, 23, 24, 0x80, 255))
    version = chance.choice((b"\x03\x01", b"\x03\x03", b"\x03\x04", b"\x00\x02", b"\xff\xff"))
    body = chance.choice(_BODIES) if dice < 0.7 else chance.randbytes(chance.randint(0, 300))
    length = len(body) if dice < 0.9 else chance.choice((0, 1, 16_384, 16_640, 18_433, 65_535))
    one = bytes([kind]) + version + length.to_bytes(2, "big") + body
    return one * chance.choice((1, 1, 1, 2, 1000))


_BODIES = (
    b"",
    b"\x01",  # Change of the cipher.
    b"\x01\x00",  # Goodbye.
    b"\x01\x64",  # No renegotiation.
    b"\x02\x28",  # Handshake failed.
    b"\x02\x00",
    b"\x00\x00\x00\x00",  # Hello request.
    b"\x18\x00\x00\x01\x01",  # New keys, the other side too.
    b"\x0e\x00\x00\x00",
    b"\x01\x00\x00\x00",  # A hello without anything.
    b"\x01\xff\xff\xff",  # One of 16 MB.
    b"\x01\x00\x40\x00",  # Heartbeat that asks for more than it has.
)
