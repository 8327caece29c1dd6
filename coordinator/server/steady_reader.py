"""Reads the sockets of connections whose heartbeats repeat: all that are ready, in one go.

An event loop's transport costs more than a repeated heartbeat does, so such connections leave the
reading to this, which asks the kernel itself. Rules:
- A reply that its socket takes at once is written at once, while what belongs to the socket is in
  the processor's cache. What it does not take goes through the transport, and so does everything
  else: the order of replies is the connection's.
- What is no repetition goes to the connection as if its transport had read it.
- The end of a stream and errors are the transport's business: it gets the reading back.
- The sessions of all requests that are found ready together begin at the time of finding them.
"""

from __future__ import annotations

import asyncio
import os
import select
from contextlib import suppress
from typing import Any

from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.steady import PIPELINED_BYTES, SteadyTable

READY_MAX = 256
"""Sockets in one go; the rest comes after whatever else the loop has to do."""

MORE_BYTES = 256 * 1024


class SteadyReader:
    """Of one listener. Costs nothing as long as it has no sockets."""

    def __init__(self, clock: Clock, sessions: Clock, stats: ConnectionStats) -> None:
        self._now_ms = clock.monotonic_ms
        self._session_ms = sessions.monotonic_ms
        self._one_clock = sessions is clock
        self._stats = stats
        self._tables: dict[int, SteadyTable] = {}
        self._epoll: Any = None
        self._loop: Any = None

    @classmethod
    def of(cls, clock: Clock, sessions: Clock, stats: ConnectionStats) -> SteadyReader | None:
        """None: this system has no epoll."""
        return cls(clock, sessions, stats) if hasattr(select, "epoll") else None

    def __len__(self) -> int:
        return len(self._tables)

    def add(self, table: SteadyTable) -> None:
        """Read `table.fd`, which nobody else reads."""
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._epoll.fileno(), self._ready)
        self._tables[table.fd] = table
        self._epoll.register(table.fd, select.EPOLLIN)

    def remove(self, table: SteadyTable) -> None:
        """Read it no more. One that is not read is fine: its descriptor may be another's by now."""
        if self._tables.get(table.fd) is not table:
            return
        del self._tables[table.fd]
        with suppress(OSError):  # closed: the kernel has forgotten it
            self._epoll.unregister(table.fd)
        if not self._tables:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = self._loop = None

    def _ready(self) -> None:
        session_ms = self._session_ms()
        now_ms = session_ms if self._one_clock else self._now_ms()
        read, write, tables = os.read, os.write, self._tables
        bytes_in = bytes_out = 0
        for fd, _ in self._epoll.poll(0, READY_MAX):
            table = tables.get(fd)
            if table is None:
                continue  # removed since it was found ready
            try:
                data = read(fd, table.read_bytes)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if len(data) == table.read_bytes:
                data += self._more(table)
            replies = table.repeated_at(data, session_ms) if table.quiet else None
            if replies is None:
                self._hand_in(table, data)
                continue
            table.active_ms = now_ms
            bytes_in += len(data)
            if not (table.direct or self._made_direct(table)):
                table.owner.write(replies)
                continue
            try:
                sent = write(fd, replies)
            except OSError:
                sent = 0  # full, or broken: the transport will tell which
            bytes_out += sent
            if sent < len(replies):
                table.owner.write(replies[sent:])
        self._stats.bytes_in += bytes_in
        self._stats.bytes_out += bytes_out

    def _made_direct(self, table: SteadyTable) -> bool:
        table.direct = not table.owner.unsent()
        return table.direct

    def _hand_in(self, table: SteadyTable, data: bytes) -> None:
        try:
            if not data:
                table.owner.input_ended()
                return
            table.owner.take_in(data)
        except Exception as error:  # noqa: BLE001 - logged there; the others must not suffer
            table.owner.failed(error)

    def _more(self, table: SteadyTable) -> bytes:
        table.read_bytes = PIPELINED_BYTES
        try:
            return os.read(table.fd, MORE_BYTES)
        except OSError:
            return b""  # nothing; an error comes again
