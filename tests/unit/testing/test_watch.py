"""Waiting without polling."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.faults.errors import WaitTimeout
from groupd.testing.watch import Watch


async def test_a_condition_is_looked_at_inside_the_notification() -> None:
    watch, state = Watch(), [0]
    waiting = asyncio.create_task(
        watch.until(lambda: "seen" if state[0] == 1 else None, 5, lambda: "")
    )
    await asyncio.sleep(0)
    state[0] = 1
    watch.changed()
    state[0] = 2  # it lasted for one notification only
    watch.changed()
    assert await waiting == "seen"


async def test_a_condition_that_holds_already_does_not_wait() -> None:
    assert await Watch().until(lambda: 5, 0, lambda: "") == 5


async def test_a_timeout_explains() -> None:
    with pytest.raises(WaitTimeout, match=r"not within 0\.01 s: because"):
        await Watch().until(lambda: None, 0.01, lambda: "because")


async def test_a_condition_that_fails_fails_its_own_wait_only() -> None:
    watch, broken = Watch(), [False]

    def ready() -> int | None:
        return 1 // 0 if broken[0] else None

    failing = asyncio.create_task(watch.until(ready, 5, lambda: ""))
    fine = asyncio.create_task(watch.until(lambda: 7 if broken[0] else None, 5, lambda: ""))
    await asyncio.sleep(0)
    broken[0] = True
    watch.changed()
    with pytest.raises(ZeroDivisionError):
        await failing
    assert await fine == 7
