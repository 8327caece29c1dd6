"""Writes a recording: one JSON object a line (docs/recording.md has the format). The event loop
only puts entries into a queue; a thread turns them into lines and writes them, 20 times a second,
and the loop never waits for it. If more than `QUEUE_BYTES_MAX` are queued, the disk fails, or the
file has reached its limit, the recording ends with an error in the log and in the metrics, and the
broker goes on. If the process is killed, only the entries that were not yet written are missing.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import structlog

from groupd.coordinator.recording.plain import to_json
from groupd.storage.log import StoreRefused
from groupd.storage.private_files import private

log = structlog.get_logger("groupd.recording")

FORMAT = "groupd-recording"
VERSION = 1
QUEUE_BYTES_MAX = 64 << 20
INTERVAL_S = 0.05
CHUNK_BYTES = 1 << 20
ENTRY_BYTES = 250
"""The size in bytes that the queue counts for an entry, besides the bytes that it carries."""

OVERFLOW = "queue"
FULL = "limit"
FAILED = "disk"
STOPPED = "stopped"


class CannotRecord(StoreRefused):
    """The recording cannot begin. `str()` is one line that says why and how to correct it."""


class Tape:
    """The file of a recording, which must not exist before. `ended`: why nothing is written any
    more."""

    def __init__(
        self, path: Path, bytes_max: int, *, queue_bytes_max: int = QUEUE_BYTES_MAX
    ) -> None:
        """Raises CannotRecord."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            # The file holds the records and commits of clients, so only its owner may read it.
            self._file = private(path, flags)
        except FileExistsError:
            raise CannotRecord(f"recording {path}: exists already; choose another name") from None
        except OSError as error:
            raise CannotRecord(f"recording {path}: {error.strerror}") from None
        self.path = path
        self.ended: str | None = None
        self.entries = 0
        self.bytes = 0
        self._bytes_max = bytes_max
        self._queue_bytes_max = queue_bytes_max
        self._queue: deque[tuple[Mapping[str, Any], int]] = deque()
        self._put_bytes = self._done_bytes = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="groupd-recording", daemon=True)

    def begin(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Write the head at once, not through the queue. Raises CannotRecord."""
        try:
            for entry in entries:
                self._write(_line(entry))
        except OSError as error:
            raise CannotRecord(f"recording {self.path}: {error.strerror}") from None
        self._thread.start()

    def discard(self) -> None:
        """Remove the file. Call it instead of `begin`, or after `begin` has failed."""
        os.close(self._file)
        self.path.unlink(missing_ok=True)

    def put(self, entry: Mapping[str, Any], size: int = 0) -> None:
        """Queue an entry that carries about `size` bytes. Only one thread may call it."""
        if self.ended is not None:
            return
        size += ENTRY_BYTES
        if self._put_bytes - self._done_bytes + size > self._queue_bytes_max:
            self._end(OVERFLOW, f"more than {self._queue_bytes_max} bytes wait to be written")
            return
        self._put_bytes += size
        self._queue.append((entry, size))

    @property
    def queued_bytes(self) -> int:
        return self._put_bytes - self._done_bytes

    def close(self) -> None:
        """Write what is queued, and close the file. Blocks. A second call does nothing."""
        if self._thread.is_alive():
            self._closing.set()
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._closing.wait(INTERVAL_S):
                self._flush()
            self._flush()
            if self.ended is None:
                self.ended = STOPPED
            if self.ended != FAILED:
                self._write(_line({"k": "end", "reason": self.ended}))
        except OSError as error:
            self._end(FAILED, str(error))
        finally:
            os.close(self._file)

    def _flush(self) -> None:
        while self._queue and self.ended in (None, OVERFLOW):
            chunk = self._chunk()
            try:
                self._write(b"".join(chunk))
            except OSError as error:
                self._end(FAILED, str(error))
            self.entries += len(chunk)

    def _chunk(self) -> list[bytes]:
        """The lines for one write; none once the file has reached its limit."""
        lines: list[bytes] = []
        size, room = 0, self._bytes_max - self.bytes
        while self._queue and size < CHUNK_BYTES:
            entry, counted = self._queue.popleft()
            self._done_bytes += counted
            line = _line(entry)
            if size + len(line) > room:
                self._end(FULL, f"the file has reached {self._bytes_max} bytes")
                break
            lines.append(line)
            size += len(line)
        return lines

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = os.write(self._file, view)
            self.bytes += written
            view = view[written:]

    def _end(self, reason: str, why: str) -> None:
        self.ended = reason
        log.error("recording ended; the broker goes on", file=str(self.path), why=why)


def _line(entry: Mapping[str, Any]) -> bytes:
    return to_json(entry).encode() + b"\n"
