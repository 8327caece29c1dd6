"""Pickled objects over a pipe between this process and a broker in another process: a length of
four bytes, then the pickle. Both ends are the same program, and we start the other one."""

from __future__ import annotations

import pickle
import struct
import threading
from typing import Any, BinaryIO

_LENGTH = struct.Struct(">I")


class Frames:
    """A pipe for each direction. Any thread may call `send`; only one thread may call `receive`."""

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
        """The next object. Raises EOFError when the other end has closed the pipe."""
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
