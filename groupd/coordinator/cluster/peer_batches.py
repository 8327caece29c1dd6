"""Calls for one node that wait at the same time are sent in one request, as Kafka's brokers do.

One request to a node is under way at a time. Calls that come meanwhile are sent with the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

import structlog
from msgspec import Struct, field

from groupd.client.errors import REFUSED, CallFailed

log = structlog.get_logger("groupd.peers")

BATCH_WEIGHT_MAX = 1_000
"""How many partitions one request may have. A single item may have more."""

WAITING_WEIGHT_MAX = 50_000
"""How many partitions may wait for one node."""

I = TypeVar("I")  # noqa: E741
R = TypeVar("R")


class _WaitingCall(Struct, eq=False):
    """A call that waits. `answer`: a future; it is done already if its caller was cancelled."""

    item: Any
    weight: int
    answer: Any


class _Queue(Struct, eq=False):
    """The calls that wait for one node. `weight`: the sum of their weights."""

    waiting: deque[_WaitingCall] = field(default_factory=deque)
    weight: int = 0
    task: Any = None


class PeerBatches(Generic[I, R]):
    """Sends calls in batches. `send(node_id, items)` returns a result for each item, in order, or
    raises CallFailed. `key(item)`: two items with the same key are never sent in one request, but
    one after the other. `weight(item)`: how many partitions the item has."""

    def __init__(
        self,
        send: Callable[[int, list[I]], Awaitable[Sequence[R]]],
        key: Callable[[I], Hashable],
        weight: Callable[[I], int],
    ) -> None:
        self._send = send
        self._key = key
        self._weight = weight
        self._queues: dict[int, _Queue] = {}

    async def ask(self, node_id: int, item: I) -> R:
        """Returns the result for one item. Raises CallFailed."""
        queue = self._queues.setdefault(node_id, _Queue())
        if queue.weight >= WAITING_WEIGHT_MAX:
            raise CallFailed(f"too much waits for node {node_id}", REFUSED)
        loop = asyncio.get_running_loop()
        one = _WaitingCall(item, self._weight(item), loop.create_future())
        queue.waiting.append(one)
        queue.weight += one.weight
        if queue.task is None:
            # The task begins in the next turn of the loop, so all calls of this turn are sent
            # together.
            queue.task = loop.create_task(self._work(node_id, queue))
        result: R = await one.answer
        return result

    async def close(self) -> None:
        """Cancel what is under way. The callers get CallFailed."""
        queues = list(self._queues.values())
        for queue in queues:
            queue.task.cancel()
        for queue in queues:
            with suppress(asyncio.CancelledError):
                await queue.task
            for one in queue.waiting:  # if the task had not begun yet
                _fail(one, CallFailed("this node stops"))
        self._queues.clear()

    async def _work(self, node_id: int, queue: _Queue) -> None:
        batch: list[_WaitingCall] = []
        try:
            while batch := self._take(queue):
                await self._answer(node_id, batch)
        finally:
            self._queues.pop(node_id, None)
            for one in (*batch, *queue.waiting):
                _fail(one, CallFailed("this node stops"))

    def _take(self, queue: _Queue) -> list[_WaitingCall]:
        """Returns the items of the next request."""
        batch: dict[Hashable, _WaitingCall] = {}
        later: deque[_WaitingCall] = deque()
        weight = 0
        while queue.waiting:
            one = queue.waiting.popleft()
            if one.answer.done():
                queue.weight -= one.weight
                continue
            if batch and weight + one.weight > BATCH_WEIGHT_MAX:
                queue.waiting.appendleft(one)
                break
            key = self._key(one.item)
            if key in batch:
                later.append(one)
                continue
            batch[key] = one
            weight += one.weight
        queue.waiting.extendleft(reversed(later))
        queue.weight -= weight
        return list(batch.values())

    async def _answer(self, node_id: int, batch: list[_WaitingCall]) -> None:
        try:
            results = await self._send(node_id, [one.item for one in batch])
        except CallFailed as error:
            for one in batch:
                _fail(one, CallFailed(str(error), error.outcome))
        except Exception as error:
            log.exception("a call to another node failed", node=node_id)
            for one in batch:
                _fail(one, CallFailed(str(error)))
        else:
            for one, result in zip(batch, results, strict=True):
                if not one.answer.done():
                    one.answer.set_result(result)


def _fail(one: _WaitingCall, error: CallFailed) -> None:
    if not one.answer.done():
        one.answer.set_exception(error)
