"""What an attack is made of: connections that count what they get, and a time to stop."""

from __future__ import annotations

import random
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable
from itertools import cycle

import msgspec

from tests.attack.victim import Victim

_CHUNK = 1 << 18
_LENGTH = struct.Struct(">i")
PREPARE_S = 120.0
NOTED_MAX = 5000
SHORT_S = 5.0
"""An attack that is to last for less is in its short form."""


class Got(msgspec.Struct):
    """What an attacker got. `closed`: connections that the broker ended; `refused`: those that it
    did not take; `slowest`: (seconds, what) of the reply that took longest; `note`: in words."""

    sent: int = 0
    received: int = 0
    replies: int = 0
    closed: int = 0
    refused: int = 0
    slowest: tuple[float, str] = (0.0, "")
    note: str = ""
    missed: list[str] = []
    """Bars of this attack that are no waits, in words."""
    asked: list[tuple[float, float, str]] = []
    """(when, seconds, what) of requests with a name, on the machine's monotonic clock."""

    def took(self, since: float, what: str) -> None:
        seconds = round(time.monotonic() - since, 3)
        self.slowest = max(self.slowest, (seconds, what))
        if what and len(self.asked) < NOTED_MAX:
            self.asked.append((since, seconds, what))

    def plus(self, other: Got) -> Got:
        """The sum for two attackers."""
        return Got(
            self.sent + other.sent,
            self.received + other.received,
            self.replies + other.replies,
            self.closed + other.closed,
            self.refused + other.refused,
            max(self.slowest, other.slowest),
            "; ".join(note for note in (self.note, other.note) if note),
            self.missed + other.missed,
            self.asked + other.asked,
        )


class Ended(Exception):
    """The broker closed the connection, or the time is over."""


class Link:
    """One connection, blocking until the end of the attack. Every way out is `Ended`."""

    def __init__(
        self, address: tuple[str, int], got: Got, until: float, receive_buffer: int | None = None
    ) -> None:
        self._got, self._until = got, until
        if time.monotonic() >= until:
            raise Ended
        self._socket = socket.socket()
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._left()
        try:
            self._socket.connect(address)
        except OSError as error:
            got.refused += 1
            self._socket.close()
            raise Ended from error

    def _left(self) -> None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise Ended
        self._socket.settimeout(left)

    def send(self, data: bytes) -> None:
        """Sends all of it, as far as the broker takes it."""
        view = memoryview(data)
        while view:
            self._left()
            try:
                count = self._socket.send(view[:_CHUNK])
            except TimeoutError:
                raise Ended from None
            except OSError as error:
                self._got.closed += 1
                raise Ended from error
            self._got.sent += count
            view = view[count:]

    def send_some(self, data: bytes) -> int:
        """Sends what the socket takes without waiting; returns how many bytes that was."""
        self._socket.setblocking(False)
        try:
            count = self._socket.send(data) if data else 0
        except OSError:
            return 0
        self._got.sent += count
        return count

    def reply(self) -> bytes:
        """The next reply, without its length."""
        (size,) = _LENGTH.unpack(self._read(4))
        data = self._read(size)
        self._got.replies += 1
        return data

    def skip_reply(self) -> int:
        """Throws the next reply away; its size."""
        (size,) = _LENGTH.unpack(self._read(4))
        left = size
        while left:
            left -= len(self._receive(min(left, _CHUNK)))
        self._got.replies += 1
        return int(size)

    def ask(self, data: bytes, what: str = "") -> bytes:
        started = time.monotonic()
        self.send(data)
        try:
            return self.reply()
        finally:
            self._got.took(started, what)

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            data += self._receive(size - len(data))
        return bytes(data)

    def _receive(self, size: int) -> bytes:
        self._left()
        try:
            data = self._socket.recv(min(size, _CHUNK))
        except TimeoutError:
            raise Ended from None
        except OSError as error:
            self._got.closed += 1
            raise Ended from error
        if not data:
            self._got.closed += 1
            raise Ended
        self._got.received += len(data)
        return data

    def is_closed(self) -> bool:
        """Whether the broker has ended it; bytes that came are thrown away."""
        self._socket.setblocking(False)
        try:
            while data := self._socket.recv(_CHUNK):
                self._got.received += len(data)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            return True
        return True

    def secure(self, context: ssl.SSLContext) -> None:
        """Speaks TLS from now on."""
        self._left()
        host, _ = self._socket.getpeername()
        try:
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        except OSError as error:
            self._got.closed += 1
            self._socket.close()
            raise Ended from error

    def receive_some(self) -> bytes:
        """The bytes that are there or come next. Raises Ended, at the end of the connection too."""
        return self._receive(_CHUNK)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()


