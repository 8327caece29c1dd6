"""The Python programs of examples/, which docs/clients.md quotes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import ROOT, Daemon

PROGRAMS = ROOT / "examples" / "python"
USUAL = "127.0.0.1:9092"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path_factory.mktemp("daemon"), topics={"orders": 3})
    daemon.start()
    yield daemon
    daemon.close()


def printed(command: list[str], directory: Path) -> list[str]:
    """What the command prints about records."""
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if " order " in line]


@pytest.mark.parametrize("program", ["confluent.py", "aiokafka_client.py", "kafka_python.py"])
def test_a_program_needs_no_arguments(daemon: Daemon, program: str, tmp_path: Path) -> None:
    """It finds a broker on the usual port, which a test cannot have: the copy has another
    default."""
    source = (PROGRAMS / program).read_text()
    assert source.count(USUAL) == 1
    copy = tmp_path / program
    copy.write_text(source.replace(USUAL, daemon.bootstrap))
    assert len(printed([sys.executable, str(copy)], tmp_path)) == 10


def test_address_and_protocol_as_arguments(daemon: Daemon, tmp_path: Path) -> None:
    program = str(PROGRAMS / "confluent.py")
    assert len(printed([sys.executable, program, daemon.bootstrap, "classic"], tmp_path)) == 10
