"""Questions that come while others are being answered are answered together, next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Question = TypeVar("Question")
StoreAnswer = TypeVar("StoreAnswer")

AT_ONCE_MAX = 100
"""Questions that are answered together."""


class Together(Generic[Question, StoreAnswer]):
    """`answer(questions)` gives an answer, or an error, for each; if it raises, that is the answer
    to all of them. It goes on when a caller of `ask` is cancelled."""

    def __init__(
        self, answer: Callable[[Sequence[Question]], Awaitable[Sequence[StoreAnswer | Exception]]]
    ) -> None:
        self._answer = answer
        self._waiting: list[tuple[Question, asyncio.Future[StoreAnswer]]] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._task: asyncio.Task[None] | None = None

    async def ask(self, question: Question) -> StoreAnswer:
        """Begins at once if nothing is under way, so that what is called later comes later."""
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
        """Wait until everything that was asked is answered."""
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
                    continue  # its caller was cancelled
                if isinstance(answer, Exception):
                    answered.set_exception(answer)
                else:
                    answered.set_result(answer)
        self._idle.set()
