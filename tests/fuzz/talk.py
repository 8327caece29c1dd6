"""One connection of the campaign: what it sends, what it must get, and what is wrong."""

from __future__ import annotations

import random
import socket
import struct
from collections import deque
from enum import Enum

from tests.fuzz.mutation import frames_of
from tests.fuzz.seeds import Known

PRODUCE = 0
MAY_WAIT = frozenset({1, 11, 14})
"""Fetch, JoinGroup and SyncGroup wait for others by right."""
_RESET = struct.pack("ii", 1, 0)
_READ = 1 << 18


class Way(Enum):
    """How the bytes of a stream are sent."""

    AT_ONCE = "in one write"
    IN_PIECES = "in pieces of any size"
    BYTE_BY_BYTE = "one byte per write"
    IN_TURN = "the next frame after the reply"
    RESET = "reset right behind the last byte"
    HALF_CLOSED = "sends its end right behind the last byte"


WEIGHTS = {
    Way.AT_ONCE: 80,
    Way.IN_PIECES: 8,
    Way.BYTE_BY_BYTE: 1,
    Way.IN_TURN: 6,
    Way.RESET: 3,
    Way.HALF_CLOSED: 2,
}


class Wrong(Exception):
    """The broker has broken its word."""


class Talk:
    """One stream over one connection. `stream` is as the generator made it, with marks.

    A frame is *judged* once it was answered or has ended the connection. Not `sound`: replies are
    counted, and may be without a correlation id, as those to the tokens of an old handshake."""

    def __init__(
        self,
        address: tuple[str, int],
        stream: bytes,
        known: Known,
        way: Way,
        chance: random.Random,
        *,
        sound: bool = True,
    ) -> None:
        self.stream, self.way = stream, way
        self._known = known
        self._sound = sound
        self._data = data = known.put_in(stream)
        frames, self._ends, rest = frames_of(data)
        self.half = bool(rest)
        self.frames = len(frames)
        self.expected = deque(
            (int.from_bytes(one[:2]), one[4:8] if len(one) >= 8 else None) for one in frames
        )
        self.answered: list[bytes] = []
        """The correlation ids."""
        self.keys: list[int] = []
        """Of the frames that are judged."""
        self.closed = False
        self._in = bytearray()
        self._sent = 0
        self._turns: deque[bytes] = deque()
        self._pieces = self._cut(chance)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect_ex(address)

    def _cut(self, chance: random.Random) -> deque[bytes]:
        data, way = self._data, self.way
        if way is Way.BYTE_BY_BYTE:
            data = data[:400]
            self._shorten(data)
            return deque(data[at : at + 1] for at in range(len(data)))
        if way is Way.IN_PIECES:
            cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randint(1, 12)))
            return deque(
                data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)
            )
        if way is Way.IN_TURN:
            frames, _, _ = frames_of(data)
            ends = []
            at = 0
            for one in frames:
                at += 4 + len(one)
                ends.append(at)
            starts = [0, *ends]
            return deque(
                data[start:end] for start, end in zip(starts, [*ends, len(data)], strict=True)
            )
        return deque([data])

    def _shorten(self, data: bytes) -> None:
        frames, self._ends, rest = frames_of(data)
        self.half, self.frames = bool(rest), len(frames)
        while len(self.expected) > self.frames:
            self.expected.pop()

    @property
    def sending(self) -> bool:
        return bool(self._pieces) and not self.closed

    @property
    def waits_by_right(self) -> bool:
        """The oldest request without a reply may wait for others. A Produce before it may have
        asked for no reply."""
        oldest = next((key for key, _ in self.expected if key != PRODUCE), None)
        return oldest is None or oldest in MAY_WAIT

    @property
    def done(self) -> bool:
        """All is judged. A stream that ends the connection is done when it is closed."""
        return self.closed or not (self.expected or self._ends or self._pieces)

    def write(self) -> bool:
        """Sends the next piece; false if there is nothing more to send now."""
        while self._pieces:
            if self.way is Way.IN_TURN and not self._turn_is_answered():
                return False
            piece = self._pieces[0]
            try:
                sent = self.socket.send(piece)
            except BlockingIOError:
                return True
            except OSError:
                self._end()
                return False
            if sent < len(piece):
                self._pieces[0] = piece[sent:]
                return True
            self._pieces.popleft()
            self._sent += 1
            if self.way in (Way.IN_PIECES, Way.BYTE_BY_BYTE):
                return bool(self._pieces)
        if self.way is Way.RESET:
            self.reset()
        elif self.way is Way.HALF_CLOSED:
            try:
                self.socket.shutdown(socket.SHUT_WR)
            except OSError:
                self._end()
        return False

    def _turn_is_answered(self) -> bool:
        """A Produce may be without a reply."""
        done = self.frames - len(self.expected) >= self._sent
        return done or self.expected[0][0] == PRODUCE

    def read(self) -> None:
        """Takes what has come. Raises Wrong."""
        try:
            data = self.socket.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            self._end()
            return
        if not data:
            self._end()
            return
        self._in += data
        at, end = 0, len(self._in)
        while at + 4 <= end:
            (length,) = struct.unpack_from(">i", self._in, at)
            if length < (4 if self._sound else 0):
                raise Wrong(f"a reply of {length} bytes")
            if at + 4 + length > end:
                break
            self._take(self._in, at + 4, length)
            at += 4 + length
        del self._in[:at]

    def _take(self, data: bytearray, at: int, length: int) -> None:
        correlation = bytes(data[at : at + 4])
        while self.expected:
            key, asked = self.expected.popleft()
            self.keys.append(key)
            if asked == correlation or not self._sound:
                self.answered.append(correlation)
                self._known.learn(key, data, at, length)
                return
            # With acks=0 a Produce has no reply.
            if key != PRODUCE:
                raise Wrong(f"{correlation.hex()} answered, where API {key} asked {asked!r}")
        raise Wrong(f"a reply {correlation.hex()} that nobody has asked for")

    def _end(self) -> None:
        """The broker has closed it. The oldest frame without a reply is the reason; a Produce
        before it may have asked for none."""
        self.closed = True
        if self.expected:
            self.keys.append(self.expected.popleft()[0])

    def reset(self) -> None:
        """Lets `close` drop whatever is under way."""
        self.closed = True
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)

    def close(self) -> None:
        self.closed = True
        self.socket.close()
