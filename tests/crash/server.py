"""A daemon that can be killed at any moment of its life, also while it starts.

Importing takes most of a start. So the process imports first and waits for a line on its stdin;
from then on it is the ordinary command line, and what a round waits for is the start itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests.support.daemon import ROOT, ports_of

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 6.0

_PREPARED = """
import sys
import prometheus_client, sqlalchemy.dialects.sqlite.pysqlite, uvloop
import groupd.coordinator.cli.main, groupd.coordinator.daemon.daemon, groupd.coordinator.logs
import asyncpg, groupd.storage.postgres, groupd.storage.sqlite
print("prepared", flush=True)
if sys.stdin.readline():
    groupd.coordinator.cli.main.main(sys.argv[1:])
"""

ERROR_MARKS = ("level=error", "level=critical", "Traceback")


class Server:
    """One process. `port` once it is ready."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log
        self.port = 0

    @classmethod
    async def prepare(cls, arguments: Sequence[str], log: Path) -> Server:
        """A process that will serve with `arguments` once it is told to."""
        command = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", *arguments]
        with log.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                _PREPARED,
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        return cls(process, log)

    async def go(self) -> None:
        """Begins to start; `ready` waits for the end of it."""
        assert await self._line() == "prepared", self.log()
        assert self._process.stdin is not None
        self._process.stdin.write(b"go\n")
        await self._process.stdin.drain()

    async def ready(self) -> None:
        ports = ports_of(await self._line())
        assert ports, f"no ready line\n{self.log()}"
        self.port = ports["kafka"]

    async def _line(self) -> str:
        assert self._process.stdout is not None
        async with asyncio.timeout(START_TIMEOUT_S):
            return (await self._process.stdout.readline()).decode().rstrip("\n")

    def terminate(self) -> None:
        """Sends SIGTERM: an orderly stop begins."""
        self._process.send_signal(signal.SIGTERM)

    async def kill(self) -> None:
        """Sends SIGKILL, whatever it is doing; also if it has ended."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
        await self._process.wait()

    async def exit_code(self) -> int:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            return await self._process.wait()

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def errors(self) -> list[str]:
        """Lines of the log that no healthy daemon writes."""
        return [line for line in self.log().splitlines() if any(m in line for m in ERROR_MARKS)]
