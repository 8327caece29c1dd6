"""Cuts a byte stream into frames: a 4-byte length, then that many bytes.

It does no I/O: the connection passes in what it received. So a frame that arrives in many pieces
costs linear time, and memory grows with what has arrived, never with an announced length. A large
frame is gathered in a `BytesIO`, which hands its bytes over without copying them again.
"""

from __future__ import annotations

from io import BytesIO
from struct import Struct

_LENGTH = Struct(">i")
_TLS_HELLO = 0x1603
"""The first two bytes of a TLS client's first message, as a number."""
LARGE = 64 * 1024
"""From this length on, an unfinished frame is large."""


class FrameError(Exception):
    """The stream cannot be cut any further; the connection has to be closed.

    `frames`: the whole frames before the bad one in the same chunk.
    """

    def __init__(self, reason: str, frames: list[bytes]) -> None:
        super().__init__(reason)
        self.frames = frames


class FrameTooLarge(FrameError):
    """A frame announces more bytes than the limit."""


class MalformedFrame(FrameError):
    """A frame announces a negative length."""


class FrameSplitter:
    """Cuts one direction of one connection. `max_frame_bytes` does not count the length field.
    `buffer`: the beginning of an unfinished frame that is not large, always the same object.
    `announced`: the length of the unfinished frame if it is large, else 0."""

    __slots__ = ("_large", "_missing", "announced", "buffer", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.buffer = bytearray()
        self.announced = 0
        self._large = BytesIO()
        self._missing = 0

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the frames that `data` completes, without their length fields, possibly none.

        Raises FrameTooLarge or MalformedFrame; after that no further call makes sense.
        """
        frames: list[bytes] = []
        if self.announced:
            if len(data) < self._missing:
                self._large.write(data)
                self._missing -= len(data)
                return frames
            with memoryview(data) as view:
                self._large.write(view[: self._missing])
            frames.append(self._large.getvalue())
            data = data[self._missing :]
            self.clear()
        buffer = self.buffer
        if not buffer:
            consumed = self._cut(data, frames)
            if consumed < len(data):
                self._keep(data, consumed)
            return frames
        buffer += data
        consumed = self._cut(buffer, frames)
        if consumed:
            del buffer[:consumed]
        if len(buffer) >= LARGE:
            rest = bytes(buffer)
            buffer.clear()
            self._keep(rest, 0)
        return frames

    def clear(self) -> None:
        """Forgets the unfinished frame."""
        self.buffer.clear()
        self.announced = self._missing = 0
        self._large = BytesIO()

    def _keep(self, data: bytes, at: int) -> None:
        """Keeps what stands behind `at`: the beginning of a frame."""
        if len(data) - at >= 4:
            length: int = _LENGTH.unpack_from(data, at)[0]
            if length >= LARGE:
                with memoryview(data) as view:
                    got = self._large.write(view[at + 4 :])
                self.announced, self._missing = length, length - got
                return
        self.buffer += data[at:]

    def _cut(self, data: bytes | bytearray, frames: list[bytes]) -> int:
        """Adds the whole frames in `data` to `frames`. Returns how many bytes they take."""
        at = 0
        available = len(data)
        while available - at >= 4:
            length: int = _LENGTH.unpack_from(data, at)[0]
            if length < 0:
                raise MalformedFrame(f"frame of {length} bytes", frames)
            if length > self.max_frame_bytes:
                reason = f"frame of {length} bytes, the limit is {self.max_frame_bytes}"
                if length >> 16 == _TLS_HELLO:
                    reason += "; a TLS client on a plaintext listener?"
                raise FrameTooLarge(reason, frames)
            end = at + 4 + length
            if end > available:
                break
            frames.append(bytes(data[at + 4 : end]))
            at = end
        return at
