"""What is read without typer is what typer reads."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from groupd.coordinator.cli.serve_flags import ServeFlags, flags, read_flags, typer_command

ROOT = Path(__file__).resolve().parents[3]
ALL = [
    ["--listen", "127.0.0.1:0"],
    ["--advertised", "example:9"],
    ["--admin", "[::1]:0"],
    ["--data-dir", "some/where"],
    ["--store", "memory://"],
    ["--topic", "a:1"],
    ["--topic", "b:2"],
    ["--config", "some.toml"],
    ["--set", "a=b"],
    ["--set", "c=d e"],
    ["--profile", "test"],
    ["--cluster"],
    ["--workers", "3"],
    ["--control"],
    ["--control-anywhere"],
    ["--control-security", "SASL_SSL"],
    ["--record", "tape"],
    ["--record-max", "3"],
    ["--until-stdin-ends"],
    ["--log-format", "json"],
    ["--log-level", "warning"],
]
FOR_TYPER = [
    ["--help"],
    ["--bogus"],
    ["--listen"],
    ["--listen=127.0.0.1:0"],
    ["--workers", "0"],
    ["--workers", "65"],
    ["--workers", "many"],
    ["--record-max", "0"],
    ["--set", "--control"],
    ["--data-dir", ""],
    ["extra"],
    ["--", "extra"],
]


def by_typer(words: list[str]) -> ServeFlags:
    seen: list[ServeFlags] = []
    app = typer.Typer()
    app.command()(typer_command(seen.append))
    typer.main.get_command(app).main(words, standalone_mode=False)
    return seen[0]


def test_the_cases_are_all_flags() -> None:
    assert {words[0] for words in ALL} == flags().keys()


@pytest.mark.parametrize(
    "words",
    [[], *ALL, list(itertools.chain(*ALL)), [*ALL[0], "--listen", "h:2"]],
    ids=lambda words: " ".join(words[:2]) or "none",
)
@pytest.mark.parametrize("store", [None, "", "sqlite:///x"])
def test_every_flag(words: list[str], store: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if store is None:
        monkeypatch.delenv("GROUPD_STORE", raising=False)
    else:
        monkeypatch.setenv("GROUPD_STORE", store)
    assert read_flags(words) == by_typer(words)


@pytest.mark.parametrize("words", FOR_TYPER, ids=" ".join)
def test_the_rest_is_for_typer(words: list[str]) -> None:
    assert read_flags(words) is None
    assert read_flags([*ALL[0], *words]) is None


def test_a_start_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    """Makes a whole start, up to where it would wait for its end, and asks then what is loaded."""
    code = (
        "import sys, groupd.coordinator.cli.main, groupd.coordinator.cli.serve as serve\n"
        "async def until(stop, daemon):\n"
        "    heavy = ('typer', 'pydantic', 'click', 'sqlalchemy.orm', 'sqlalchemy.ext',\n"
        "        'prometheus_client', 'h11', 'http.', 'tomllib', 'crc32c._cli',\n"
        "        'groupd.storage.memory',\n"
        "        'groupd.testing', 'groupd.coordinator.recording')\n"
        "    print('loaded', *(name for name in sys.modules if name.startswith(heavy)))\n"
        "serve._until = until\n"
        f"groupd.coordinator.cli.main.main(['serve', '--listen', '127.0.0.1:0',"
        " '--admin', '127.0.0.1:0',"
        f" '--data-dir', {str(tmp_path)!r}])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[1:] == ["loaded"]
