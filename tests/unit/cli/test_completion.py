"""Completion in a shell: what is offered, and that bash takes it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupd.coordinator.cli.completion import GROUPS_MAX, words
from tests.support.fake_admin import FakeAdmin, fake_admin, group_row

ROWS = [group_row(name) for name in ("audit", "billing", "billing-eu", "shipping")]
SOURCE = "source <(_GROUPD_COMPLETE=source_bash groupd)\n"
ASK = """
COMP_WORDS=(groupd {words})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_groupd_completion groupd
echo "${{COMPREPLY[*]}}"
"""


@pytest.fixture
def admin() -> Iterator[FakeAdmin]:
    with fake_admin({"/groups": ROWS}) as fake:
        yield fake


def offered(directory: Path, *lines: list[str]) -> list[list[str]]:
    """What bash would offer for the last word of each line."""
    bash = shutil.which("bash")
    assert bash is not None, "no bash on PATH (Debian: bash)"
    command = directory / "groupd"
    command.write_text(f'#!{bash}\nexec {sys.executable} -m groupd "$@"\n')
    command.chmod(0o755)
    script = SOURCE + "".join(ASK.format(words=shlex.join(line)) for line in lines)
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
        env={**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split() for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_commands_words_and_groups(admin: FakeAdmin, tmp_path: Path) -> None:
    assert offered(
        tmp_path,
        ["groups", "re"],
        ["groups", "list", "--sort", ""],
        ["groups", "describe", "--admin", admin.address, "bill"],
        ["groups", "why", "--admin", "127.0.0.1:1", ""],
        ["groups", "why", "--admin", "no..host:1", ""],
    ) == [["restore", "reset"], ["name", "lag", "members"], ["billing", "billing-eu"], [], []]
    assert admin.asked == [f"/groups?limit={GROUPS_MAX}&after=bill"], "no more than it needs"


def test_words() -> None:
    assert words("table", "json")("j") == ["json"]
    assert words("table", "json")("") == ["table", "json"]
