"""Connections between clients and nodes: requests and replies are late or lost. What arrives on one
connection arrives in order. A connection that its client has closed ends at the node some time
later; until then what was sent on it is still handled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from groupd.coordinator.server.client_session import ClientSession
from tests.simulator.shares.node import Node, NodeWaiter
from tests.simulator.world import World

NOTICED_LATE_MS = 8000


class ClientConnection:
    """`closed`: the client has given it up. `ended`: the node knows."""

    def __init__(self, node: Node, member: str) -> None:
        self.node = node
        self.member = member
        self.session: ClientSession = node.new_session()
        self.waiting: dict[int, tuple[int, NodeWaiter]] = {}
        """By number: since when a request waits, and its waiter."""
        self.ready_ms = 0
        self.closed = self.ended = False


Handled = Callable[[ClientConnection, Any], Any]
Answered = Callable[[ClientConnection, Any, Any, Any], None]


class ShareNetwork:
    """`handled(connection, request)` is called when a request comes to a node; what it returns is
    given to `answered(connection, request, that, reply)` when the reply leaves. `ended(connection)`
    is called before a node hears of the end of a connection."""

    def __init__(self, world: World) -> None:
        self.healed = False
        self.loss = world.random.choice([0.0, 0.0, 0.01, 0.05])
        self.peer_loss = world.random.choice([0.0, 0.05, 0.3])
        """Of calls between nodes."""
        self.delay_max_ms = world.random.choice([1, 20, 200, 1000])
        self.handled: Handled = lambda connection, request: None
        self.answered: Answered = lambda connection, request, facts, reply: None
        self.ended: Callable[[ClientConnection], None] = lambda connection: None
        self._world = world
        self._calls = 0
        self._open: dict[ClientConnection, None] = {}

    def loses(self, loss: float | None = None) -> bool:
        return not self.healed and self._world.chance(self.loss if loss is None else loss)

    def delay_ms(self) -> int:
        return self._world.between(0, 2 if self.healed else self.delay_max_ms)

    def send(
        self,
        connection: ClientConnection,
        request: Any,
        version: int,
        on_reply: Callable[[Any], None],
    ) -> None:
        if self.loses():
            self._world.trace("request lost", connection.member)
            return
        now_ms = self._world.now_ms
        connection.ready_ms = max(connection.ready_ms, now_ms + self.delay_ms())
        enter = connection.node.loop.enter
        self._world.at(
            connection.ready_ms, enter, self._arrive, connection, request, version, on_reply
        )

    def _arrive(
        self,
        connection: ClientConnection,
        request: Any,
        version: int,
        on_reply: Callable[[Any], None],
    ) -> None:
        if connection.ended or not connection.node.serving:
            return
        self._calls += 1
        number = self._calls
        self._open[connection] = None
        facts = self.handled(connection, request)
        self._world.trace(">", connection.node.node_id, connection.member, request)

        def resolve(reply: Any) -> None:
            connection.waiting.pop(number, None)
            self._world.trace("<", connection.node.node_id, connection.member, reply)
            self.answered(connection, request, facts, reply)
            if not connection.closed and not self.loses():
                self._world.after(self.delay_ms(), self._back, connection, on_reply, reply)

        def hung_up() -> None:
            connection.closed = True
            self._world.after(0, connection.node.loop.enter, self._end, connection)

        waiter = connection.node.submit(request, version, connection.session, resolve, hung_up)
        if waiter in waiter.waiting:
            connection.waiting[number] = self._world.now_ms, waiter

    def _back(
        self, connection: ClientConnection, on_reply: Callable[[Any], None], reply: Any
    ) -> None:
        if not connection.closed:
            on_reply(reply)

    def unanswered(self, since_ms: int) -> str:
        """A request that came to a node before that time and has no answer; "" if there is none."""
        for connection in self._open:
            for at_ms, waiter in connection.waiting.values() if connection.node.loop.alive else ():
                if at_ms < since_ms:
                    return f"{waiter.request} of {connection.member} is not answered"
        return ""

    def close(self, connection: ClientConnection) -> None:
        """The client closes, or is gone; the node notices soon, or much later."""
        if connection.closed:
            return
        connection.closed = True
        late = self.loses()
        delay_ms = self._world.between(0, NOTICED_LATE_MS) if late else self.delay_ms()
        self._world.after(delay_ms, connection.node.loop.enter, self._end, connection)

    def _end(self, connection: ClientConnection) -> None:
        if connection.ended:
            return
        self._world.trace("connection ends", connection.node.node_id, connection.member)
        connection.ended = True
        self.ended(connection)
        self._open.pop(connection, None)
        for _, waiter in list(connection.waiting.values()):
            connection.node.parts.broker.forget(waiter)
        connection.waiting.clear()
        connection.session.end()
