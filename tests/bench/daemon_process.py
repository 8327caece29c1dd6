"""Starts `groupd serve` as a child process, for benchmarks."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from tests.bench.proc import cpu_seconds, resident_bytes
from tests.support.toolchain import ROOT

READY_TIMEOUT_S = 30.0


class DaemonProcess:
    """`groupd serve` as a child process; context manager."""

    def __init__(
        self,
        *flags: str,
        data_dir: Path,
        ready_timeout_s: float = READY_TIMEOUT_S,
        installed: Path | None = None,
        under: Sequence[str | Path] = (),
    ) -> None:
        """`installed`: the tree of another commit, whose daemon is started; `under`: a script that
        runs the module that it is given, and its first arguments."""
        self._installed = installed
        self._under = under
        self._ready_timeout_s = ready_timeout_s
        self._flags = flags
        self._data_dir = data_dir
        self._log = (data_dir / "daemon.log").open("wb")
        self._process: subprocess.Popen[str] | None = None
        self.kafka = ("", 0)
        self.tls_port = 0
        """The port of the listener SSL; 0 if there is none."""
        self.admin = ("", 0)

    def __enter__(self) -> DaemonProcess:
        tree = self._installed or ROOT
        # -P: neither the working directory, which has this tree, nor that of a script is searched.
        command = [sys.executable, "-P", *map(str, self._under or ["-m"]), _program(tree), "serve"]
        command += ["--admin", "127.0.0.1:0"]
        if not any(flag.startswith("listeners=") for flag in self._flags):
            command += ["--listen", "127.0.0.1:0"]
        command += ["--data-dir", str(self._data_dir / "data"), "--log-level", "warning"]
        self._process = subprocess.Popen(
            [*command, *self._flags],
            env={**os.environ, "PYTHONPATH": str(tree)},
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        assert self._process.stdout is not None
        if select.select([self._process.stdout], [], [], self._ready_timeout_s)[0]:
            line = self._process.stdout.readline()
        else:
            line = ""
        if not line.startswith("groupd ready"):
            self.__exit__(None, None, None)
            log = (self._data_dir / "daemon.log").read_text(errors="replace")
            raise RuntimeError(f"the daemon did not start: {log.strip()[-500:]}")
        fields = dict(part.split("=", 1) for part in line.split()[2:])
        self.kafka = _address(fields["kafka"])
        self.tls_port = _address(fields.get("ssl", ":0"))[1]
        self.admin = _address(fields["admin"])
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process is not None and process.stdout is not None:
            process.stdout.close()
        self._log.close()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def cpu_seconds(self) -> float:
        """User and system time so far."""
        return cpu_seconds(self.pid)

    def metric(self, name: str) -> float:
        """The value of one metric without labels. Raises KeyError."""
        url = f"http://{self.admin[0]}:{self.admin[1]}/metrics"
        with urllib.request.urlopen(url, timeout=10) as reply:
            lines = reply.read().decode().splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return float(values[name])

    def resident_bytes(self) -> int:
        return resident_bytes(self.pid)

    def settle(self) -> None:
        """Let the daemon finish background work before memory is read."""
        time.sleep(0.3)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def _program(tree: Path) -> str:
    """The package to start: commits from before the package `groupd` have `coordinator`."""
    return "groupd" if (tree / "groupd" / "__main__.py").is_file() else "coordinator"
