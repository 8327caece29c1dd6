"""The store is asked for the sizes of logs once at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

import pytest

from groupd.coordinator.topics.data_plane import _log_sizes
from groupd.storage.call_batcher import CallBatcher
from groupd.storage.log import LogUnavailable
from groupd.storage.memory import MemoryStore


class SlowStore(MemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.answers = asyncio.Semaphore(0)
        self.fails = False

    async def log_sizes(self) -> dict[str, int]:
        self.asked += 1
        asked = self.asked
        await self.answers.acquire()
        if self.fails:
            raise LogUnavailable("no")
        return {"a": asked}


async def turns() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_those_who_wait_share_the_next_answer() -> None:
    store = SlowStore()
    sizes: CallBatcher[None, Mapping[str, int]] = CallBatcher(partial(_log_sizes, store))
    first = asyncio.create_task(sizes.ask(None))
    await turns()
    others = [asyncio.create_task(sizes.ask(None)) for _ in range(3)]
    await turns()
    assert store.asked == 1
    store.answers.release()
    assert await first == {"a": 1}
    await turns()
    late = asyncio.create_task(sizes.ask(None))
    await turns()
    store.answers.release()
    assert await asyncio.gather(*others) == [{"a": 2}] * 3
    store.answers.release()
    assert await late == {"a": 3}
    assert store.asked == 3


async def test_who_gives_up_or_fails_leaves_the_others_their_turn() -> None:
    store = SlowStore()
    sizes: CallBatcher[None, Mapping[str, int]] = CallBatcher(partial(_log_sizes, store))
    first, second, third = [asyncio.create_task(sizes.ask(None)) for _ in range(3)]
    await turns()
    first.cancel()
    store.fails = True
    store.answers.release()
    for one in (second, third):
        with pytest.raises(LogUnavailable):
            await one
    store.fails = False
    store.answers.release()
    assert await sizes.ask(None) == {"a": 3}
