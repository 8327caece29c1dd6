"""What all sockets of a process share."""

from __future__ import annotations

import asyncio

from msgspec import Struct

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.server.byte_budget import FREE_BYTES, ByteBudget, limit_of
from groupd.coordinator.server.decoding import Decoder
from groupd.coordinator.server.heap_trimmer import HeapTrimmer
from groupd.coordinator.server.turns import RequestTurns

# `asyncio` reads up to 256 KB of a socket before any limit is checked, and without room in the
# `ByteBudget`. So sockets here have buffered protocols: all of them read into one buffer, and copy
# what has come. A read gets a small part of the buffer, or all of it for a large frame that has its
# room.

READ_BYTES = FREE_BYTES
"""The most bytes that one read brings. So few bytes need no room in the `ByteBudget`."""

LARGE_READ_BYTES = 256 * 1024
"""The most bytes that one read brings of a large frame that has its room."""


class ReadBuffer:
    """The memory for the reads of one event loop. Its content is valid until the next read.
    `stalls`: the timer of that loop, which each read wakes."""

    __slots__ = ("large", "stalls", "usual")

    def __init__(self, stalls: LoopStalls) -> None:
        self.stalls = stalls
        self.large = memoryview(bytearray(LARGE_READ_BYTES))
        self.usual = self.large[:READ_BYTES]


class SharedBufferProtocol(asyncio.BufferedProtocol):
    """The protocol of a socket. `data_received` gets the bytes of each read."""

    __slots__ = ()

    read_buffer: ReadBuffer

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.read_buffer.usual

    def buffer_updated(self, nbytes: int) -> None:
        buffer = self.read_buffer
        if not buffer.stalls.awake:
            buffer.stalls.wake()
        self.data_received(bytes(buffer.large[:nbytes]))

    def data_received(self, data: bytes) -> None:
        raise NotImplementedError


class SharedResources(Struct, frozen=True):
    """What all sockets of a process share. `turns`: which connection may work on what it has
    received. `decoder` decodes requests. `work`: long work in slices. `budget`: the memory that
    connections hold. `heap_trimmer` gives memory back to the system when many clients have gone.
    `read_buffer`: the memory for reads."""

    turns: RequestTurns
    decoder: Decoder
    work: LongWork
    budget: ByteBudget
    heap_trimmer: HeapTrimmer
    read_buffer: ReadBuffer


def shared_resources(
    config: CoordinatorConfig, stalls: LoopStalls, work: LongWork, clock: Clock
) -> SharedResources:
    """The shared resources of a process. `stalls` measures its loop. `work`: the long work of its
    broker. `clock`: the clock of the sockets."""
    budget = ByteBudget(limit_of(config), clock)
    decoder = Decoder(config.request_max_items)
    turns, buffer = RequestTurns(stalls), ReadBuffer(stalls)
    return SharedResources(turns, decoder, work, budget, HeapTrimmer(budget), buffer)
