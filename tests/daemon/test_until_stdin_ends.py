"""`--until-stdin-ends`: a daemon of a test does not outlive the program that started it."""

from __future__ import annotations

import shlex
import socket
import subprocess
import sys

from tests.support.daemon import ROOT, STOP_TIMEOUT_S, ports_of
from tests.support.process import wait_until

SERVE = [sys.executable, "-m", "groupd", "serve", "--control"]
SERVE += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-level", "error"]
FLAG = "--until-stdin-ends"
STARTER = """
import subprocess, sys, time
subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE)
time.sleep(600)
"""


def start(*command: str) -> tuple[subprocess.Popen[str], int]:
    """The process, and the Kafka port of the daemon that it is or starts."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    ports = ports_of(process.stdout.readline())
    if not ports:
        process.kill()
        process.wait()
        raise AssertionError("it does not serve")
    return process, ports["kafka"]


def serves(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def test_it_ends_in_order_when_stdin_ends() -> None:
    process, port = start(*SERVE, FLAG)
    with process:
        assert process.stdin is not None
        process.stdin.write("what is written there does not matter\n")
        process.stdin.flush()
        assert serves(port)
        process.stdin.close()
        assert process.wait(STOP_TIMEOUT_S) == 0
    assert not serves(port)


def test_it_ends_when_the_program_that_started_it_is_killed() -> None:
    starter, port = start(sys.executable, "-c", STARTER, *SERVE, FLAG)
    with starter:
        assert serves(port)
        starter.kill()
        wait_until(lambda: not serves(port), STOP_TIMEOUT_S, "the end of the daemon")


def test_without_the_flag_stdin_does_not_matter() -> None:
    process, port = start(*SERVE)
    with process:
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None
        assert serves(port)
        process.terminate()
        assert process.wait(STOP_TIMEOUT_S) == 0


def test_stdin_that_has_ended_before_ends_it_at_once() -> None:
    done = subprocess.run(
        [*SERVE, FLAG],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        cwd=ROOT,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_closed_stdin_is_refused() -> None:
    command = shlex.join([*SERVE, FLAG])
    done = subprocess.run(
        ["sh", "-c", f"exec {command} <&-"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=30,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "stdin is closed" in done.stderr
