"""Counters over all connections of a listener."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from msgspec import Struct

from groupd.coordinator.server.byte_budget import ByteBudget
from groupd.coordinator.server.handshakes import Handshakes

ApiVersion = tuple[int, int]
"""(key, version)."""


class CertificateFacts(Struct, frozen=True):
    """Facts about a certificate for the metrics. `expires`: seconds since 1970. `reloads`,
    `failed_reloads`: how often it was read again, and how often that failed."""

    listener: str
    expires: float
    reloads: int
    failed_reloads: int


class Repeats:
    """How many requests of one kind were answered with a stored reply."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class SaslStats:
    """Plain counters of all SASL listeners. A scrape collects them."""

    def __init__(self) -> None:
        self.logins: Counter[tuple[str, str, bool, bool]] = Counter()
        """The logins by (listener, mechanism, whether it was a re-authentication, whether it
        succeeded). The mechanism is empty where the client has not chosen one."""
        self.no_reauthentication = 0
        """Logins over a protocol that cannot tell the client how long its session lasts."""
        self.expired = 0
        """Connections that were closed because their session was over."""


class ConnectionStats:
    """Plain counters of a listener. A scrape collects them."""

    def __init__(self) -> None:
        self.open = 0
        self.most = 0
        """How many connections may be open: `max.connections`, or fewer if there are too few
        descriptors."""
        self.blocked = 0
        """Listening sockets on which clients wait, because no connection can be accepted."""
        self.accepted = 0
        self.refused = 0
        self.malformed = 0
        self.stalled = 0
        self.overdue = 0
        self.budget: ByteBudget | None = None
        """The memory that the connections hold; None if there is no listener."""
        self.handshakes: Handshakes | None = None
        """The handshakes of the TLS listeners; None if there is no such listener."""
        self.certificates: Callable[[], Iterable[CertificateFacts]] = tuple
        self.bytes_in = 0
        self.bytes_out = 0
        self.requests: Counter[ApiVersion] = Counter()
        """How many requests were handled, without repeated ones; see `all_requests`."""
        self.sasl = SaslStats()
        self._repeats: dict[ApiVersion, Repeats] = {}

    def repeats(self, api: ApiVersion) -> Repeats:
        """The counter of repeated requests of one kind."""
        return self._repeats.setdefault(api, Repeats())

    @property
    def repeated(self) -> int:
        return sum(repeats.count for repeats in self._repeats.values())

    def all_requests(self) -> dict[ApiVersion, int]:
        """How many requests there were with repeated ones, by API and version, sorted."""
        found = self.requests + Counter({api: r.count for api, r in self._repeats.items()})
        return dict(sorted(found.items()))
