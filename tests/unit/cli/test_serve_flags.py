"""What is read without typer is what typer reads."""

from __future__ import annotations

import itertools

import pytest
import typer

from groupd.coordinator.cli.serve_flags import ServeFlags, flags, read_flags, typer_command

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
