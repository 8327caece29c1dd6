"""TIME on the command line."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.cli.parse import UsageError, parse_time, show_time

NOW = 1_772_366_400_000  # 2026-03-01T12:00:00Z


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-03-01T12:00:00Z", NOW),
        ("2026-03-01T13:00:00+01:00", NOW),
        ("2026-03-01 12:00:00.250Z", NOW + 250),
        ("20260301T120000Z", NOW),
        (str(NOW), NOW),
        ("0", 0),
        ("now", NOW),
        ("-500ms", NOW - 500),
        ("-90s", NOW - 90_000),
        ("-15m", NOW - 900_000),
        ("-1h30m", NOW - 5_400_000),
        ("-7d", NOW - 604_800_000),
        ("-2w", NOW - 1_209_600_000),
    ],
)
def test_every_form_is_read(text: str, expected: int) -> None:
    assert parse_time(text, NOW) == expected


@pytest.mark.usefixtures("new_york")
def test_without_a_zone_it_is_local_time_summer_and_winter() -> None:
    assert parse_time("2026-03-01T07:00:00", NOW) == NOW
    assert parse_time("2026-03-01", NOW) == NOW - 7 * 3_600_000
    assert parse_time("20260301", NOW) == NOW - 7 * 3_600_000
    assert parse_time("2026-07-01T08:00", NOW) == parse_time("2026-07-01T12:00Z", NOW)
    assert show_time(NOW + 7) == "2026-03-01 07:00:00.007-05:00"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "-",
        "-5",
        "5m",
        "-5y",
        "2026-13-01",
        "1772366400",
        "9" * 30,
        "²",
        "-1.5h",
        "-٣m",
    ],
)
def test_what_is_no_time_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_time(text, NOW)
    assert text in str(refused.value)
    assert "\n" not in str(refused.value)


def test_seconds_are_not_taken_for_milliseconds() -> None:
    with pytest.raises(UsageError, match="seconds"):
        parse_time("1772366400", NOW)


@given(st.integers(0, 253_402_300_799_000))
def test_what_is_shown_is_read_back(time_ms: int) -> None:
    assert parse_time(show_time(time_ms), NOW) == time_ms


def test_unknown_times_are_a_dash() -> None:
    assert show_time(-1) == "-"
