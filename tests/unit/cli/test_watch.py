"""`groupd groups watch`: its frames, one frame as text, and the live view in a real terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import suppress
from io import StringIO
from typing import Any

import pytest
from rich.console import Console, Group

from groupd.coordinator.cli.groups.watch import FrameSize, group_frame, groups_frame
from groupd.coordinator.cli.main import main
from tests.support.fake_admin import FakeAdmin, fake_admin, group_row
from tests.support.process import wait_until

LONG = "a-service-of-the-department-of-long-names-in-region-eu-central-1-instance-number-"
ROWS = [
    group_row("audit"),
    group_row("billing", lag=506, lag_seconds=97, judgement="stalled"),
    group_row("new", lag=None, judgement=None),
    group_row("shipping", lag=900, lag_seconds=3, judgement="behind"),
    group_row("stock", lag=7, judgement="stopped"),
]
FOUND = {
    "group_id": "billing",
    "type": "consumer",
    "state": "Reconciling",
    "members": [
        {
            "member_id": f"{LONG}{number}",
            "instance_id": None,
            "client_id": "billing-1",
            "client_host": "/127.0.0.1",
            "state": "STABLE",
            "member_epoch": 4,
        }
        for number in range(30)
    ],
    "blocked": [{"member_id": "c3", "why": "waits for orders-3: c1 has it", "in_ms": 60_000}],
    "deadlines": [
        {"kind": "consumer-session", "member_id": f"c{number}", "in_ms": 45_000 - number}
        for number in range(9)
    ],
}
OFFSETS = {"now_ms": 0, "members": [], "partitions": [{"lag": 5}, {"lag": None}, {"lag": 2}]}


def drawn(frame: Group, columns: int = 80) -> list[str]:
    out = StringIO()
    Console(file=out, width=columns).print(frame)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_the_worst_come_first() -> None:
    title, head, _, *lines = drawn(groups_frame(ROWS, 0, FrameSize(80, 24)))
    assert title == "5 groups, 3 to look at"
    assert head.split() == ["group_id", "state", "members", "lag", "lag", "time", "judgement"]
    assert [line.split()[0] for line in lines] == ["billing", "stock", "shipping", "new", "audit"]


def test_a_frame_fits_the_terminal() -> None:
    rows = [group_row(f"[red]{LONG}{number}", lag=10**12) for number in range(1000)]
    for columns, height in ((80, 24), (120, 50), (200, 10)):
        lines = drawn(groups_frame(rows, 0, FrameSize(columns, height)), columns)
        assert len(lines) <= height
        assert max(map(len, lines)) <= columns
        assert lines[3].startswith("[red]"), "an id is no markup"
        assert lines[-1].startswith("  ... and 9")
        assert ("last rebalance" in lines[1]) is (columns >= 110)
        lines = drawn(group_frame(FOUND, OFFSETS, FrameSize(columns, height)), columns)
        assert max(map(len, lines)) <= columns
    assert len(drawn(group_frame(FOUND, OFFSETS, FrameSize(80, 24)))) <= 24


def test_one_group_with_its_waits_and_its_next_deadlines() -> None:
    lines = drawn(group_frame(FOUND, OFFSETS, FrameSize(80, 50)))
    assert lines[0] == "billing: consumer, Reconciling, 30 members, lag 7"
    at = lines.index("waits for:")
    assert lines[at + 1] == "  c3: waits for orders-3: c1 has it (1 min left)"
    assert lines[at + 2] == "deadlines:"
    assert lines[at + 3] == "  consumer-session of c8 in 44 s", "the next one comes first"
    assert lines[-1] == "  ... and 4 more"


def test_a_deadline_of_a_partition_names_it() -> None:
    due = {"kind": "lock", "member_id": "", "of": ["orders", 3], "in_ms": 2000}
    lines = drawn(group_frame({**FOUND, "deadlines": [due]}, OFFSETS, FrameSize(80, 50)))
    assert lines[-1] == "  lock of orders-3 in 2 s"


@pytest.fixture
def admin() -> Iterator[FakeAdmin]:
    path = "/groups/billing"
    with fake_admin({"/groups": ROWS, path: FOUND, f"{path}/offsets": OFFSETS}) as fake:
        yield fake


def test_without_a_terminal_it_is_one_frame_of_text(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, told in (([], "5 groups"), (["billing"], "30 members")):
        with pytest.raises(SystemExit) as ended:
            main(["groups", "watch", *arguments, "--admin", admin.address])
        assert ended.value.code == 0
        assert told in capsys.readouterr().out.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "told"), [(["nobody"], "not found"), (["--admin", "127.0.0.1:1"], "no answer")]
)
def test_without_an_answer_it_is_one_line_and_exit_code_1(
    arguments: list[str], told: str, admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["groups", "watch", "--admin", admin.address, *arguments])
    assert ended.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


class Screen:
    """A command in a terminal of 80 columns."""

    def __init__(self, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        command = [sys.executable, "-m", "groupd", "groups", "watch", *arguments]
        self.process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24"},
        )
        os.close(theirs)
        os.set_blocking(self._ours, False)
        self.text = ""

    def shows(self, word: str) -> bool:
        with suppress(BlockingIOError, OSError):
            self.text += os.read(self._ours, 1 << 16).decode(errors="replace")
        return word in self.text

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait(10)
        os.close(self._ours)


@pytest.mark.slow
def test_live_until_q_ends_it(admin: FakeAdmin) -> None:
    screen = Screen("--admin", admin.address)
    try:
        wait_until(lambda: screen.shows("shipping"), 30, "the first frame")
        del admin.answers["/groups"]
        wait_until(lambda: screen.shows("not found"), 30, "the next frame, without an answer")
        screen.type("x")
        screen.type("q")
        assert _ended(screen) == 0
    finally:
        screen.close()


@pytest.mark.slow
def test_an_interrupt_is_an_end_like_any_other(admin: FakeAdmin) -> None:
    screen = Screen("billing", "--admin", admin.address)
    try:
        wait_until(lambda: screen.shows("deadlines"), 30, "the first frame")
        screen.process.send_signal(signal.SIGINT)
        assert _ended(screen) == 0
        assert "Traceback" not in screen.text
    finally:
        screen.close()


def _ended(screen: Screen) -> Any:
    wait_until(lambda: screen.shows("") and screen.process.poll() is not None, 10, "the end")
    return screen.process.returncode
