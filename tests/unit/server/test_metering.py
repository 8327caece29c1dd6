"""How long a request is worked on: the time of its steps, not the time in which it waits."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.security.quota_entities import CLIENT_ID, REQUEST_PERCENTAGE
from groupd.coordinator.security.quotas import Quotas
from groupd.coordinator.server.metering import Metering, RequestMeter
from groupd.protocol.wire.header import RequestHeader
from tests.support.manual_clock import ManualClock


class Time:
    ns = 0

    def __call__(self) -> int:
        return self.ns


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def meter(time: Time) -> RequestMeter:
    clock = ManualClock()
    quotas = Quotas(clock.monotonic_ms)
    quotas.change([(((CLIENT_ID, None),), {REQUEST_PERCENTAGE: 1})])
    found = Metering(quotas, clock, time).of("User:a", RequestHeader(3, 1, 1, "c", 0), 100)
    assert found is not None
    found.stop()
    return found


async def test_only_steps_count(meter: RequestMeter, time: Time) -> None:
    gate = asyncio.get_running_loop().create_future()

    async def work() -> None:
        time.ns += 60_000_000
        await gate
        time.ns += 50_000_000

    task = asyncio.ensure_future(meter.timed(work()))
    await asyncio.sleep(0)
    time.ns += 10_000_000_000
    gate.set_result(None)
    await task
    # 110 ms are 11 %-seconds: in ten seconds 1.1 %, where 1 % is allowed.
    assert meter.settle(object()) == pytest.approx(1000, abs=1)


async def test_errors_and_cancelling_reach_the_work(meter: RequestMeter) -> None:
    gate = asyncio.get_running_loop().create_future()
    seen: list[str] = []

    async def work() -> None:
        try:
            await gate
        except ValueError:
            seen.append("error")
        await asyncio.Event().wait()

    task = asyncio.ensure_future(meter.timed(work()))
    await asyncio.sleep(0)
    gate.set_exception(ValueError())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert seen == ["error"]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
