"""A broker in a process of its own, with the same calls as a broker on a thread."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

from groupd.coordinator.faults.errors import HarnessError
from groupd.testing.child import STARTED
from groupd.testing.engine import HarnessOptions
from groupd.testing.frames import Frames

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""

CLOSE_TIMEOUT_S = 5.0


class ChildProcess:
    """A broker in a child process, with the same methods as `LoopThread`. `pid`: its process id,
    for sending signals."""

    def __init__(self, options: HarnessOptions) -> None:
        self._options = options
        self._numbers = itertools.count(STARTED + 1)
        self._calls: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self._gone = False
        self._process: subprocess.Popen[bytes]
        self._frames: Frames
        self._reader = threading.Thread(target=self._read, name="groupd-calls", daemon=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self) -> Future[Any]:
        root = str(Path(__file__).parents[2])
        code = f"import sys; sys.path.insert(0, {root!r}); from groupd.testing import child"
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"{code}; child.main()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._frames = Frames(self._process.stdout, self._process.stdin)  # type: ignore[arg-type]
        started = self._calls[STARTED] = Future()
        self._reader.start()
        try:
            self._frames.send(self._options)
        except OSError:
            self._fail_calls()
        return started

    def call(self, name: str, *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._gone:
                raise HarnessError("the broker's process is gone")
            number = next(self._numbers)
            self._calls[number] = future
        try:
            self._frames.send((number, name, args, options))
        except OSError:
            self._fail_calls()
        return future

    def close(self) -> None:
        """Stop the broker and end the process. A second call does nothing."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            # A call that the dead process did not take is still in the buffer: closing writes it.
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _read(self) -> None:
        while True:
            try:
                number, result, error = self._frames.receive()
            except (EOFError, OSError, ValueError):
                self._fail_calls()
                return
            with self._lock:
                future = self._calls.pop(number)
            if error is not None:
                future.set_exception(error)
            elif future.set_running_or_notify_cancel():
                future.set_result(result)

    def _fail_calls(self) -> None:
        with self._lock:
            self._gone = True
            calls, self._calls = self._calls, {}
        for future in calls.values():
            if not future.done():
                future.set_exception(HarnessError("the broker's process is gone"))
