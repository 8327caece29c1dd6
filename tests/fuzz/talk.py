"""One connection of the campaign: what it sends, what it must get, and what is wrong."""

from __future__ import annotations

import random
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, NamedTuple

from groupd.protocol.messages.data import ProduceRequest
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.registry import MalformedRequest
from tests.fuzz.lines import Line, Wrong
from tests.fuzz.mutation import frames_of
from tests.fuzz.seeds import PRODUCE, Known

MAY_WAIT = frozenset({1, 11, 14})
"""Fetch, JoinGroup and SyncGroup wait for others by right."""
PATIENCE_S = 1.0
"""A connection that waits by right for so long makes room for the next one."""
SPOILT_PATIENCE_S = 0.2
"""The same for a spoilt connection: the broker may wait for the rest of a record."""
_LEAST_SLOW = 400
"""The most bytes of a phase that are sent one by one."""


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


class Phase(NamedTuple):
    """A part of a script. `make(reply)`: the frames, with marks; `reply` is the last one before,
    without its length. `waits`: it begins once everything before has a reply, and `rest_s` after
    that."""

    make: Callable[[bytes], bytes]
    waits: bool = False
    rest_s: float = 0.0


class Probe(NamedTuple):
    """A DescribeAcls that tells whom the broker takes the client for. `allowed`: the errors that
    its reply may have; if there are none, no reply may come."""

    correlation: bytes
    allowed: frozenset[int]


class Asked(NamedTuple):
    """A frame that has no reply yet. `correlation`: None if the frame ends before it. `silent`: the
    frame is a Produce with acks=0, which never gets a reply."""

    key: int
    correlation: bytes | None
    silent: bool


class Script(NamedTuple):
    """What a connection sends. If it is not `sound`, replies are counted, and may be without a
    correlation id, as those to the tokens of an old handshake are."""

    phases: tuple[Phase, ...]
    sound: bool = True
    probe: Probe | None = None


def one_stream(data: bytes, *, sound: bool = True) -> Script:
    """A script of bytes that are all known before."""
    return Script((Phase(lambda _: data),), sound)


