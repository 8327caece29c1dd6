"""Completion in a shell: what is offered, and that bash takes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupd.coordinator.cli.completion import GROUPS_MAX, words
from tests.support.fake_admin import FakeAdmin, fake_admin, group_row

ROWS = [group_row(name) for name in ("audit", "billing", "billing-eu", "shipping")]
SCRIPT = """
source <(_GROUPD_COMPLETE=source_bash groupd)
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_groupd_completion groupd
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def admin() -> Iterator[FakeAdmin]:
    with fake_admin({"/groups": ROWS}) as fake:
        yield fake


def offered(directory: Path, *line: str) -> list[str]:
    """What bash would offer for the last word of the line."""
    bash = shutil.which("bash")
    assert bash is not None, "no bash on PATH (Debian: bash)"
    command = directory / "groupd"
    command.write_text(f'#!{bash}\nexec {sys.executable} -m groupd "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        [bash, "--norc", "-c", SCRIPT, "bash", "groupd", *line],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_groups_of_the_daemon_that_the_line_names(admin: FakeAdmin, tmp_path: Path) -> None:
    line = ("groups", "describe", "--admin", admin.address)
    assert offered(tmp_path, *line, "bill") == ["billing", "billing-eu"]
    assert admin.asked == [f"/groups?limit={GROUPS_MAX}&after=bill"], "no more than it needs"


def test_commands_words_and_nothing_without_a_daemon(tmp_path: Path) -> None:
    assert offered(tmp_path, "groups", "re") == ["restore", "reset"]
    assert offered(tmp_path, "groups", "list", "--sort", "") == ["name", "lag", "members"]
    assert offered(tmp_path, "groups", "why", "--admin", "127.0.0.1:1", "") == []


def test_words() -> None:
    assert words("table", "json")("j") == ["json"]
    assert words("table", "json")("") == ["table", "json"]
