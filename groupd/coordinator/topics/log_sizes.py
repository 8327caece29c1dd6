"""How many bytes each log has, for DescribeLogDirs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from groupd.storage.log import Store


class LogSizes:
    """The store goes over all of its rows to tell the sizes, and appends and reads of others need
    its time, too. So only one question is under way at a time, and requests that wait for their
    turn share the next answer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turns = asyncio.Lock()
        self._asked = 0
        self._waiting = 0
        self._answer: tuple[int, Mapping[str, int]] = (0, {})
        """The number of the question, and the sizes; empty again when nobody waits."""

    async def of_all(self) -> Mapping[str, int]:
        """Bytes of the batches by the name of their log, none for an empty one. No answer is older
        than the call. Raises LogError."""
        before = self._asked
        self._waiting += 1
        try:
            async with self._turns:
                number, sizes = self._answer
                if number <= before:
                    self._asked += 1
                    number = self._asked
                    sizes = await self._store.log_sizes()
                    self._answer = number, sizes
                return sizes
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._answer = (0, {})