class Talk:
    """A script over one connection.

    A frame is *judged* once it was answered or has ended the connection."""

    def __init__(
        self, line: Line, script: Script, known: Known, way: Way, chance: random.Random
    ) -> None:
        self.line, self.way = line, way
        self.sent = bytearray()
        """The bytes that were sent."""
        self._script = script
        self._known = known
        self._chance = chance
        self._sound = script.sound and not line.spoilt
        self._phases = deque(script.phases)
        self._last = b""
        self._ends = False
        self.frames = 0
        self.expected: deque[Asked] = deque()
        self.answered: list[bytes] = []
        """The correlation ids of the frames that were answered."""
        self.keys: list[int] = []
        """The API keys of the frames that are judged."""
        self.ended_by: bytes | None = None
        """The correlation id of the frame that has ended it."""
        self.closed = False
        self.rests_until: float | None = None
        self._in = bytearray()
        self._sent = 0
        self._pieces: deque[bytes] = deque()
        self._reset = False

    # Sending ------------------------------------------------------------------------------

    def _begin_phase(self) -> bool:
        """Whether there is something to send now."""
        if not self._phases:
            return False
        phase = self._phases[0]
        if phase.waits and self.expected:
            return False
        if phase.rest_s and self.rests_until is None:
            self.rests_until = time.monotonic() + phase.rest_s
        if self.rests:
            return False
        self.rests_until = None
        self._phases.popleft()
        data = self._known.put_in(phase.make(self._last))
        if self.way is Way.BYTE_BY_BYTE:
            data = data[:_LEAST_SLOW]
        frames, self._ends, rest = frames_of(data)
        if self._ends or rest:
            self._phases.clear()
        self.sent += data
        self.frames += len(frames)
        self.expected.extend(map(_asked, frames))
        self._pieces.extend(self._cut(data, frames))
        return True

    @property
    def rests(self) -> bool:
        return self.rests_until is not None and time.monotonic() < self.rests_until

    def _cut(self, data: bytes, frames: list[bytes]) -> Iterable[bytes]:
        if self.way is Way.BYTE_BY_BYTE:
            return [data[at : at + 1] for at in range(len(data))]
        if self.way is Way.IN_PIECES:
            chance = self._chance
            cuts = sorted(chance.randrange(len(data) + 1) for _ in range(chance.randint(1, 12)))
        elif self.way is Way.IN_TURN:
            cuts = []
            at = 0
            for one in frames:
                at += 4 + len(one)
                cuts.append(at)
        else:
            return [data] if data else []
        ends = zip([0, *cuts], [*cuts, len(data)], strict=True)
        return [data[at:end] for at, end in ends if end > at]

    def write(self) -> bool:
        """Sends the next piece; false if there is nothing more to send now."""
        try:
            self.line.flush()
            if self.line.unsent:
                return True
            return self.line.open and self._write()
        except BlockingIOError:
            return True
        except OSError:
            self._end()
            return False

    def _write(self) -> bool:
        while self._pieces or self._begin_phase():
            if not self._pieces:
                continue  # a stream of no bytes
            if self.way is Way.IN_TURN and not self._turn_is_answered():
                return False
            piece = self._pieces[0]
            sent = self.line.send(piece)
            if sent < len(piece):
                self._pieces[0] = piece[sent:]
                return True
            self._pieces.popleft()
            self._sent += 1
            if self.way in (Way.IN_PIECES, Way.BYTE_BY_BYTE) or self.line.unsent:
                return True
        if self._phases:
            return False
        if self.way is Way.RESET:
            self.closed = self._reset = True
        elif self.way is Way.HALF_CLOSED:
            self.line.send_end()
        return False

    def _turn_is_answered(self) -> bool:
        """Whether the frame before was answered, or will not be."""
        done = self.frames - len(self.expected) >= self._sent
        return done or self.expected[0].silent

    # Receiving ----------------------------------------------------------------------------

    @property
    def waits_by_right(self) -> bool:
        """The oldest request that has a reply may wait for others. A spoilt record may be half of
        one."""
        oldest = next((one.key for one in self.expected if not one.silent), None)
        return self.line.spoilt or oldest is None or oldest in MAY_WAIT

    @property
    def patience_s(self) -> float:
        """How long it waits by right."""
        return SPOILT_PATIENCE_S if self.line.spoilt else PATIENCE_S

    @property
    def done(self) -> bool:
        """All is judged. A stream that ends the connection is done when it is closed."""
        waits = self.expected or self._ends or self._pieces or self._phases or self.line.unsent
        return self.closed or not waits

    def read(self) -> None:
        """Takes what has come. Raises Wrong."""
        try:
            data = self.line.receive()
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
        if self._phases:
            self._last = bytes(data[at : at + length])
        probe = self._script.probe
        if probe is not None and correlation == probe.correlation:
            # The error comes behind the throttle time.
            (error,) = struct.unpack_from(">h", data, at + 8)
            if error not in probe.allowed:
                raise Wrong(f"taken for another user: error {error}, not {set(probe.allowed)}")
        while self.expected:
            asked = self.expected.popleft()
            self.keys.append(asked.key)
            if asked.silent:
                continue
            if self._sound and asked.correlation != correlation:
                raise Wrong(f"{correlation.hex()} answered, where {asked} is the next one")
            self.answered.append(correlation)
            self._known.learn(asked.key, data, at, length)
            return
        raise Wrong(f"a reply {correlation.hex()} that nobody has asked for")

    def _end(self) -> None:
        """The broker has closed it. The oldest frame without a reply is the reason."""
        self.closed = True
        if self.expected and not self.line.spoilt:
            asked = self.expected.popleft()
            self.ended_by = asked.correlation
            self.keys.append(asked.key)

    def state(self) -> str:
        """Where it stands, for whoever looks for the reason why it does not go on."""
        front = self.expected[0] if self.expected else None
        done = f"{len(self.answered)} answered, {len(self.expected)} not, {len(self._in)} bytes"
        left = f"{len(self._pieces)} pieces and {len(self._phases)} phases to send"
        return f"{front}; {done} of the next reply, {left}; {self.line.state()}"

    def close(self) -> None:
        self.closed = True
        self.line.close(reset=self._reset)


def _asked(frame: bytes) -> Asked:
    key = int.from_bytes(frame[:2])
    request = request_in(frame) if key == PRODUCE else None
    silent = isinstance(request, ProduceRequest) and request.acks == 0
    return Asked(key, frame[4:8] if len(frame) >= 8 else None, silent)


def request_in(frame: bytes) -> Any:
    """The request in a frame; None if groupd cannot read it: then it ends the connection."""
    # Not at the top: `tests.fuzz.guided` has its branches counted, so it must be the first to
    # import it.
    from groupd.protocol.wire.header import parse_request_header

    try:
        header = parse_request_header(frame, API_BY_KEY)
        api = API_BY_KEY[header.api_key]
        return api.decode(frame, header.body_offset, header.api_version)
    except (MalformedRequest, KeyError):
        return None
