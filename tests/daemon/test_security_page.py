"""docs/security.md: its files and commands work, and print what the page shows."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from groupd.coordinator.cli.main import main
from groupd.coordinator.cli.parse import properties_file
from groupd.coordinator.config.coordinator_config import CoordinatorConfig, with_settings
from tests.support.daemon import Daemon
from tests.support.doc_snippets import DOCS, Snippet, snippets
from tests.support.peer import running
from tests.support.ports import free_ports

PAGE = "security.md"
PORT = "9092"
EVERYTHING = "\n## All of it in one example\n"
FOLDER, SASL_PORT, SSL_PORT = "/etc/groupd", "9093", "9094"
ELSEWHERE = {
    "kafka-configs": "tests/clients/test_quotas.py",
    "kafka-console-consumer": "tests/clients/test_security.py",
}
"""Programs that do not run here, and the test that calls them."""


def parts() -> tuple[list[Snippet], list[Snippet]]:
    """The snippets of the example with everything, and all others."""
    start = (DOCS / PAGE).read_text().partition(EVERYTHING)[0].count("\n") + 1
    found = snippets(PAGE)
    return [one for one in found if one.line > start], [one for one in found if one.line < start]


def write_files(directory: Path, found: list[Snippet]) -> None:
    """Writes those files of the page that have a name, as a comment in the first line."""
    for snippet in found:
        if snippet.language == "properties" and snippet.code.startswith("# "):
            name, _, content = snippet.code.partition("\n")
            path = directory / name.removeprefix("# ")
            path.touch(0o600)
            path.write_text(content)


def test_settings_without_a_file_are_settings(tmp_path: Path) -> None:
    for number, snippet in enumerate(snippets(PAGE)):
        if snippet.language == "properties" and not snippet.code.startswith("# "):
            path = tmp_path / str(number)
            path.write_text(snippet.code)
            assert with_settings(CoordinatorConfig(), properties_file(path, "--config"))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory with the files of the page."""
    write_files(tmp_path, parts()[1])
    return tmp_path


@pytest.fixture
def port(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The port of a broker with the configuration of the page."""
    monkeypatch.chdir(directory)
    free = str(free_ports("127.0.0.1", 1))
    config = directory / "groupd.properties"
    settings = config.read_text().replace(PORT, free)
    config.write_text(settings.replace("file=users", f"file={directory / 'users'}"))
    listeners = {"listeners": f"SASL_PLAINTEXT://127.0.0.1:{free}"}  # so that no --listen is given
    with running(Daemon(directory, settings=listeners, arguments=["--config", str(config)])):
        yield free


def test_users(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands = [one for one in parts()[1] if one.language == "console"]
    assert len(commands) >= 8
    for command in commands:
        if command.code.startswith("echo"):
            subprocess.run(command.code, shell=True, check=True)
        else:
            at_port = replace(command, code=f"{command.code} --bootstrap-server 127.0.0.1:{port}")
            assert printed(at_port, {PORT: port}, capsys) == command.output, command.code


def printed(command: Snippet, ports: Mapping[str, str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the command prints, with the ports of the page. `ports`: the port of the page -> the
    test's."""
    program, *arguments = shlex.split(command.code)
    assert program == "groupd"
    with pytest.raises(SystemExit):
        main(arguments)
    said = capsys.readouterr()
    text = said.out + said.err
    for shown, port in ports.items():
        text = re.sub(rf"\b{port}\b", shown, text)
    return text


def test_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The broker starts when the first command asks for one."""
    monkeypatch.chdir(tmp_path)
    sasl, other = (str(port) for port in two_free_ports())

    def here(text: str) -> str:
        text = text.replace(FOLDER, str(tmp_path))
        return text.replace(SASL_PORT, sasl).replace(SSL_PORT, other)

    found = [replace(one, code=here(one.code)) for one in parts()[0]]
    write_files(tmp_path, found)
    names: dict[str, object] = {"__name__": "snippet"}
    with ExitStack() as broker:
        for one in found:
            program = one.code.split()[0]
            if one.language == "properties" or program in ELSEWHERE:
                continue
            capsys.readouterr()
            if one.language == "python":
                exec(compile(one.code, f"{PAGE}:{one.line}", "exec"), names)
                assert capsys.readouterr().out == one.output
            elif program == "groupd":
                if not (tmp_path / "data").exists():
                    broker.enter_context(running(broker_with_everything(tmp_path)))
                assert printed(one, {SASL_PORT: sasl, SSL_PORT: other}, capsys) == one.output
            else:
                assert program in ("openssl", "cat", "chmod")
                subprocess.run(one.code, shell=True, check=True, capture_output=True)


def two_free_ports() -> tuple[int, int]:
    first = free_ports("127.0.0.1", 2)
    return first, first + 1


def broker_with_everything(directory: Path) -> Daemon:
    path = directory / "all.properties"
    listeners = properties_file(path, "--config")["listeners"]  # so that no --listen is given
    return Daemon(
        directory,
        topics={"orders": 1, "payroll": 1},
        settings={"listeners": listeners},
        arguments=["--config", str(path)],
    )
