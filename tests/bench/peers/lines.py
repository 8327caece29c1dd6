"""A child that answers commands line by line."""

from __future__ import annotations

import select
import subprocess
from collections.abc import Mapping, Sequence

TIMEOUT_S = 120.0


class LineProcess:
    """A child process. Its standard error goes to ours."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        self.command = list(command)
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=None if env is None else dict(env),
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def read(self, timeout_s: float = TIMEOUT_S) -> str:
        """One line without its end. Raises RuntimeError."""
        stdout = self._process.stdout
        assert stdout is not None
        line = stdout.readline() if select.select([stdout], [], [], timeout_s)[0] else ""
        if not line:
            raise RuntimeError(f"no answer from {self.command[0]}")
        return line.rstrip("\n")

    def send(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()

    def ask(self, command: str) -> str:
        self.send(command)
        return self.read()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """Ends it by the end of its input; kills it if that does not help."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
