"""Cuts a byte stream into frames: a 4-byte length, then that many bytes.

It does no I/O: the connection passes in what it received. Bytes of an unfinished frame are kept in
one growing buffer. So a frame that arrives in many pieces costs linear time, and memory grows with
what has arrived, never with an announced length.
"""

from __future__ import annotations

from struct import Struct

_LENGTH = Struct(">i")


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
    `buffer`: the beginning of an unfinished frame, always the same object."""

    __slots__ = ("buffer", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Returns the frames that `data` completes, without their length fields, possibly none.

        Raises FrameTooLarge or MalformedFrame; after that no further call makes sense.
        """
        buffer = self.buffer
        if not buffer:
            frames, consumed = self._cut(data)
            if consumed < len(data):
                buffer += data[consumed:]
            return frames
        buffer += data
        frames, consumed = self._cut(buffer)
        if consumed:
            del buffer[:consumed]
        return frames

    def _cut(self, data: bytes | bytearray) -> tuple[list[bytes], int]:
        """Returns the whole frames in `data`, and how many of its bytes they take."""
        frames: list[bytes] = []
        at = 0
        available = len(data)
        while available - at >= 4:
            length: int = _LENGTH.unpack_from(data, at)[0]
            if length < 0:
                raise MalformedFrame(f"frame of {length} bytes", frames)
            if length > self.max_frame_bytes:
                reason = f"frame of {length} bytes, the limit is {self.max_frame_bytes}"
                raise FrameTooLarge(reason, frames)
            end = at + 4 + length
            if end > available:
                break
            frames.append(bytes(data[at + 4 : end]))
            at = end
        return frames, at
