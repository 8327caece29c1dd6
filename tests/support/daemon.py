"""A started groupd process: the unit under test of everything that goes over TCP."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.ports import free_ports
from tests.support.process import ChildProcess, wait_until
from tests.support.with_internal_limits import NAMES

ROOT = Path(__file__).resolve().parents[2]
READY = re.compile(r"^groupd ready (kafka=\S+(?: \S+=\S+)* admin=\S+)$")
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 5.0


def ports_of(line: str) -> dict[str, int]:
    """The ports that a ready line tells, by name; none if it is another line."""
    ready = READY.match(line.rstrip())
    if ready is None:
        return {}
    places = (place.partition("=") for place in ready[1].split(" "))
    return {name: int(address.rpartition(":")[2]) for name, _, address in places}


def refused(arguments: Sequence[str], directory: Path) -> str:
    """Runs `serve`, which must end with exit code 2; returns its single line on stderr."""
    command = [sys.executable, "-m", "groupd", "serve", "--admin", "127.0.0.1:0", *arguments]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, ""), ended
    (line,) = ended.stderr.splitlines()
    return line


class Daemon:
    """One data directory and the process that serves it.

    `settings` may name constants, too (`tests.support.with_internal_limits`).

    `start`, `stop` (SIGTERM, exit code 0 within 5 s), `kill` (SIGKILL), `restart` (same ports, same
    data). `env` is added to the environment. `bootstrap` and `admin_url` are the real addresses
    once started.
    """

    kind = "groupd"

    def __init__(
        self,
        directory: Path,
        *,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self.data_dir = directory / "data"
        self.host = "127.0.0.1"
        self.port = free_ports(self.host, 1)  # the same after a restart
        self.admin_port = 0
        self.ports: dict[str, int] = {}
        """The ports by their names in the ready line."""
        self._topics = dict(topics or {})
        self._settings = dict(settings or {})
        self._arguments = list(arguments)
        self._env = None if env is None else {**os.environ, **env}
        self._process: ChildProcess | None = None

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def nodes(self) -> list[str]:
        """Addresses of all nodes that clients see."""
        return [self.bootstrap]

    @property
    def admin_url(self) -> str:
        return f"http://{self.host}:{self.admin_port}"

    @property
    def process(self) -> ChildProcess:
        assert self._process is not None, "the daemon was not started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.popen.pid

    def command(self) -> list[str]:
        """The command line, with the ports of the last start if there was one."""
        constants = [f"{name}={value}" for name, value in self._settings.items() if name in NAMES]
        started = (
            ["tests.support.with_internal_limits", ",".join(constants)] if constants else ["groupd"]
        )
        command = [sys.executable, "-m", *started, "serve"]
        if "listeners" not in self._settings:
            command += ["--listen", f"{self.host}:{self.port}"]
        command += ["--admin", f"{self.host}:{self.admin_port}"]
        command += ["--data-dir", str(self.data_dir)]
        for name, partitions in self._topics.items():
            command += ["--topic", f"{name}:{partitions}"]
        for key, value in self._settings.items():
            command += [] if key in NAMES else ["--set", f"{key}={value}"]
        return command + self._arguments

    def start(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start and wait for the ready line; fails with the daemon's output."""
        self.launch()
        self.wait_ready(timeout_s)

    def launch(self) -> None:
        """Start the process; `wait_ready` waits until it serves."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._process = ChildProcess(
            self.command(), stderr_path=self.directory / "groupd.log", env=self._env, cwd=ROOT
        )

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait for the ready line; fails with the daemon's output."""
        process = self.process
        wait_until(
            lambda: process.stdout_lines or not process.running,
            timeout_s,
            "the ready line",
            process.output,
        )
        self.ports = ports_of(process.stdout_lines[0] if process.stdout_lines else "")
        assert self.ports, f"no ready line\n{process.output()}"
        self.port, self.admin_port = self.ports["kafka"], self.ports["admin"]

    def stop(self) -> None:
        """SIGTERM: must exit 0 within 5 s."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait_exit(STOP_TIMEOUT_S)
        assert code == 0, f"exit code {code}\n{self.process.output()}"

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nobody is told."""
        self.process.kill()

    def restart(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start again on the same ports and data; a running process is killed first."""
        if self.process.running:
            self.kill()
        self.process.close()
        self.start(timeout_s)

    def logs(self) -> str:
        return self._process.output() if self._process is not None else "(never started)"

    def close(self) -> None:
        """End the process without a verdict."""
        if self._process is not None:
            self._process.close()


@contextmanager
def ends_well(daemon: Daemon) -> Iterator[None]:
    """Stops the daemon after the block; its log must have no traceback then."""
    try:
        yield
        daemon.stop()
    finally:
        daemon.close()
    assert "Traceback" not in (daemon.directory / "groupd.log").read_text()
