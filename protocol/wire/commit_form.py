"""OffsetCommit requests that differ from an earlier one in their offsets alone.

A consumer commits the same partitions again and again. So the bytes of one such request, but for
its correlation id and its offsets, are a form: a request that fits has the same content, and its
offsets are taken out of it in one go.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

PARTITIONS_MAX = 256
"""With what else is kept of a commit, a form takes some 2.2 KB, and 260 bytes for each."""

_CORRELATION_ID_END = 8


class CommitForm:
    """`size`: of requests that may fit, in bytes. Frames are meant without their length field."""

    __slots__ = ("_fixed", "_head", "_unpack", "count", "size")

    def __init__(self, frame: bytes, places: Sequence[int]) -> None:
        """`places`: of the offsets of `frame`, ascending (`api.offset_commit.offset_places`)."""
        layout = [">4s4x"]
        at = _CORRELATION_ID_END
        for place in places:
            layout.append(f"{place - at}sq")
            at = place + 8
        layout.append(f"{len(frame) - at}s")
        self._unpack = Struct("".join(layout)).unpack
        self.size = len(frame)
        self.count = len(places)
        fields = self._unpack(frame)
        self._head, self._fixed = fields[0], fields[1::2]

    def offsets(self, frame: bytes) -> tuple[int, ...] | None:
        """Of a request that fits; None: it does not."""
        if len(frame) != self.size:
            return None
        fields = self._unpack(frame)
        if fields[0] != self._head or fields[1::2] != self._fixed:
            return None
        return fields[2::2]
