"""Reads a recording. It may come from a stranger, so all of it is checked before it is used."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from msgspec import Struct, field

from groupd.coordinator.recording.tape import FORMAT, VERSION

# A file that ends in the middle of a line (the process was killed, or the disk was full) is read up
# to that line, and `torn` is set. Damage anywhere else is an error. Files packed with gzip are read
# without unpacking them first.

LINE_BYTES_MAX = 256 << 20
_GZIP = b"\x1f\x8b"

TapeEntry = dict[str, Any]


class BadRecording(Exception):
    """The recording is damaged or wrong. `str()` is one line that says what is wrong, and where."""


class RecordingFile:
    """A recording. `header`: its first line. `torn` and `end` are known only after `entries` has
    reached the end."""

    def __init__(self, path: str | Path) -> None:
        """Raises BadRecording."""
        self.path = Path(path)
        self.torn = False
        self.end: str | None = None
        self.line = 0
        try:
            first = next(self._lines(), None)
        except BadRecording:
            if self.line != 1:
                raise
            first = None
        if first is None or not isinstance(first.get(FORMAT), int):
            raise BadRecording(f"{path}: is no recording of groupd")
        if first[FORMAT] != VERSION:
            raise BadRecording(
                f"{path}: has format {first[FORMAT]}, this groupd reads {VERSION}; replay it with "
                f"groupd {first.get('version', 'of its time')}"
            )
        self.header = first

    def entries(self) -> Iterator[TapeEntry]:
        """All entries but the header, in order. Raises BadRecording."""
        self.torn, self.end, self.line = False, None, 0
        lines = self._lines()
        next(lines)
        for entry in lines:
            if not isinstance(entry.get("k"), str):
                raise self.bad("is no entry")
            if entry["k"] == "end":
                self.end = str(entry.get("reason"))
                return
            yield entry
        self.torn = True

    def bad(self, what: str) -> BadRecording:
        """The error about the line that was read last."""
        return BadRecording(f"{self.path}: line {self.line} {what}")

    def _lines(self) -> Iterator[TapeEntry]:
        try:
            with self.path.open("rb") as raw:
                file = _unpacked(raw)
                while line := file.readline(LINE_BYTES_MAX):
                    self.line += 1
                    if not line.endswith(b"\n"):
                        if len(line) == LINE_BYTES_MAX:
                            raise self.bad(f"is longer than {LINE_BYTES_MAX} bytes")
                        return  # the last line is not complete
                    yield self._entry(line)
        except EOFError:
            return  # a packed file that was cut off
        except (OSError, gzip.BadGzipFile) as error:
            reason = error.strerror if isinstance(error, OSError) else None
            raise BadRecording(f"{self.path}: {reason or error}") from None

    def _entry(self, line: bytes) -> TapeEntry:
        try:
            # Not msgspec, which refuses the lone surrogates that a recording may hold.
            entry = json.loads(line)
        except (ValueError, RecursionError):
            raise self.bad("is damaged") from None
        if not isinstance(entry, dict):
            raise self.bad("is no entry")
        return entry


def _unpacked(raw: BinaryIO) -> BinaryIO:
    packed = raw.read(2) == _GZIP
    raw.seek(0)
    return cast(BinaryIO, gzip.open(raw)) if packed else raw


class Script(Struct):
    """What a replay must know before it begins. `inputs`: the number of inputs; `timers`: how often
    timers fire, by kind and due time; `began`, `ended`: keys of store operations."""

    inputs: int = 0
    requests: int = 0
    timers: Counter[tuple[str, int]] = field(default_factory=Counter)
    began: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)


def survey(file: RecordingFile) -> Script:
    """Read the whole file once and collect its `Script`. Raises BadRecording."""
    script = Script()
    last = 0
    for entry in file.entries():
        kind = entry["k"]
        if "n" in entry:
            if entry["n"] != last + 1:
                raise file.bad(f"has number {entry['n']} after {last}")
            last += 1
        if kind == "timer":
            script.timers[str(entry.get("of")), _whole(file, entry.get("due"))] += 1
        elif kind == "began":
            script.began.add(str(entry.get("op")))
        elif kind == "stored":
            script.ended.add(str(entry.get("op")))
        elif kind == "frame":
            script.requests += 1
    script.inputs = last
    return script


def _whole(file: RecordingFile, value: object) -> int:
    if not isinstance(value, int):
        raise file.bad("has a time that is none")
    return value
