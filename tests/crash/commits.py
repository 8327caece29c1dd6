"""Committed offsets under load: what was said of each, and whether the daemon still says so.

A commit is *acknowledged*, *refused*, or its outcome is *unknown* because the connection ended.
After a restart a partition holds the last acknowledged offset or one of unknown outcome that was
sent later; never anything else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from random import Random

from tests.crash.wire import (
    Connection,
    Reader,
    commit_body,
    commit_errors,
    fetched_offsets,
    offset_fetch_body,
)

OFFSET_COMMIT, OFFSET_FETCH = 8, 9
TOPIC = "orders"
PARTITIONS = 4
IN_FLIGHT_MAX = 4
PAUSE_S = 0.01
"""The longest pause between two commits. Few are enough: what counts are crashes, and all that was
written is read again."""
GENERATION_REFUSED = {22, 25}
METADATA_TOO_LARGE = 12
RETRIABLE = {14, 16}
"""COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR: a daemon says so that does not serve yet, or does
not serve any more. It has not written the commit."""


class Committer:
    """A simple group with ever larger offsets. Each request commits two partitions at once."""

    def __init__(self, group: str, seed: int) -> None:
        self.group = group
        self.acknowledged = dict.fromkeys(range(PARTITIONS), -1)
        self.unknown: dict[int, set[int]] = {partition: set() for partition in range(PARTITIONS)}
        self.commits = self.refusals = 0
        self._random = Random(seed)
        self._next = 0

    async def run(self, connection: Connection) -> None:
        """Commits until the connection ends."""
        in_flight: deque[asyncio.Task[None]] = deque()
        depth = self._random.randint(1, IN_FLIGHT_MAX)
        try:
            while True:
                while len(in_flight) < depth:
                    in_flight.append(asyncio.create_task(self._commit(connection)))
                    await asyncio.sleep(0)  # it is sent before the next one is made
                await in_flight.popleft()
                await asyncio.sleep(self._random.uniform(0, PAUSE_S))
        except ConnectionError:
            await asyncio.gather(*in_flight, return_exceptions=True)

    async def _commit(self, connection: Connection) -> None:
        self._next += 1
        offset, first = self._next, self._random.choice((0, 2))
        pair = (first, first + 1)
        kind = self._random.random()
        if kind < 0.1:
            body = commit_body(self.group, TOPIC, [(pair[0], offset, "")], 7, "nobody")
            self._refused(await self._errors(connection, body), GENERATION_REFUSED)
            return
        entries = [(partition, offset, str(offset)) for partition in pair]
        if kind < 0.2:
            entries.append(((first + 2) % PARTITIONS, offset, "x" * 5000))
        for partition in pair:
            self.unknown[partition].add(offset)
        errors = await self._errors(connection, commit_body(self.group, TOPIC, entries))
        if errors[0] in RETRIABLE:
            self._refused(errors, RETRIABLE)
            for partition in pair:
                self.unknown[partition].discard(offset)
            return
        assert errors == [0, 0, METADATA_TOO_LARGE][: len(errors)], errors
        self.commits += 1
        for partition in pair:
            self._settle(partition, offset)

    async def _errors(self, connection: Connection, body: bytes) -> list[int]:
        return commit_errors(Reader(await connection.send(OFFSET_COMMIT, 7, body)))

    def _refused(self, errors: list[int], expected: set[int]) -> None:
        self.refusals += 1
        assert set(errors) <= expected | RETRIABLE, errors

    def _settle(self, partition: int, offset: int) -> None:
        self.acknowledged[partition] = offset
        self.unknown[partition] = {sent for sent in self.unknown[partition] if sent > offset}

    async def check(self, connection: Connection) -> None:
        """Checks what a new process says; that is the truth from here on."""
        body = offset_fetch_body(self.group, TOPIC, range(PARTITIONS))
        found = fetched_offsets(await connection.call(OFFSET_FETCH, 5, body))
        for partition, offset in found.items():
            possible = {self.acknowledged[partition], *self.unknown[partition]}
            assert offset in possible, (
                f"{self.group} {TOPIC}-{partition}: committed {offset}; acknowledged "
                f"{self.acknowledged[partition]}, unknown {sorted(self.unknown[partition])}"
            )
        assert (found[0], found[2]) == (found[1], found[3]), f"half of a request: {found}"
        for partition, offset in found.items():
            self.acknowledged[partition] = offset
            self.unknown[partition].clear()
