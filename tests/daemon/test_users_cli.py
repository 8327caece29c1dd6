"""`groupd users` against a broker."""

from __future__ import annotations

import getpass
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from groupd.coordinator.cli.main import main
from groupd.coordinator.cli.parse import UsageError
from groupd.coordinator.cli.users import read_password
from groupd.testing.harness import GroupCoordinator

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def broker() -> Iterator[GroupCoordinator]:
    with GroupCoordinator.start({}) as started:
        yield started


@pytest.fixture
def run(
    broker: GroupCoordinator,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """`groupd users ...`: its exit code, stdout and stderr."""

    def run(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as ended:
            main(["users", *arguments, "--bootstrap-server", broker.bootstrap_servers])
        printed = capsys.readouterr()
        code = ended.value.code
        assert isinstance(code, int)
        return code, printed.out, printed.err

    return run


def listed(run: Run, *users: str) -> list[tuple[str, str, int]]:
    code, out, _ = run("list", *users, "--format", "json")
    assert code == 0
    found = [json.loads(line) for line in out.splitlines()]
    return [(one["user"], one["mechanism"], one["iterations"]) for one in found]


def test_made_listed_and_removed(run: Run, tmp_path: Path) -> None:
    assert run("list") == (0, "", "groupd: no users\n")
    assert run("add", "alice", stdin="hush-hush\n") == (0, "", "")
    file = tmp_path / "password"
    file.touch(0o600)
    file.write_text("hush-hush\r\nmore\n")
    both = ["--mechanism", "scram-sha-256", "--mechanism", "SCRAM-SHA-512"]
    bob = ["add", "bob", *both, "--iterations", "8192", "--password-file", str(file)]
    assert run(*bob) == (0, "", "")
    assert listed(run) == [
        ("alice", "SCRAM-SHA-512", 4096),
        ("bob", "SCRAM-SHA-256", 8192),
        ("bob", "SCRAM-SHA-512", 8192),
    ]
    assert listed(run, "bob", "nobody", "bob") == listed(run)[1:]
    _, table, _ = run("list", "alice")
    assert [line.split() for line in table.splitlines() if "alice" in line] == [
        ["alice", "SCRAM-SHA-512", "4096"]
    ]
    assert run("remove", "bob", "--mechanism", "SCRAM-SHA-256")[0] == 0
    assert listed(run, "bob") == [("bob", "SCRAM-SHA-512", 8192)]
    assert run("add", "bob", stdin="other")[0] == 0
    assert listed(run, "bob") == [("bob", "SCRAM-SHA-512", 4096)]
    assert run("remove", "bob")[0] == run("remove", "alice")[0] == 0
    assert listed(run) == []
    code, _, error = run("remove", "alice")
    assert (code, error) == (1, "groupd: there is no such credential of user alice\n")


def test_mistakes(run: Run, tmp_path: Path) -> None:
    """One line, exit code 2, and no user is made."""
    open_file = tmp_path / "open"
    open_file.write_text("hush\n")
    open_file.chmod(0o644)
    mistakes = {
        ("add", "x"): "the password is empty",
        ("add", "x", "--mechanism", "PLAIN"): "must be SCRAM-SHA-256 or SCRAM-SHA-512",
        ("add", "x", "--iterations", "4095"): "Too few iterations",
        ("add", "x", "--iterations", "16385"): "Too many iterations",
        ("add", ""): "Username must not be empty",
        ("add", "x", "--password-file", "/nowhere"): "No such file",
        ("add", "x", "--password-file", str(open_file)): "every user of this machine may read",
        ("list", "--format", "xml"): "--format",
        ("remove", "x", "--mechanism", "x"): "must be SCRAM-SHA-256",
    }
    for arguments, reason in mistakes.items():
        code, out, error = run(*arguments)
        assert (code, out) == (2, ""), arguments
        assert reason in error
        assert len(error.splitlines()) == 1
    assert listed(run) == []


def test_a_broker_that_is_not_there() -> None:
    with pytest.raises(SystemExit) as ended:
        main(["users", "list", "--bootstrap-server", "127.0.0.1:1"])
    assert ended.value.code == 1


def test_a_person_types_the_password_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    typed: list[str] = []
    monkeypatch.setattr(getpass, "getpass", lambda prompt: typed.pop(0))
    monkeypatch.setattr(sys, "stdin", Terminal())
    typed[:] = ["hush", "hush"]
    assert read_password(None, "alice") == "hush"
    typed[:] = ["hush", "husch"]
    with pytest.raises(UsageError, match="not the same"):
        read_password(None, "alice")
