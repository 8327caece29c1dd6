"""Limits on the length of a log line, and on the number of lines of one event. Clients cause log
lines, so without limits one client could fill the disk or hide the lines about others.
"""

from __future__ import annotations

import atexit
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import Any

import structlog
from msgspec import Struct, structs
from structlog.typing import EventDict, WrappedLogger

from groupd.coordinator.security import audit
from groupd.protocol.messages.secret import Secret

VALUES_MAX = 4000
"""The largest length of all values of a line together, in characters of JSON."""
TRACEBACK_MAX = 3500
"""The largest length of a traceback, in characters of JSON; its middle is cut out."""
LINES_MAX = 100
"""How many lines of one event are logged in a window; those at DEBUG do not count."""
WINDOW_S = 10.0
EVENTS_MAX = 1000
"""How many different events are counted in a window; all further ones share one limit."""

_DEPTH_MAX = 6
_CUT = "..."
_FIRST = ("timestamp", "level", "event")

log = structlog.get_logger("groupd.log")


def _later(seconds: float, call: Callable[[], None]) -> None:
    """Call on a thread, because the event loop may stand still, and a replay has no loop in real
    time."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


class LineLimit:
    """A structlog processor that lets `LINES_MAX` lines of each event pass in every window. After
    the window one line says how many were left out. Lines of the audit log pass: it has its own
    limit. `elapsed`: a clock in seconds. `later(seconds, call)` calls once, on any thread."""

    def __init__(
        self,
        elapsed: Callable[[], float] = time.monotonic,
        later: Callable[[float, Callable[[], None]], None] = _later,
    ) -> None:
        self._elapsed = elapsed
        self._later = later
        self._lock = threading.Lock()
        self._until = 0.0
        self._seen: Counter[str] = Counter()
        self._armed = False

    def __call__(self, _: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if method == "debug" or event.get("log") == audit.LOG:
            return event
        name = str(event.get("event"))
        with self._lock:
            now = self._elapsed()
            ended = self._take() if now >= self._until else {}
            if not self._seen:
                self._until = now + WINDOW_S
            if name not in self._seen and len(self._seen) >= EVENTS_MAX:
                name = ""
            self._seen[name] += 1
            passes = self._seen[name] <= LINES_MAX
            arm = not passes and not self._armed
            self._armed = self._armed or arm
        self._tell(ended)
        if arm:
            self._arm(self._until - now)
        if not passes:
            raise structlog.DropEvent
        return event

    def _arm(self, seconds: float) -> None:
        try:
            self._later(seconds, self.end)
        except Exception:  # noqa: BLE001 - no thread can be started: the next line tells
            self._armed = False

    def end(self) -> None:
        """End the window: log how many lines were left out in it."""
        with self._lock:
            self._armed = False
            ended = self._take()
        self._tell(ended)

    def _take(self) -> dict[str, int]:
        """Returns how many lines of each event were left out, and resets all counts."""
        ended = {name: seen - LINES_MAX for name, seen in self._seen.items() if seen > LINES_MAX}
        self._seen.clear()
        return ended

    def _tell(self, ended: dict[str, int]) -> None:
        for name, count in sorted(ended.items()):
            log.warning("log lines left out", of=name or "other events", left_out=count)


def limit_lines() -> LineLimit:
    """A limit in real time. At the end of the process it logs what it has left out."""
    limit = LineLimit()
    atexit.register(limit.end)
    return limit


def bounded(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """A structlog processor that shortens values and tracebacks. It comes after the processor that
    turns tracebacks into text. Its cost does not grow with the size of a value."""
    room = _Room(VALUES_MAX)
    short = {name: room.fit(event[name]) for name in _FIRST if name in event}
    for name, value in event.items():
        if name == "exception":
            short[name] = _without_middle(value)
        elif name not in short:
            short[name] = room.fit(value)
    return short


class _Room:
    """Counts how many more characters the values of a line may take."""

    def __init__(self, left: int) -> None:
        self._left = left

    def fit(self, value: Any, depth: int = 0) -> Any:
        """The value, or its beginning if it is too long. It keeps its type: a list stays a list,
        and a class of ours stays the same class with shorter fields."""
        self._left -= 4  # for the separators between values
        match value:
            case None | bool() | int() | float() | Enum() | type():
                self._left -= 8
                return value
            case str():
                return self._text(value)
            case Secret():
                self._left -= len(str(value))
                return value
            case bytes() | bytearray() | memoryview():
                most = max(self._left, 0) // 2
                self._left -= 2 * min(len(value), most)
                return value if len(value) <= most else bytes(value[:most])
        if depth >= _DEPTH_MAX:
            return _CUT
        if isinstance(value, Struct):
            names = value.__struct_fields__
            return structs.replace(
                value, **{name: self.fit(getattr(value, name), depth + 1) for name in names}
            )
        if isinstance(value, Mapping):
            found: dict[str, Any] = {}
            for key in value:
                if self._left <= 0:
                    found[_CUT] = f"{len(value) - len(found)} more"
                    break
                found[self._text(str(key))] = self.fit(value[key], depth + 1)
            return found
        if isinstance(value, Collection):
            return self._items(value, depth)
        text = str(value)
        return value if len(text) <= self._left and text.isascii() else self._text(text)

    def _items(self, value: Collection[Any], depth: int) -> Collection[Any]:
        found: list[Any] = []
        for item in value:
            if self._left <= 0:
                found.append(f"{_CUT} {len(value) - len(found)} more")
                break
            found.append(self.fit(item, depth + 1))
        return tuple(found) if isinstance(value, tuple) else found

    def _text(self, text: str) -> str:
        most = max(self._left, 0)
        shown = _beginning(text, most)
        self._left -= _length(shown)
        return text if len(shown) == len(text) else shown + _CUT


def _length(text: str) -> int:
    """The length of `text` as JSON with all escapes, which is the longest form in JSON."""
    return len(json.dumps(text)) - 2  # msgspec does not escape characters outside ASCII


def _beginning(text: str, most: int) -> str:
    """The beginning of `text` that takes at most `most` characters as JSON."""
    shown = text[:most]
    while (length := _length(shown)) > most:
        shown = shown[: len(shown) * most // length]
    return shown


def _without_middle(traceback: str) -> str:
    half = TRACEBACK_MAX // 2
    first = _beginning(traceback, half)
    last = _beginning(traceback[len(first) :][::-1], half)[::-1]
    cut = len(traceback) - len(first) - len(last)
    return traceback if cut <= 0 else f"{first}\n{_CUT} {cut} characters {_CUT}\n{last}"
