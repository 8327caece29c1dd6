"""Connections between clients and the process: requests and replies are delayed, lost, sent twice
and handled late. What arrives on one connection arrives in order, as with TCP; a lost message is
a connection that hangs, and a request can be handled long after its client has given up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from groupd.coordinator.runtime.waiting import Waiter
from tests.simulator.options import Options
from tests.simulator.process import Process
from tests.simulator.world import World

LATE_MS = 30_000
HALF_OPEN_MS = 20_000


@dataclass(slots=True)
class Connection:
    """`closed_ms`: when the client gave it up; `noticed`: the broker knows."""

    process: Process
    waiting: dict[Waiter, Call] = field(default_factory=dict)
    ready_ms: int = 0
    closed_ms: int | None = None
    noticed: bool = False


@dataclass(slots=True)
class Call:
    """One request on its way. `copy`: a duplicate, or late: the client does not wait for it.
    `facts`: what the checks noted when it was handled."""

    client: str
    sequence: int
    request: Any
    version: int
    connection: Connection
    on_reply: Callable[[Any], None]
    copy: bool = False
    sent_ms: int = 0
    facts: Any = None


class Network:
    """`before(call)` and `released(call, reply)` are the checks' view of the process's door."""

    def __init__(self, world: World, options: Options) -> None:
        self.healed = False
        self.process: Process | None = None
        self.before: Callable[[Call], None] = lambda call: None
        self.released: Callable[[Call, Any], None] = lambda call, reply: None
        self.out_of_order: Callable[[str], None] = lambda client: None
        self.connections: list[Connection] = []
        self._world = world
        self._options = options
        self._last_handled: dict[str, int] = {}

    def connect(self) -> Connection | None:
        """None while nobody listens."""
        if self.process is None or not self.process.alive:
            return None
        connection = Connection(self.process)
        self.connections.append(connection)
        return connection

    def close(self, connection: Connection) -> None:
        """The client closes; the broker notices soon, or much later if the network is bad."""
        if connection.closed_ms is not None:
            return
        connection.closed_ms = self._world.now_ms
        bad = not self.healed and self._world.chance(self._options.loss)
        delay_ms = self._world.between(0, HALF_OPEN_MS) if bad else self._delay_ms()
        self._world.after(delay_ms, connection.process.loop.enter, self._notice, connection)

    def _notice(self, connection: Connection) -> None:
        connection.noticed = True
        for waiter in list(connection.waiting):
            waiter.forget()
        connection.waiting.clear()
        self.connections = [one for one in self.connections if one is not connection]

    def broken(self, process: Process) -> None:
        """The process is gone: clients that wait for it mostly hear of it soon."""
        for connection in self.connections:
            if connection.process is process and connection.closed_ms is None:
                for call in connection.waiting.values():
                    if not call.copy and not self._world.chance(self._options.loss):
                        self._world.after(self._delay_ms(), call.on_reply, None)
        self.connections = [one for one in self.connections if one.process is not process]

    def send(self, call: Call) -> None:
        call.sent_ms = self._world.now_ms
        world, options = self._world, self._options
        if not self.healed:
            if world.chance(options.loss):
                world.trace("request lost", call.client, call.sequence)
                return
            if world.chance(options.late):
                self._deliver_after(world.between(0, LATE_MS), self._copy_of(call))
                return
        self._deliver_after(self._delay_ms(), call)
        if not self.healed and world.chance(options.duplicates):
            # Never before the original: a client whose answer went astray asks for everything.
            first_ms = call.connection.ready_ms - world.now_ms + 1
            self._deliver_after(first_ms + world.between(0, LATE_MS), self._copy_of(call))

    def _copy_of(self, call: Call) -> Call:
        """The same bytes on a connection of their own, which is being given up."""
        connection = Connection(call.connection.process)
        self.connections.append(connection)
        self._world.after(2 * LATE_MS, self.close, connection)
        return Call(
            call.client,
            call.sequence,
            call.request,
            call.version,
            connection,
            lambda reply: None,
            copy=True,
            sent_ms=call.sent_ms,
        )

    def _delay_ms(self) -> int:
        return self._world.between(0, 2 if self.healed else self._options.delay_max_ms)

    def _deliver_after(self, delay_ms: int, call: Call) -> None:
        connection = call.connection
        connection.ready_ms = max(connection.ready_ms, self._world.now_ms + delay_ms)
        process = connection.process
        self._world.at(connection.ready_ms, process.loop.enter, self._deliver, call)

    def _deliver(self, call: Call) -> None:
        connection = call.connection
        if connection.noticed or (call.copy and self.healed):
            return
        last = self._last_handled.get(call.client, -1)
        if call.copy or connection.closed_ms is not None or call.sequence <= last:
            self.out_of_order(call.client)
        self._last_handled[call.client] = max(call.sequence, last)
        self.before(call)
        self._world.trace(">", call.client, call.sequence, call.request)
        answered: list[bool] = []

        def resolve(reply: Any) -> None:
            answered.append(True)
            self._released(call, reply)

        def took(waiter: Waiter) -> None:
            if not answered:
                connection.waiting[waiter] = call

        connection.process.submit(call.request, call.version, call.client, resolve, took)

    def _released(self, call: Call, reply: Any) -> None:
        connection = call.connection
        for waiter, waiting in list(connection.waiting.items()):
            if waiting is call:
                del connection.waiting[waiter]
        self._world.trace("<", call.client, call.sequence, reply)
        self.released(call, reply)
        if connection.closed_ms is not None or call.copy:
            return
        if not self.healed and self._world.chance(self._options.loss):
            self._world.trace("reply lost", call.client, call.sequence)
            return
        self._world.after(self._delay_ms(), self._arrive, call, reply)

    def _arrive(self, call: Call, reply: Any) -> None:
        if call.connection.closed_ms is None:
            call.on_reply(reply)
