"""However often and in whatever way a daemon is asked to stop: it ends in order.

Java's `Process.destroy`, for one, sends SIGTERM and closes all pipes within some milliseconds."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.support.daemon import ROOT, ports_of
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.wire_client import WireClient
from tests.support.wire_requests import commit, fetch_offset, fetched

STOP_S = 10.0
START_S = 60.0
DISTANCES_MS, FEW_DISTANCES_MS = [0, 0.2, 1, 3, 8, 21], [0, 3]
MOMENTS_MS = [0, 30, 80, 130, 180, 230, 280, 330, 400, 500, 700]
FEW_MOMENTS_MS = [0, 130, 280, 500]
NIGHTLY = pytest.mark.nightly
KINDS: dict[str, list[str]] = {
    "plain": [],
    "control": ["--control"],
    "record": ["--record", "{directory}/recording"],
    "workers": ["--workers", "2"],
}
Ask = Callable[[subprocess.Popen[str]], None]


def send(number: signal.Signals) -> Ask:
    return lambda process: process.send_signal(number)


def close_stdin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.close()


def close_pipes(process: subprocess.Popen[str]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()


TERM, INT = send(signal.SIGTERM), send(signal.SIGINT)
WAYS: dict[str, tuple[Ask, Ask]] = {
    "stdin ends, SIGTERM": (close_stdin, TERM),
    "SIGTERM, stdin ends": (TERM, close_stdin),
    "SIGTERM twice": (TERM, TERM),
    "SIGINT, SIGTERM": (INT, TERM),
    "SIGTERM, all pipes closed": (TERM, close_pipes),
    "all pipes closed, SIGTERM": (close_pipes, TERM),
}


@pytest.fixture(params=list(KINDS))
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The daemon to be stopped. With further nodes it needs a database."""
    if request.param == "workers":
        server: PostgresServer = request.getfixturevalue("postgres")
        monkeypatch.setenv("GROUPD_STORE", server.url(server.emptied_database()))
    return str(request.param)


def launch(directory: Path, arguments: Sequence[str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "groupd", "serve", "--until-stdin-ends"]
    command += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--topic", "t:1"]
    command += [one.format(directory=directory) for one in arguments]
    if "--control" not in arguments:
        command += ["--data-dir", str(directory / "data")]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT)


def port_of(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    ports = ports_of(process.stdout.readline())
    assert ports, "it does not serve"
    return ports["kafka"]


def ended_in_order(process: subprocess.Popen[str], both: tuple[Ask, Ask], after_ms: float) -> None:
    """Asks in both ways, one after the other, and checks that the daemon ends in order."""
    first, second = both
    first(process)
    if after_ms:
        time.sleep(after_ms / 1000)  # the distance is what is tried
    if process.poll() is None:
        second(process)
    code = process.wait(STOP_S)
    said = ""
    if process.stderr is not None and not process.stderr.closed:
        said = process.stderr.read()
        assert "stopped" in said.splitlines()[-1], said
        assert "Traceback" not in said
    assert code == 0, f"exit code {code}\n{said}"


def close(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


@pytest.mark.parametrize(
    "distances_ms",
    [FEW_DISTANCES_MS, pytest.param(DISTANCES_MS, marks=NIGHTLY)],
    ids=["few", "many"],
)
@pytest.mark.parametrize("way", list(WAYS))
def test_two_requests_at_any_distance_are_one(
    tmp_path: Path, kind: str, way: str, distances_ms: Sequence[float]
) -> None:
    """What was acknowledged just before is there at the next start."""
    offset = 0
    for number, after_ms in enumerate(distances_ms):
        durable = kind != "control"
        directory = tmp_path if durable and kind != "record" else tmp_path / str(number)
        directory.mkdir(exist_ok=True)
        process = launch(directory, KINDS[kind])
        try:
            port = port_of(process)
            if kind == "plain":
                offset = commit_next(port, offset)
            ended_in_order(process, WAYS[way], after_ms)
        finally:
            close(process)


def commit_next(port: int, last: int) -> int:
    """Finds the last offset, commits the next one."""
    found: list[tuple[int, int]] = []
    with WireClient("127.0.0.1", port) as client:

        def loaded() -> bool:
            found[:] = [fetched(client.pipeline([fetch_offset("t")])[0])]
            return found[0][1] == 0

        wait_until(loaded, START_S, "the group's shard")
        assert found[0][0] == (last or -1)
        (reply,) = client.pipeline([commit("t", last + 1)])
    assert reply["topics"][0]["partitions"][0]["error_code"] == 0
    return last + 1


def catches_signals(process: subprocess.Popen[str]) -> bool:
    """Whether it has a handler for SIGTERM by now, the last one that it makes."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize(
    "moments_ms", [FEW_MOMENTS_MS, pytest.param(MOMENTS_MS, marks=NIGHTLY)], ids=["few", "many"]
)
def test_at_any_moment_of_the_start(tmp_path: Path, kind: str, moments_ms: Sequence[float]) -> None:
    ways = itertools.cycle(WAYS.values())
    for number, started_ms in enumerate(moments_ms):
        directory = tmp_path / str(number)
        directory.mkdir()
        process = launch(directory, KINDS[kind])
        try:
            # Before that the interpreter loads itself, and nobody could do anything.
            wait_until(partial(catches_signals, process), START_S, "the handlers")
            time.sleep(started_ms / 1000)  # the moment is what is tried
            ended_in_order(process, next(ways), number % 3)
        finally:
            close(process)
