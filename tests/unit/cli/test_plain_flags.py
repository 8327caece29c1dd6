"""What is read without typer is what typer reads."""

from __future__ import annotations

import inspect
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from groupd.coordinator.cli import serve as serving
from groupd.coordinator.cli.main import main
from groupd.coordinator.cli.plain_flags import serve_arguments

SIGNATURE = inspect.signature(serving.serve)
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
    ["--workers", "3"],
    ["--control"],
    ["--control-anywhere"],
    ["--record", "tape"],
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
    ["--record-max", "3"],
    ["--set", "--control"],
    ["--data-dir", ""],
    ["extra"],
    ["--", "extra"],
]


def bound(arguments: dict[str, Any]) -> dict[str, Any]:
    call = SIGNATURE.bind(**arguments)
    call.apply_defaults()
    return {name: value or None for name, value in call.arguments.items()}


def by_typer(words: list[str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(serving, "serve", lambda **arguments: seen.append(arguments))
    monkeypatch.setattr("groupd.coordinator.cli.main._served", lambda words: False)
    with pytest.raises(SystemExit) as end:
        main(["serve", *words])
    assert end.value.code == 0
    return seen[0]


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
    plain = serve_arguments(words)
    assert plain is not None
    assert bound(plain) == bound(by_typer(words, monkeypatch))


@pytest.mark.parametrize("words", FOR_TYPER, ids=" ".join)
def test_the_rest_is_for_typer(words: list[str]) -> None:
    assert serve_arguments(words) is None
    assert serve_arguments([*ALL[0], *words]) is None


def test_a_start_loads_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    """A whole one, until it would wait for its end; what is loaded is asked then."""
    code = (
        "import sys, groupd.coordinator.cli.main, groupd.coordinator.cli.serve as serve\n"
        "async def until(stop, daemon):\n"
        "    heavy = ('typer', 'pydantic', 'click', 'rich', 'sqlalchemy.orm', 'sqlalchemy.ext',\n"
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


def test_structlog_without_rich_leaves_rich_to_the_others() -> None:
    code = (
        "import sys\n"
        "from groupd.coordinator.cli.lean import load_structlog, without\n"
        "load_structlog()\n"
        "assert 'structlog' in sys.modules and 'rich' not in sys.modules\n"
        "import rich\n"
        "with without('rich'):\n"
        "    import rich.console\n"
        "assert sys.modules['rich'] is rich"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