class Scene:
    """One attacker at work: `go_on` is true until the attack is to end. `lasts_s`: how long the
    attack will last."""

    def __init__(self, victim: Victim, lasts_s: float, seed: int = 1) -> None:
        self.victim = victim
        self._short = lasts_s < SHORT_S
        self.got = Got()
        self.random = random.Random(seed)
        self.seconds = 0.0
        self._until = time.monotonic() + PREPARE_S
        self._nodes = cycle(victim.nodes)

    def begin(self, seconds: float) -> None:
        """The preparations are over and do not count."""
        self.got = Got()
        self.seconds = seconds
        self._until = time.monotonic() + seconds

    def many(self, count: int) -> int:
        """So many connections or tries; in the short form a tenth of them."""
        return max(count // 10, 1) if self._short else count

    @property
    def left_s(self) -> float:
        return max(self._until - time.monotonic(), 0.0)

    def go_on(self) -> bool:
        return self.left_s > 0

    def rest(self, seconds: float) -> None:
        time.sleep(min(seconds, self.left_s))

    def link(self, receive_buffer: int | None = None, within_s: float = PREPARE_S) -> Link:
        """Connects to the next node in turn. Nothing is waited for after `within_s`."""
        until = min(self._until, time.monotonic() + within_s)
        return Link(next(self._nodes), self.got, until, receive_buffer)

    def link_to(self, address: tuple[str, int], receive_buffer: int | None = None) -> Link:
        return Link(address, self.got, self._until, receive_buffer)

    def link_to_coordinator(self, key: str, kind: int = 0) -> Link:
        """Connects to the coordinator of a group, or of a transactional id if `kind` is 1."""
        while True:
            try:
                return self.link_to(self.victim.coordinator(key, kind))
            except OSError as error:
                if not self.go_on():
                    raise Ended from error
                self.rest(0.05)

    def links(self, count: int, receive_buffer: int | None = None) -> list[Link]:
        """`count` connections, or as many of them as the broker takes."""
        made: list[Link] = []
        for _ in range(count):
            try:
                made.append(self.link(receive_buffer))
            except Ended:
                if not self.go_on():
                    break
        return made

    def repeat(
        self, once: Callable[[Link], object], link: Callable[[], Link] | None = None
    ) -> None:
        """Calls `once` again and again, with a new connection whenever the broker has ended the
        last."""
        while self.go_on():
            try:
                one = (link or self.link)()
            except Ended:
                self.rest(0.02)
                continue
            try:
                while self.go_on():
                    once(one)
            except Ended:
                self.rest(0.005)
            finally:
                one.close()

    def pipelined(self, frames: Iterable[bytes], link: Link, batch: int = 200) -> None:
        """Sends all of them, a batch at a time; replies are read."""
        waiting: list[bytes] = []
        for frame in frames:
            waiting.append(frame)
            if len(waiting) == batch:
                _round(link, waiting)
                waiting = []
        if waiting:
            _round(link, waiting)


def _round(link: Link, frames: list[bytes]) -> None:
    link.send(b"".join(frames))
    for _ in frames:
        link.skip_reply()
