"""docs/security.md: its files and commands work, and print what the page shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from groupd.coordinator.cli.main import main
from tests.support.daemon import Daemon
from tests.support.doc_snippets import Snippet, snippets
from tests.support.peer import running
from tests.support.ports import free_ports

PAGE = "security.md"
PORT = "9092"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """With the files of the page, and those of passwords that it speaks of."""
    found = {}
    for snippet in snippets(PAGE):
        if snippet.language == "properties":
            name, _, content = snippet.code.partition("\n")
            found[name.removeprefix("# ")] = content
    for user in ("billing", "reports"):
        found[f"{user}.password"] = f"{user}-secret\n"
    for name, content in found.items():
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_text(content)
    return tmp_path


@pytest.fixture
def port(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """That of a broker with the configuration of the page."""
    monkeypatch.chdir(directory)
    free = str(free_ports("127.0.0.1", 1))
    config = directory / "groupd.properties"
    settings = config.read_text().replace(PORT, free)
    config.write_text(settings.replace("file=users", f"file={directory / 'users'}"))
    listeners = {"listeners": f"SASL_PLAINTEXT://127.0.0.1:{free}"}  # so that no --listen is given
    with running(Daemon(directory, settings=listeners, arguments=["--config", str(config)])):
        yield free


def test_users(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands = [one for one in snippets(PAGE) if one.language == "console"]
    assert len(commands) >= 6
    for command in commands:
        assert printed(command, port, capsys) == command.output, command.code


def printed(command: Snippet, port: str, capsys: pytest.CaptureFixture[str]) -> str:
    program, *arguments = shlex.split(command.code)
    assert program == "groupd"
    with pytest.raises(SystemExit):
        main([*arguments, "--bootstrap-server", f"127.0.0.1:{port}"])
    said = capsys.readouterr()
    return re.sub(rf"\b{port}\b", PORT, said.out + said.err)
