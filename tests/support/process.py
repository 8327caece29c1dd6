"""Child processes whose output is read as it comes, with deadlines instead of sleeps.

Rules: a wait names what it waits for, has a deadline, and fails with the process's own output.
Every child is killed and reaped by `close()`, whatever the test did.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

POLL_S = 0.02
TAIL_LINES = 60


class WaitTimeout(AssertionError):
    """A condition did not come true before its deadline."""


def wait_until(
    condition: Callable[[], object],
    timeout_s: float,
    what: str,
    detail: Callable[[], str] = lambda: "",
) -> None:
    """Poll `condition` until it is true; WaitTimeout names `what` and shows `detail()`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise WaitTimeout(f"not within {timeout_s} s: {what}\n{detail()}")
        time.sleep(POLL_S)


class ChildProcess:
    """A child with its stdout collected as lines and its stderr in a file."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        stderr_path: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        self.arguments = list(arguments)
        self.stderr_path = stderr_path
        self.stdout_lines: list[str] = []
        self._on_line = on_line
        with stderr_path.open("ab") as stderr:
            self.popen = subprocess.Popen(
                self.arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=None if env is None else dict(env),
                cwd=cwd,
                text=True,
                bufsize=1,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            text = line.rstrip("\n")
            self.stdout_lines.append(text)
            if self._on_line is not None:
                self._on_line(text)

    @property
    def running(self) -> bool:
        return self.popen.poll() is None

    def write_line(self, text: str) -> None:
        """Send one line to the child's stdin."""
        assert self.popen.stdin is not None
        self.popen.stdin.write(text + "\n")
        self.popen.stdin.flush()

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.popen.pid, number)

    def kill(self) -> None:
        """SIGKILL and reap: the child gets no chance to say goodbye."""
        self.popen.kill()
        self.popen.wait()

    def wait_exit(self, timeout_s: float) -> int:
        """The exit code; WaitTimeout when it does not end in time."""
        try:
            code = self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise WaitTimeout(f"did not end within {timeout_s} s\n{self.output()}") from None
        self._reader.join(5)
        return code

    def stderr(self) -> str:
        return self.stderr_path.read_text(errors="replace") if self.stderr_path.exists() else ""

    def output(self) -> str:
        """The ends of both streams, for a failure message."""
        out = "\n".join(self.stdout_lines[-TAIL_LINES:])
        err = "\n".join(self.stderr().splitlines()[-TAIL_LINES:])
        return f"$ {' '.join(self.arguments)}\n--- stdout\n{out}\n--- stderr\n{err}"

    def close(self) -> None:
        """End the child if it still runs and close its pipes."""
        if self.running:
            self.popen.kill()
        self.popen.wait()
        self._reader.join(30)
        # To close what another thread reads from would wait for that thread for ever.
        assert not self._reader.is_alive(), f"somebody else has the stdout of {self.arguments}"
        for stream in (self.popen.stdin, self.popen.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    continue
