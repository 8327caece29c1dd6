"""The age of records, from how the end of their log was seen to grow; and the last hour of lag."""

from __future__ import annotations

from groupd.coordinator.lag.growth import MINUTE_MS, POINTS_MAX, Growth, Trend

ROUND = 10_000


def grown(*ends: int) -> Growth:
    growth = Growth()
    for at, end in enumerate(ends):
        growth.add(at * ROUND, end)
    return growth


def test_the_age_is_taken_from_the_rounds_around_a_record() -> None:
    growth = grown(0, 100, 200)
    assert growth.age_ms(0, 30_000) == 30_000
    assert growth.age_ms(50, 30_000) == 25_000
    assert growth.age_ms(100, 30_000) == 20_000
    assert growth.age_ms(200, 30_000) is None


def test_a_log_that_stands_still_takes_two_points_and_stays_exact() -> None:
    growth = grown(100, *[100] * 1000, 110)
    # Record 105 came in the last round, however long the log had been quiet before.
    assert growth.age_ms(105, 1001 * ROUND) == 5_000
    assert len(growth.times) == 3


def test_records_from_before_the_first_round_are_looked_up() -> None:
    growth = grown(100, 150)
    assert (growth.knows(40), growth.knows(100)) == (False, True)
    assert growth.age_ms(40, 20_000) == 20_000  # at least
    growth.seed(40, -500_000)
    assert growth.knows(40)
    assert growth.age_ms(40, 20_000) == 520_000
    assert growth.age_ms(70, 20_000) == 270_000
    growth.seed(20, 7_000_000)  # a producer's clock that is ahead does not turn the order
    assert growth.age_ms(20, 20_000) == 520_000


def test_a_topic_that_was_made_anew_begins_a_new_history() -> None:
    growth = grown(100, 150, 5)
    assert growth.ends[-1] == 5
    assert growth.age_ms(3, 30_000) == 10_000


def test_long_histories_are_thinned_out() -> None:
    growth = grown(*range(0, 100_000, 10))
    assert len(growth.times) <= POINTS_MAX
    now = 10_000 * ROUND
    for offset in (0, 50, 12_345, 77_777, 99_980):
        exact = now - offset * ROUND // 10
        age = growth.age_ms(offset, now)
        assert age is not None
        assert abs(age - exact) <= ROUND  # it grows evenly, so nothing is lost here


def test_an_empty_trend_knows_nothing_however_late_it_is() -> None:
    assert Trend().minutes(10**15) == [None] * 60


def test_the_trend_keeps_the_most_of_each_minute_for_an_hour() -> None:
    trend = Trend()
    assert trend.flat
    start = 1_000 * MINUTE_MS
    for at, value in ((0, 5), (10_000, 9), (20_000, 7), (3 * MINUTE_MS, 2)):
        trend.add(start + at, value)
    assert trend.minutes(start + 4 * MINUTE_MS)[-6:] == [None, 9, None, None, 2, None]
    assert trend.minutes(start + 3 * MINUTE_MS, at_once=2)[-3:] == [None, 9, 2]
    assert not trend.flat
    trend.add(start + 200 * MINUTE_MS, 0)
    assert trend.minutes(start + 200 * MINUTE_MS) == [None] * 59 + [0]
    assert trend.flat
