"""Percentiles of durations and rates of counters, as a scrape sees them."""

from __future__ import annotations

import random

import pytest

from groupd.coordinator.admin.rates import WINDOW_MS, Rates
from groupd.coordinator.runtime.stats import VALUES_KEPT, Durations

MS = 1_000_000


def test_percentiles_are_those_of_the_nearest_rank() -> None:
    durations = Durations()
    values = list(range(1, 1001))
    random.shuffle(values)
    for value in values:
        durations.add(value * MS)
    assert durations.quantiles() == {
        "max": 1000,
        "p50": 500,
        "p95": 950,
        "p99": 990,
        "p999": 999,
    }


@pytest.mark.parametrize(("values", "expected"), [([], 0), ([3 * MS], 3)])
def test_percentiles_of_nothing_and_of_one(values: list[int], expected: float) -> None:
    durations = Durations()
    for value in values:
        durations.add(value)
    assert set(durations.quantiles().values()) == {expected}


def test_only_the_last_values_are_kept() -> None:
    durations = Durations()
    durations.add(10_000 * MS)
    for _ in range(VALUES_KEPT):
        durations.add(MS)
    assert durations.quantiles()["max"] == 1


def test_a_rate_is_the_increase_over_the_last_minute() -> None:
    rates = Rates(0)
    assert rates.look(10_000, {"x": 50}) == {"x": 5.0}
    assert rates.look(WINDOW_MS, {"x": 50})["x"] == pytest.approx(50 / 60)
    # The look at 10 s is the oldest one that is a minute old.
    assert rates.look(70_000, {"x": 110}) == {"x": 1.0}


def test_a_second_scraper_does_not_disturb() -> None:
    alone, both = Rates(0), Rates(0)
    for second in range(1, 200):
        counters = {"x": second * 7.0}
        now_ms = second * 1000
        seen = both.look(now_ms, counters)
        both.look(now_ms + 1, counters)
        assert seen == alone.look(now_ms, counters) == {"x": pytest.approx(7.0)}


def test_after_a_long_silence_the_rate_is_since_the_last_look() -> None:
    rates = Rates(0)
    rates.look(1_000, {"x": 1})
    assert rates.look(601_000, {"x": 61}) == {"x": 0.1}


def test_looks_at_the_same_moment_divide_by_nothing() -> None:
    rates = Rates(5)
    assert rates.look(5, {"x": 0}) == {"x": 0}
