"""How many connections may be opened in a second (docs/spec/security.md#5.2): in all, on one
listener, and from one address.

Beyond `max.connection.creation.rate` a connection has to wait before it is read. Beyond the quota
of its address it waits too, and is then closed without a byte, so that a client that tries again
and again is slowed down.
"""

from __future__ import annotations

import structlog

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.node_settings import plain_address
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.security.quota_entities import CONNECTION_CREATION_RATE
from groupd.coordinator.security.quotas import CLIENTS_MAX, IDLE_MS, Quotas, Rate, Windows
from groupd.coordinator.security.recent import Recent

UNLIMITED = 2**31 - 1
"""The default of `max.connection.creation.rate`; such a rate is not counted."""

log = structlog.get_logger("groupd.connection")


class ConnectionRates:
    """The rates at which connections are opened: on one listener, or on all listeners if `of_all`
    is None. `clock`: the clock of the sockets. `quotas`: the quotas of addresses."""

    def __init__(
        self,
        config: CoordinatorConfig,
        clock: Clock,
        quotas: Quotas,
        of_all: ConnectionRates | None = None,
    ) -> None:
        self._clock = clock
        self._quotas = quotas
        self._of_all = of_all
        windows = Windows()
        self._most_ms = windows.size_ms
        self._bound = config.max_connection_creation_rate
        self._rate = None if self._bound == UNLIMITED else Rate(windows)
        self._by_address = Recent(lambda: Rate(windows), IDLE_MS, CLIENTS_MAX)

    def admit(self, host: str) -> tuple[int, bool]:
        """Counts a connection of `host`, an address with a slash before it. Returns how long it has
        to wait before it is read, in ms, and whether it is refused, so that it is to be closed
        then."""
        now_ms = self._clock.monotonic_ms()
        wait_ms = self.wait_ms(now_ms)
        rates = self if self._of_all is None else self._of_all
        refused_ms = rates.refused_ms(plain_address(host.removeprefix("/")), now_ms)
        if refused_ms:
            self._quotas.count(CONNECTION_CREATION_RATE, refused_ms)
            log.info("connection refused", client=host, limit=CONNECTION_CREATION_RATE)
            return refused_ms, True
        return wait_ms, False

    def wait_ms(self, now_ms: int) -> int:
        """Counts a connection. Returns how long it has to wait, in ms."""
        wait_ms = 0 if self._of_all is None else self._of_all.wait_ms(now_ms)
        if self._rate is not None:
            self._rate.add(1, now_ms)
            own_ms = self._rate.throttle_ms(self._bound, now_ms)
            wait_ms = max(wait_ms, min(self._most_ms, own_ms))
        return wait_ms

    def refused_ms(self, address: str, now_ms: int) -> int:
        """Counts a connection of an address, unless it is refused. Returns the time in ms after
        which a refused one is to be closed; 0: it is not refused."""
        bound = self._quotas.connection_rate(address)
        if bound is None:
            return 0
        rate = self._by_address.of(address, now_ms)
        rate.add(1, now_ms)
        refused_ms = min(self._most_ms, rate.throttle_ms(bound, now_ms))
        if refused_ms:
            rate.add(-1, now_ms)
        return refused_ms
