"""Rates and buckets of tokens against Kafka's arithmetic (docs/spec/security.md#5.1)."""

from __future__ import annotations

import pytest

from groupd.coordinator.security.quotas import Rate, TokenBucket, Windows

WINDOWS = Windows(11, 1000)


def test_ten_seconds_worth_may_come_at_once() -> None:
    rate = Rate(WINDOWS)
    rate.add(10_000, 0)
    assert rate.throttle_ms(1000, 0) == 0
    rate.add(1, 0)
    assert rate.throttle_ms(1000, 0) == 1


@pytest.mark.parametrize(("size", "throttle_ms"), [(20_000, 10_000), (15_000, 5_000)])
def test_what_is_too_much_is_waited_off(size: int, throttle_ms: int) -> None:
    rate = Rate(WINDOWS)
    rate.add(size, 0)
    assert rate.throttle_ms(1000, 0) == throttle_ms


def test_the_current_window_counts_as_far_as_it_is_over() -> None:
    rate = Rate(WINDOWS)
    rate.add(12_000, 0)
    # 12,000 in 10.5 s are 1142.86 a second: 14.286 % of 10.5 s too much.
    assert rate.throttle_ms(1000, 500) == 1500


def test_samples_are_forgotten_after_eleven_windows() -> None:
    rate = Rate(WINDOWS)
    rate.add(5_000, 0)
    rate.add(7_000, 4_000)
    assert rate.total(10_999) == 12_000
    assert rate.total(11_000) == 7_000
    assert rate.total(15_000) == 0
    assert rate.throttle_ms(1, 15_000) == 0


def test_the_time_since_the_oldest_sample_counts_where_it_is_longer() -> None:
    rate = Rate(WINDOWS)
    for second in range(11):
        rate.add(1_000, second * 1000 + 900 * (second > 0))
    # From 0 to 10.9 s: 11,000 in 10.9 s.
    assert rate.throttle_ms(1000, 10_900) == 100


def test_taken_back() -> None:
    rate = Rate(WINDOWS)
    rate.add(20_000, 0)
    rate.add(-20_000, 10)
    assert rate.total(10) == 0


def test_a_bucket_starts_full_and_may_be_overdrawn() -> None:
    bucket = TokenBucket(WINDOWS)
    bucket.take(11, 1.0, 0)
    assert bucket.throttle_ms(1.0, 0) == 0
    bucket.take(30, 1.0, 0)
    assert bucket.throttle_ms(1.0, 0) == 30_000
    assert bucket.throttle_ms(1.0, 29_000) == 1_000
    assert bucket.throttle_ms(1.0, 30_000) == 0


def test_a_bucket_takes_no_more_than_fits_in() -> None:
    bucket = TokenBucket(WINDOWS)
    bucket.take(1, 1.0, 0)
    bucket.take(12, 1.0, 1_000_000)
    assert bucket.throttle_ms(1.0, 1_000_000) == 1_000


def test_a_smaller_quota_holds_at_once() -> None:
    bucket = TokenBucket(WINDOWS)
    bucket.take(1, 100.0, 0)
    bucket.take(12, 1.0, 0)
    assert bucket.throttle_ms(1.0, 0) == 1_000
