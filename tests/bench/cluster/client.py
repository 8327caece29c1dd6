"""What a client does about a coordinator that moves: it asks where it is, and repeats itself. Each
acknowledged commit is noted with its time, so that the longest pause can be told."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count, pairwise

from groupd.protocol.reader import Reader
from groupd.protocol.writer import Writer
from tests.bench import frames
from tests.bench.cluster.nodes import TOPIC, Address

FIND_COORDINATOR = 10
RETRY_S = 0.005
"""Between two attempts: what is measured is the brokers, not the patience of a client."""

ANSWER_S = 1.0
_REPLY_BODY_AT = 5
RETRIABLE = {14, 15, 16, 3, 5, 6, 7}
"""COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR and what else a client
repeats by itself."""


def find_coordinator(group: str) -> bytes:
    """FindCoordinator v4 of one group."""
    writer = Writer(flexible=True)
    writer.int8(0)
    writer.array([group], Writer.string)
    writer.end()
    return frames.request_frame(FIND_COORDINATOR, 4, writer.buffer, flexible=True)


def found_coordinator(reply: bytes) -> Address | None:
    """The address in the reply; None after an error."""
    reader = Reader(reply, _REPLY_BODY_AT, 4, flexible=True)
    reader.int32()  # throttle time
    reader.uvarint()  # one key
    reader.string()
    reader.int32()
    host, port = reader.string(), reader.int32()
    return None if reader.int16() else (host, port)


class Connection:
    """One connection, made when it is needed."""

    def __init__(self) -> None:
        self.address: Address | None = None
        self._ends: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, address: Address, frame: bytes) -> bytes:
        """The reply without its length. Raises OSError, TimeoutError."""
        if self._ends is None or self.address != address:
            self.close()
            async with asyncio.timeout(ANSWER_S):
                self._ends = await asyncio.open_connection(*address)
            self.address = address
        reader, writer = self._ends
        try:
            async with asyncio.timeout(ANSWER_S):
                writer.write(frame)
                (length,) = struct.unpack(">i", await reader.readexactly(4))
                return await reader.readexactly(length)
        except asyncio.IncompleteReadError as error:
            self.close()
            raise OSError("the node closed the connection") from error
        except (OSError, TimeoutError):
            self.close()
            raise

    def close(self) -> None:
        if self._ends is not None:
            self._ends[1].close()
        self._ends = None


class Finder:
    """Knows where the coordinator of one group is, and asks again when it has moved."""

    def __init__(self, group: str, nodes: Sequence[Address], first: int = 0) -> None:
        self.group = group
        self.connection = Connection()
        self._nodes = nodes
        self._asked = count(first)
        self._seeds = Connection()
        self._at: Address | None = None

    async def ask(self, frame: bytes) -> bytes | None:
        """The reply of whoever is the coordinator; None if there is none to be had now."""
        try:
            if self._at is None:
                seed = self._nodes[next(self._asked) % len(self._nodes)]
                self._at = found_coordinator(
                    await self._seeds.ask(seed, find_coordinator(self.group))
                )
            if self._at is not None:
                return await self.connection.ask(self._at, frame)
        except (OSError, TimeoutError):
            self._at = None
        return None

    def moved(self) -> None:
        """The node was not the coordinator."""
        self._at = None

    def close(self) -> None:
        self.connection.close()
        self._seeds.close()


class Committer:
    """Commits an offset of a group again and again until `stop`. `times`: when each commit was
    acknowledged; `errors`: what was answered instead, and no client repeats."""

    def __init__(self, group: str, nodes: Sequence[Address], pause_s: float, first: int) -> None:
        self.times: list[float] = []
        self.errors: list[int] = []
        self._finder = Finder(group, nodes, first)
        self._pause_s = pause_s
        self._stopping = False

    async def run(self) -> None:
        for offset in count():
            frame = frames.offset_commit(self._finder.group, TOPIC, 1, offset)
            while not self._stopping:
                reply = await self._finder.ask(frame)
                if reply is None:
                    await asyncio.sleep(RETRY_S)
                    continue
                (code,) = struct.unpack_from(">h", reply, len(reply) - 5)
                if code == 0:
                    self.times.append(time.perf_counter())
                    break
                if code not in RETRIABLE:
                    self.errors.append(code)
                self._finder.moved()
                await asyncio.sleep(RETRY_S)
            if self._stopping:
                break
            await asyncio.sleep(self._pause_s)
        self._finder.close()

    def stop(self) -> None:
        self._stopping = True

    def longest_s(self, since: float, until: float) -> float:
        """The longest time without an acknowledgement between these moments."""
        within = [since, *(at for at in self.times if since <= at <= until), until]
        return max(after - before for before, after in pairwise(within))

    def first_after(self, moment: float) -> float:
        """When the first commit after that was acknowledged; infinite if none was."""
        return next((at for at in self.times if at > moment), float("inf"))


async def committing(
    groups: Sequence[str],
    nodes: Sequence[Address],
    event: Callable[[], float],
    settle_s: float,
    pause_s: float = 0.02,
    lead_s: float = 0.5,
) -> tuple[list[Committer], float, float]:
    """Commits of all groups while `event` happens, and for `settle_s` afterwards: the committers,
    the moment that `event` returned, in perf_counter seconds, and the end."""
    committers = [Committer(one, nodes, pause_s, at) for at, one in enumerate(groups)]
    tasks = [asyncio.create_task(one.run()) for one in committers]
    while not all(one.times for one in committers):
        await asyncio.sleep(0.01)
    await asyncio.sleep(lead_s)
    moment = await asyncio.to_thread(event)
    until = time.perf_counter() + settle_s
    while time.perf_counter() < until or any(
        one.first_after(moment) == float("inf") for one in committers
    ):
        await asyncio.sleep(0.01)
        if time.perf_counter() > until + 60:
            raise TimeoutError("groups are not served again")
    end = time.perf_counter()
    for one in committers:
        one.stop()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*tasks)
    return committers, moment, end
