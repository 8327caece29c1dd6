"""The open connections of a listener, and how many there may be in all and from one address."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from typing import Generic, Protocol, TypeVar

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.node_settings import limits_by_address, plain_address


class _Placed(Protocol):
    @property
    def host(self) -> str: ...


C = TypeVar("C", bound=_Placed)


class OpenConnections(Generic[C]):
    """The connections of a listener and their places. `most`: how many connections the descriptors
    of this process allow; None: `max.connections`. `of_all`: the connections of all listeners,
    which include those of this one. The `host` of a connection is its address as Kafka writes it,
    with a slash before it.

    A connection takes its place with `expect`, or with `add` if it was not expected, and keeps it
    until `withdraw` or `remove`. `len()` is the number of places that are taken."""

    def __init__(
        self,
        config: CoordinatorConfig,
        most: int | None = None,
        of_all: OpenConnections[C] | None = None,
    ) -> None:
        self._of_all = of_all
        self._most = config.max_connections if most is None else most
        self._limit = "max.connections"
        if self._most < config.max_connections:
            self._limit = "file descriptors"
        self._most_per_address = config.max_connections_per_ip
        self._overrides = limits_by_address(config)
        self._expected: set[Hashable] = set()
        """The sockets and connections that were accepted, but are not open yet."""
        self._open: set[C] = set()
        self._by_address: Counter[str] = Counter()
        self._line: deque[Callable[[], object]] = deque()
        """The callbacks of the acceptors that wait for a place here; the longest waiting comes
        first."""

    def __len__(self) -> int:
        return len(self._expected) + len(self._open)

    def __iter__(self) -> Iterator[C]:
        return iter(list(self._open))

    @property
    def full(self) -> str | None:
        """The limit because of which no connection can be accepted; None if there is room."""
        if len(self) >= self._most:
            return self._limit
        return None if self._of_all is None else self._of_all.full

    def when_room(self, go_on: Callable[[], object]) -> None:
        """Calls `go_on` once, when there may be room. `go_on` must check that there still is room,
        and then call `offer`, so that the others that wait get what it leaves."""
        if self._of_all is not None and len(self) < self._most:
            self._of_all.when_room(go_on)
        else:
            self._line.append(go_on)

    def offer(self) -> None:
        """Lets the longest waiting acceptor go on, if there is room."""
        if self._line and len(self) < self._most:
            self._line.popleft()()
        if self._of_all is not None:
            self._of_all.offer()

    def limit_reached(self, host: str) -> str | None:
        """The limit that forbids one more connection of `host`; None if one more is allowed."""
        if self._of_all is not None and (limit := self._of_all.limit_reached(host)) is not None:
            return limit
        address = _address(host)
        if self._by_address[address] >= self._overrides.get(address, self._most_per_address):
            return "max.connections.per.ip"
        return None

    def expect(self, accepted: Hashable) -> None:
        """Takes a place for a socket that was accepted, or for the connection that gets it."""
        self._expected.add(accepted)
        if self._of_all is not None:
            self._of_all.expect(accepted)

    def withdraw(self, accepted: Hashable) -> None:
        """Ends `expect`. A connection that is open keeps its place; otherwise the place is free."""
        self._expected.discard(accepted)
        if self._of_all is not None:
            self._of_all.withdraw(accepted)
        self.offer()

    def add(self, connection: C) -> None:
        if self._of_all is not None:
            self._of_all.add(connection)
        self._expected.discard(connection)
        self._open.add(connection)
        self._by_address[_address(connection.host)] += 1

    def remove(self, connection: C) -> bool:
        """Takes a connection out. False if it was refused, or has been removed before."""
        if connection not in self._open:
            return False
        if self._of_all is not None:
            self._of_all.remove(connection)
        self._open.remove(connection)
        address = _address(connection.host)
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        self.offer()
        return True


def _address(host: str) -> str:
    return plain_address(host.removeprefix("/"))
