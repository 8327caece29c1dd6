"""The client of a connection, and what all connections of a listener have in common."""

from __future__ import annotations

from collections.abc import Callable

import structlog
from msgspec import Struct

from groupd.coordinator.core.types import ANONYMOUS, UNRESTRICTED, Access
from groupd.coordinator.security.quotas import Limit
from groupd.coordinator.server.connection_rates import ConnectionRates
from groupd.coordinator.server.metering import UNMETERED, Metering
from groupd.coordinator.server.sasl_endpoint import SaslEndpoint
from groupd.protocol.wire.header import RequestHeader

log = structlog.get_logger("groupd.connection")

FindAccess = Callable[[str, str], Access]
"""Takes (principal, host) and returns what that client may do."""


def _unrestricted(principal: str, host: str) -> Access:
    return UNRESTRICTED


class KafkaEndpoint(Struct, frozen=True):
    """What the connections of one listener have in common. `listener`: its name. `sasl`: how
    clients log in; None: they do not have to. `metering`: counts their use of quotas. `rates`:
    limits how many connections may be opened; None: no limit."""

    listener: str = "PLAINTEXT"
    access: FindAccess = _unrestricted
    sasl: SaslEndpoint | None = None
    metering: Metering = UNMETERED
    rates: ConnectionRates | None = None

    def session(self, host: str) -> ClientSession:
        """The session of a connection that has just been accepted: its client is anonymous."""
        return ClientSession(self.listener, self.access(ANONYMOUS, host))


ASKED_MAX = 16
"""A connection asks each quota once, at its first use. So many quotas it remembers to have asked;
then it forgets them all, and asks again."""

PLAINTEXT = KafkaEndpoint()
"""The endpoint of a listener without logins, where every client may do everything."""


class ClientSession:
    """The client of one connection, and the callbacks for the end of the connection. `access` is
    replaced when the client has authenticated."""

    __slots__ = ("_asked", "_callbacks", "access", "gone", "listener")

    def __init__(self, listener: str, access: Access) -> None:
        self.listener = listener
        self.access = access
        self.gone = False
        """Whether the connection has ended."""
        self._asked: set[Limit] | None = None
        self._callbacks: dict[object, Callable[[], None]] = {}

    def on_disconnect(self, callback: Callable[[], None]) -> Callable[[], None]:
        """See `Waiter.on_disconnect`. Callers limit how often they ask."""
        key = object()
        if self.gone:
            callback()
        else:
            self._callbacks[key] = callback

        def take_back() -> None:
            self._callbacks.pop(key, None)

        return take_back

    def end(self) -> None:
        """Notes that the connection has ended, and calls the callbacks."""
        self.gone = True
        callbacks, self._callbacks = self._callbacks, {}
        for callback in callbacks.values():
            try:
                callback()
            except Exception:
                # The other callbacks must still be called.
                log.exception("callback for the end of a connection failed")

    def owed_ms(self, metering: Metering, header: RequestHeader) -> int:
        """See `Metering.owed_ms`. Only `ASKED_MAX` quotas are remembered, because clients may use
        any number of client ids."""
        if self._asked is None or len(self._asked) >= ASKED_MAX:
            self._asked = set()
        return metering.owed_ms(self.access.principal, header, self._asked)
