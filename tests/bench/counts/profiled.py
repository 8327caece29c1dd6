"""Runs a module and writes down which Python functions each of its requests calls:
`python profiled.py OUT MODULE ARGUMENT...`.

It imports nothing of groupd, so it also runs the tree of another commit. A request's calls are all
calls from the read that brings it to the read that brings the next one, in every thread. OUT is
written when the module ends: see `trace.read`.
"""

from __future__ import annotations

import json
import runpy
import sys
import threading
from collections import defaultdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

READS = "get_buffer", "server/"
"""The function that begins a read, and where it is; older trees have none."""
RECEIVES = "data_received", "server/connection.py"
"""The function that gets what was read, in an argument `data`."""
CORRELATION = slice(8, 12)
"""The correlation id of the first frame of what was read: it says which row the request is of."""
LEFT_OUT = (
    "LoopStalls.",
    "PauseAwareClock.ring",
    "Deadlines._requeue",
    "_keep_survivors",
    "catch.<locals>",
)
"""Functions that are called when it is time, by timers and for them, by the garbage collector and
by signals: they and what they call do not count."""


class Trace:
    """The calls of requests, by the correlation id of each."""

    def __init__(self) -> None:
        self.requests: dict[int, list[list[tuple[bool, int, CodeType]]]] = defaultdict(list)
        """The calls of each request. A call is (whether the thread of the event loop made it, its
        depth, its function)."""
        self._calls: list[tuple[bool, int, CodeType]] = []
        self._last: list[tuple[bool, int, CodeType]] | None = None
        """Those of the last request that has come."""
        self._own: dict[CodeType, bool] = {}
        """Whether a function is groupd's. What its schemas compile has no module name."""
        self._thread = threading.local()

    def note(self, frame: FrameType, event: str, arg: Any) -> None:
        """The profile function of `sys.setprofile`."""
        if event not in ("call", "return"):
            return
        thread = self._thread
        depth = getattr(thread, "depth", 0)
        outside = getattr(thread, "outside", None)
        if event == "return":
            thread.depth = depth - 1
            if outside == depth - 1:
                thread.outside = None
            return
        thread.depth = depth + 1
        if outside is not None:
            return
        code = frame.f_code
        if code.co_qualname.startswith(LEFT_OUT):
            thread.outside = depth
            return
        if code.co_name == READS[0] and READS[1] in code.co_filename:
            self._calls = []
        elif code.co_name == RECEIVES[0] and code.co_filename.endswith(RECEIVES[1]):
            number = int.from_bytes(frame.f_locals["data"][CORRELATION], "big")
            if self._calls is self._last:
                self._calls = []
            self._last = self._calls
            self.requests[number].append(self._calls)
        if code not in self._own:
            self._own[code] = frame.f_globals.get("__name__", "groupd.").startswith("groupd.")
        in_loop = threading.current_thread() is threading.main_thread()
        self._calls.append((in_loop, depth, code))

    def write(self, path: Path) -> None:
        numbers: dict[CodeType, int] = {}
        requests = {
            number: [
                [
                    (loop, depth, numbers.setdefault(code, len(numbers)))
                    for loop, depth, code in calls
                ]
                for calls in found
            ]
            for number, found in self.requests.items()
        }
        functions = [(code.co_filename, code.co_qualname, self._own[code]) for code in numbers]
        path.write_text(json.dumps({"functions": functions, "requests": requests}))


def main() -> None:
    out, module, *arguments = sys.argv[1:]
    trace = Trace()
    sys.argv[:] = [module, *arguments]
    threading.setprofile(trace.note)
    sys.setprofile(trace.note)
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        sys.setprofile(None)
        trace.write(Path(out))


if __name__ == "__main__":
    main()
