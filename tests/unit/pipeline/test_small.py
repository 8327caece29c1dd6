"""A small log gets a quick start, whatever it is not known of does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from groupd.pipeline import session
from groupd.pipeline.inputs import Origin

SEGMENT = "__consumer_offsets-3/00000000000000000000.log"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for name in (SEGMENT, "groupd.sqlite", "entries/day=2026-01-01/part-0.parquet"):
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(1000))
    return tmp_path


def origins(logs: Path) -> list[Origin]:
    return [
        Origin(segments=str(logs)),
        Origin(store=str(logs)),
        Origin(store=f"sqlite+aiosqlite:///{logs}/groupd.sqlite"),
        Origin(lake=str(logs)),
    ]


def test_what_lies_here_is_measured(logs: Path) -> None:
    assert [session.log_bytes(origin) for origin in origins(logs)] == [1000] * 4
    assert all("TieredStopAtLevel" in str(session.small_log_settings(one)) for one in origins(logs))


def test_a_large_log_starts_as_it_is(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "SMALL_BYTES", 999)
    assert [session.small_log_settings(origin) for origin in origins(logs)] == [{}] * 4


@pytest.mark.parametrize(
    "origin",
    [
        Origin(kafka="127.0.0.1:9092"),
        Origin(store="postgresql+asyncpg://user:password@127.0.0.1/groupd"),
        Origin(lake="s3a://bucket/groupd"),
        Origin(segments="/nowhere"),
        Origin(store="/nowhere/groupd.sqlite"),
        Origin(store="unknown://"),
    ],
)
def test_what_is_elsewhere_or_nowhere_is_not_measured(origin: Origin) -> None:
    assert session.log_bytes(origin) is None
    assert session.small_log_settings(origin) == {}
