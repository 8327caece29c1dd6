"""Requests that workers forward: long ones keep the main process from nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.server.decoding import AT_ONCE
from groupd.coordinator.workers.main_frontend import MainFrontend
from groupd.coordinator.workers.messages import Forward
from groupd.protocol.wire.registry import MalformedRequest
from groupd.storage.log import LogUnavailable
from tests.unit.server.test_decoding import describe
from tests.unit.server.test_long_replies import DESCRIBE, LONG, ask


class FakeBroker:
    """Keeps what it is asked."""

    def __init__(self) -> None:
        self.config = CoordinatorConfig()
        # Its clock makes every step a slice of its own.
        self.now = 0
        self.work = LongWork(self.elapsed)
        self.asked: list[tuple[RequestContext, Any]] = []

    def elapsed(self) -> int:
        self.now += 1_500_000
        return self.now

    def submit(self, context: RequestContext, request: Any) -> None:
        self.asked.append((context, request))


class NoWorkers:
    def behind(self) -> set[asyncio.Future[bytes]]:
        return set()


def frontend(broker: Any) -> MainFrontend:
    return MainFrontend(broker, "cluster", NoWorkers())


async def test_a_long_request_is_decoded_in_a_thread() -> None:
    broker = FakeBroker()
    made = frontend(broker)
    made.forwarded(Forward("/h", describe(1, AT_ONCE)[4:]))
    assert len(broker.asked) == 1
    made.forwarded(Forward("/h", describe(2, AT_ONCE + 1)[4:]))
    assert len(broker.asked) == 1
    async with asyncio.timeout(10):
        while len(broker.asked) < 2:
            await asyncio.sleep(0)
    assert broker.asked[1][1].groups == ("",) * (AT_ONCE + 1)
    made.close()


async def test_what_cannot_be_decoded_is_an_error_for_the_worker() -> None:
    made = frontend(FakeBroker())
    with pytest.raises(MalformedRequest):
        await made.forwarded(Forward("/h", describe(1, 5)[4:-1]))
    with pytest.raises(MalformedRequest):
        await made.forwarded(Forward("/h", describe(2, AT_ONCE + 5)[4:-1]))
    made.close()


async def test_a_long_reply_is_encoded_in_steps() -> None:
    broker = FakeBroker()
    answer = frontend(broker).forwarded(Forward("/h", ask(DESCRIBE, 0, 7)[4:]))
    context, _ = broker.asked[0]
    context.token.send(LONG[DESCRIBE])
    turns = 0
    while not answer.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 4
    assert answer.result()[4:8] == (7).to_bytes(4, "big")


async def test_a_worker_that_is_gone_needs_no_answer() -> None:
    broker = FakeBroker()
    answer = frontend(broker).forwarded(Forward("/h", ask(DESCRIBE, 0, 7)[4:]))
    answer.cancel()
    context, _ = broker.asked[0]
    context.token.send(LONG[DESCRIBE])
    await asyncio.sleep(0)
    assert broker.work.under_way == 0


async def test_a_forwarded_request_whose_reply_is_lost_fails() -> None:
    """It fails so that the worker answers its client."""
    broker = FakeBroker()
    answer = frontend(broker).forwarded(Forward("/h", describe(1, 1)[4:]))
    waiter = broker.asked[0][0].token
    waiter.lose()
    waiter.lose()
    with pytest.raises(LogUnavailable):
        await answer
