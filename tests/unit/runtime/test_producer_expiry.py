"""Idle producers are forgotten in time, and only those."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.producers.transactions import Marker
from groupd.coordinator.runtime import producer_expiry
from groupd.coordinator.runtime.producer_expiry import ProducerExpiry
from groupd.protocol.records.batch import parse_header
from groupd.protocol.records.batch_builder import encode_batch
from tests.support.manual_clock import ManualClock

DAY_MS = 86_400_000
CHECK_MS = 600_000


def write(
    producers: ProducerStates,
    producer: int,
    timestamp_ms: int,
    *,
    offset: int = 0,
    sequence: int = 0,
    transactional: bool = False,
) -> None:
    payload = encode_batch(0, 0, timestamp_ms, [(None, b"v")], producer, 0, sequence, transactional)
    header = parse_header(payload)
    assert producers.check(header) is None
    producers.appended(header, offset)


def known(producers: ProducerStates) -> list[int]:
    return [producer_id for producer_id, _ in producers.active()]


class Bench:
    def __init__(self, logs: int = 1) -> None:
        self.clock = ManualClock()
        self.logs = [ProducerStates() for _ in range(logs)]
        self.expiry = ProducerExpiry(CoordinatorConfig(), self.clock, lambda: self.logs)
        self.expiry.start()

    @property
    def now_ms(self) -> int:
        return self.clock.now().wall_ms

    async def after(self, ms: int) -> None:
        """Lets time pass, check by check."""
        while ms > 0:
            self.clock.advance(min(ms, CHECK_MS))
            ms -= CHECK_MS
            for _ in range(5):
                await asyncio.sleep(0)


@pytest.fixture
async def bench() -> Bench:
    return Bench()


async def test_an_idle_producer_is_forgotten_after_a_day(bench: Bench) -> None:
    (log,) = bench.logs
    write(log, 7, bench.now_ms)
    await bench.after(DAY_MS - CHECK_MS)
    assert known(log) == [7]
    await bench.after(CHECK_MS)
    assert known(log) == []
    assert bench.expiry.expired == 1
    # It is one that was never seen: it may go on with any sequence.
    write(log, 7, bench.now_ms, sequence=5, offset=1)
    await bench.expiry.close()


async def test_one_that_writes_stays(bench: Bench) -> None:
    (log,) = bench.logs
    for day in range(4):
        write(log, 7, bench.now_ms, sequence=day, offset=day)
        await bench.after(DAY_MS // 2)
    assert known(log) == [7]
    await bench.expiry.close()


async def test_an_open_transaction_keeps_its_producer(bench: Bench) -> None:
    (log,) = bench.logs
    write(log, 7, bench.now_ms, transactional=True)
    await bench.after(3 * DAY_MS)
    assert known(log) == [7]
    log.marked(Marker(7, 0, True, 0, 1), 1, bench.now_ms)
    await bench.after(DAY_MS - CHECK_MS)
    assert known(log) == [7]
    await bench.after(CHECK_MS)
    assert known(log) == []
    await bench.expiry.close()


async def test_the_time_is_that_of_the_records(bench: Bench) -> None:
    """As in Kafka, a producer that writes records of last week is idle at once."""
    (log,) = bench.logs
    write(log, 7, bench.now_ms - 7 * DAY_MS)
    await bench.after(CHECK_MS)
    assert known(log) == []
    await bench.expiry.close()


async def test_others_have_a_turn_during_a_long_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_expiry, "TURN_PRODUCERS", 10)
    bench = Bench(logs=100)
    for log in bench.logs:
        write(log, 7, bench.now_ms)
    bench.clock.advance(DAY_MS)
    turns = 0
    while any(known(log) for log in bench.logs):
        turns += 1
        await asyncio.sleep(0)
    assert turns >= 20
    await bench.expiry.close()


async def test_close_in_the_middle_of_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_expiry, "TURN_PRODUCERS", 1)
    bench = Bench(logs=10)
    for log in bench.logs:
        write(log, 7, bench.now_ms)
    bench.clock.advance(DAY_MS)
    await asyncio.sleep(0)
    await bench.expiry.close()
    left = sum(log.count for log in bench.logs)
    assert 0 < left < 10
    bench.clock.advance(DAY_MS)
    await asyncio.sleep(0)
    assert sum(log.count for log in bench.logs) == left
