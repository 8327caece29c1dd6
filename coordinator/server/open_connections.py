"""The open connections of a listener: how many there may be, in all and of one address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from groupd.coordinator.config import CoordinatorConfig, limits_by_address, plain_address


class _Placed(Protocol):
    @property
    def host(self) -> str: ...


C = TypeVar("C", bound=_Placed)


class OpenConnections(Generic[C]):
    """`most`: how many the descriptors of this process allow; None: `max.connections`. `host` of a
    connection is its address as Kafka writes it, with a slash before it. `of_all`: the connections
    of all listeners, to which those of this one belong."""

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
        self._open: set[C] = set()
        self._by_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[C]:
        return iter(list(self._open))

    def limit_reached(self, host: str) -> str | None:
        """What forbids one more connection of `host`; None if there may be one."""
        if self._of_all is not None and (limit := self._of_all.limit_reached(host)) is not None:
            return limit
        address = _address(host)
        if self._by_address[address] >= self._overrides.get(address, self._most_per_address):
            return "max.connections.per.ip"
        return self._limit if len(self._open) >= self._most else None

    def add(self, connection: C) -> None:
        if self._of_all is not None:
            self._of_all.add(connection)
        self._open.add(connection)
        self._by_address[_address(connection.host)] += 1

    def remove(self, connection: C) -> bool:
        """False if it was refused, or has been removed before."""
        if connection not in self._open:
            return False
        if self._of_all is not None:
            self._of_all.remove(connection)
        self._open.remove(connection)
        address = _address(connection.host)
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]
        return True


def _address(host: str) -> str:
    return plain_address(host.removeprefix("/"))
