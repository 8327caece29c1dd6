"""Pickled objects over a pipe between this process and a broker in another one: a length of four
bytes, then the pickle. Both ends are the same program, started by us."""

from __future__ import annotations

import pickle
import struct
import threading
from typing import Any, BinaryIO

_LENGTH = struct.Struct(">I")


class Frames:
    """One direction each way; `send` may be called by any thread, `receive` by one."""

    def __init__(self, reader: BinaryIO, writer: BinaryIO) -> None:
        self._reader = reader
        self._writer = writer
        self._lock = threading.Lock()

    def send(self, value: Any) -> None:
        data = pickle.dumps(value)
        with self._lock:
            self._writer.write(_LENGTH.pack(len(data)) + data)
            self._writer.flush()

    def receive(self) -> Any:
        """Raises EOFError when the other end is gone."""
        head = self._reader.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            raise EOFError
        (length,) = _LENGTH.unpack(head)
        data = self._reader.read(length)
        if len(data) < length:
            raise EOFError
        return pickle.loads(data)

    def close(self) -> None:
        self._reader.close()
        self._writer.close()
