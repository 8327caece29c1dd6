"""Unpacks record batches without stopping the loop: small ones at once, large ones in a thread. In
a recording a large one is unpacked in the loop's own thread, because the end of another thread is
not an input."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from groupd.coordinator.core.slices import Steps, T
from groupd.coordinator.runtime.long_work import LongWork
from groupd.protocol.records.batch import BatchHeader, records_data
from groupd.protocol.records.compression import GZIP, Plain, UnpacksTooLarge

_AT_ONCE_BYTES = 1 << 20
"""A batch of up to this many unpacked bytes is unpacked at once, which takes one or two ms."""
_GZIP_AT_ONCE_BYTES = 1 << 19
"""The same for gzip, which is slow."""


class TakesLong(Exception):
    """The batch unpacks to more bytes than are unpacked at once."""


def unpacked_at_once(header: BatchHeader, payload: bytes, limit: int) -> Plain:
    """Returns what `records_data` returns. Raises what it raises, and TakesLong."""
    quick = _GZIP_AT_ONCE_BYTES if header.codec == GZIP else _AT_ONCE_BYTES
    try:
        return records_data(header, payload, min(quick, limit))
    except UnpacksTooLarge:
        if quick >= limit:
            raise
        raise TakesLong from None


async def unpacked(header: BatchHeader, payload: bytes, limit: int) -> Plain:
    """Returns what `records_data` returns, from a thread if it takes long. Raises what it
    raises."""
    try:
        return unpacked_at_once(header, payload, limit)
    except TakesLong:
        return await _in_thread(header, payload, limit)


async def _in_thread(header: BatchHeader, payload: bytes, limit: int) -> Plain:
    found: list[Plain] = []

    def unpack() -> None:
        found.append(records_data(header, payload, limit))

    await asyncio.get_running_loop().run_in_executor(None, unpack)
    # A thread may keep what it returns for a while. So the records are passed in a list, which is
    # empty after this.
    return found.pop()


class Unpacking:
    """Long work on the records of batches that requests carry or ask for.

    The memory is bounded: a small batch is unpacked when work on it begins, and only so many pieces
    of work are under way (see `LongWork`). Of the large batches one at a time is unpacked, and the
    others wait in order.
    """

    def __init__(self, work: LongWork) -> None:
        self.work = work
        self._large = asyncio.Lock()

    async def run(
        self, header: BatchHeader, payload: bytes, limit: int, steps: Callable[[Plain], Steps[T]]
    ) -> T:
        """Returns what `steps(records)` return for the records of a batch. Raises what
        `records_data` and the steps raise."""
        try:
            return await self.work.run(_small(header, payload, limit, steps))
        except TakesLong:
            return await self.run_large(header, payload, limit, steps)

    async def run_large(
        self, header: BatchHeader, payload: bytes, limit: int, steps: Callable[[Plain], Steps[T]]
    ) -> T:
        """The same as `run`, for a batch that is known to take long."""
        async with self._large:
            return await self.work.run(steps(await _in_thread(header, payload, limit)))


def _small(
    header: BatchHeader, payload: bytes, limit: int, steps: Callable[[Plain], Steps[T]]
) -> Steps[T]:
    yield  # so work that waits in line holds no unpacked bytes
    return (yield from steps(unpacked_at_once(header, payload, limit)))
