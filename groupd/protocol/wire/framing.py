"""Cuts a byte stream into frames: a 4-byte length, then that many bytes.

It does no I/O: the connection passes in the bytes that it received, and takes one frame at a time.
So frames that have arrived cost nothing until they are taken, however many there are. A frame that
arrives in many pieces costs linear time, and memory grows with the bytes that have arrived, never
with an announced length. A large frame is gathered in a `BytesIO`, which returns its bytes without
copying them again.
"""

from __future__ import annotations

from io import BytesIO
from struct import Struct

_LENGTH = Struct(">i")
_TLS_HELLO = 0x1603
"""The first two bytes of a TLS client's first message, as a number."""
LARGE = 16 * 1024
"""From this length on, an unfinished frame counts as large."""


class FrameError(Exception):
    """The stream cannot be cut any further; the connection has to be closed."""


class FrameTooLarge(FrameError):
    """A frame announces more bytes than the limit."""


class MalformedFrame(FrameError):
    """A frame announces a negative length."""


class FrameSplitter:
    """Cuts one direction of one connection. `max_frame_bytes` does not count the length field.
    `rest`: received bytes of which not all are cut yet; empty once they are. `announced`: the
    length of a large frame that has not been taken, else 0. `missing`: how many of its bytes have
    not arrived."""

    __slots__ = ("_at", "_large", "announced", "max_frame_bytes", "missing", "rest")

    def __init__(self, max_frame_bytes: int) -> None:
        self.max_frame_bytes = max_frame_bytes
        self.rest: bytes | bytearray = b""
        self._at = 0
        """How many bytes of `rest` are already cut."""
        self.announced = self.missing = 0
        self._large = BytesIO()

    def feed(self, data: bytes) -> None:
        """Adds bytes that were received."""
        if self.announced:
            with memoryview(data) as view:
                taken = self._large.write(view[: self.missing])
            self.missing -= taken
            data = data[taken:]
        if not self.rest:
            self.rest = data
        elif data:
            if not isinstance(self.rest, bytearray):
                self.rest = bytearray(self.rest)
            del self.rest[: self._at]
            self._at = 0
            self.rest += data

    def next(self) -> bytes | None:
        """Returns the next frame, without its length field; None if it has not arrived as a whole.

        Raises FrameTooLarge or MalformedFrame. After that it must not be called again.
        """
        if self.announced:
            if self.missing:
                return None
            frame = self._large.getvalue()
            self._forget_large()
            return frame
        rest, at = self.rest, self._at
        if len(rest) - at < 4:
            return None
        length: int = _LENGTH.unpack_from(rest, at)[0]
        if not 0 <= length <= self.max_frame_bytes:
            raise self._error(length)
        at += 4
        end = at + length
        if end > len(rest):
            if length >= LARGE:
                with memoryview(rest) as view:
                    self.missing = length - self._large.write(view[at:])
                self.announced = length
                self.rest, self._at = b"", 0
            return None
        if end == len(rest):
            self.rest, self._at = b"", 0
        else:
            self._at = end
        return bytes(rest[at:end])

    def clear(self) -> None:
        """Forgets all bytes that were received."""
        self.rest, self._at = b"", 0
        self._forget_large()

    def _forget_large(self) -> None:
        self.announced = self.missing = 0
        self._large = BytesIO()

    def _error(self, length: int) -> FrameError:
        if length < 0:
            return MalformedFrame(f"frame of {length} bytes")
        reason = f"frame of {length} bytes, the limit is {self.max_frame_bytes}"
        if length >> 16 == _TLS_HELLO:
            reason += "; a TLS client on a plaintext listener?"
        return FrameTooLarge(reason)
