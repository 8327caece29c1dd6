"""Collects questions that come while others are being answered, and answers them together next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Question = TypeVar("Question")
StoreAnswer = TypeVar("StoreAnswer")

AT_ONCE_MAX = 100
"""How many questions are answered together at most."""


class CallBatcher(Generic[Question, StoreAnswer]):
    """`answer(questions)` returns an answer or an error for each question. If it raises, all of
    them get that error. Waiting questions are answered even if a caller of `ask` is cancelled."""

    def __init__(
        self, answer: Callable[[Sequence[Question]], Awaitable[Sequence[StoreAnswer | Exception]]]
    ) -> None:
        self._answer = answer
        self._waiting: list[tuple[Question, asyncio.Future[StoreAnswer]]] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None

    async def ask(self, question: Question) -> StoreAnswer:
        """Asks at once if nothing is under way, so that database calls made later come later."""
        if not self._idle.is_set():
            answered: asyncio.Future[StoreAnswer] = asyncio.get_running_loop().create_future()
            self._waiting.append((question, answered))
            return await answered
        self._idle.clear()
        try:
            (answer,) = await self._answer([question])
        finally:
            if self._waiting:
                loop = asyncio.get_running_loop()
                self._task = loop.create_task(self._answer_waiting())
            else:
                self._idle.set()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def settled(self) -> None:
        """Waits until every question is answered."""
        await self._idle.wait()

    async def _answer_waiting(self) -> None:
        while self._waiting:
            some, self._waiting = self._waiting[:AT_ONCE_MAX], self._waiting[AT_ONCE_MAX:]
            answers: Sequence[StoreAnswer | Exception]
            try:
                answers = await self._answer([question for question, _ in some])
            except Exception as error:  # noqa: BLE001 - answered to the callers
                answers = [error] * len(some)
            for (_, answered), answer in zip(some, answers, strict=True):
                if answered.done():
                    continue  # the caller was cancelled
                if isinstance(answer, Exception):
                    answered.set_exception(answer)
                else:
                    answered.set_result(answer)
        self._idle.set()
