"""Reads of sockets: where they go, and how much comes in one.

`asyncio` reads up to 256 KB of a socket before anybody is asked. A connection would keep that much
without room in the memory of all connections (`byte_budget`). So protocols of sockets here are
buffered ones: all of a process read into one buffer, of which a read gets a small part, and they
keep a copy of what has come. Only a large frame that has its room is read in larger pieces.
"""

from __future__ import annotations

import asyncio

from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.server.byte_budget import FREE_BYTES

READ_BYTES = FREE_BYTES
"""What one read brings at most; what fits in needs no room in the memory of all connections."""

LARGE_READ_BYTES = 256 * 1024
"""The same for a large frame that has its room."""


class ReadBuffer:
    """The memory for the reads of one event loop. What is in it counts until the next read.
    `stalls`: the timer of that loop, which each read wakes."""

    __slots__ = ("large", "stalls", "usual")

    def __init__(self, stalls: LoopStalls) -> None:
        self.stalls = stalls
        self.large = memoryview(bytearray(LARGE_READ_BYTES))
        self.usual = self.large[:READ_BYTES]


class Receiver(asyncio.BufferedProtocol):
    """The protocol of a socket. `data_received` gets what each read brings."""

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
