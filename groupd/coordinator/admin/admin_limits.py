"""Limits who may come in at the admin port: which `Host` a request may name, how many requests for
each kind of path are answered at a time, and which connection has a place. Each kind has its own
places, so that long pages never keep a health check waiting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Protocol

TOKENS_VARIABLE = "GROUPD_ADMIN_TOKENS"
"""The variable with tokens in the environment: written as in the file, with semicolons instead of
line ends. Commands read it, too."""

CONTROL, ACTIONS = "control", "actions"
PROBES, METRICS, PAGES, MOVES = "probes", "metrics", "pages", "moves"
FILES, STREAMS = "files", "streams"

REQUESTS_MAX = {
    PROBES: 32,
    METRICS: 8,
    PAGES: 8,
    MOVES: 2,
    FILES: 16,
    STREAMS: 128,
    CONTROL: 64,
    ACTIONS: 4,
}
"""How many requests of each kind are answered at a time. `MOVES` have their own places because for
them the log of a shard is read, which takes seconds: among the `PAGES` they would keep all other
pages waiting."""

_KINDS = {
    "healthz": PROBES,
    "readyz": PROBES,
    "metrics": METRICS,
    "console": FILES,
    "live": STREAMS,
}


def kind_of(path: tuple[str, ...]) -> str:
    """The kind of a path whose requests change nothing."""
    if path[:1] == ("groups",) and path[2:] == ("moves",):
        return MOVES
    return _KINDS.get(path[0], PAGES) if path else PAGES


class Abortable(Protocol):
    """The connection that has a place."""

    def abort(self) -> None: ...


class AdminLimit:
    """The places of one kind: at most `count` connections have one at a time. If one more
    connection wants a place, a connection that waits for its client is closed: of the address with
    most such connections, the one that has waited longest. If no connection waits for its client,
    there is no place."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._held: set[Abortable] = set()
        self._waiting: dict[Abortable, str] = {}
        """The connections that wait for their clients, with the address; the longest waiting comes
        first."""

    def __len__(self) -> int:
        return len(self._held)

    def take(self, client: Abortable) -> bool:
        """Takes a place for a connection; False if there is none. The caller gives it back."""
        if len(self._held) >= self.count:
            other = self._who_gives_way()
            if other is None:
                return False
            self.give_back(other)
            other.abort()
        self._held.add(client)
        return True

    def wait_for_client(self, client: Abortable, address: str = "") -> None:
        """Notes that the client of a connection now has to send its request, or to read its reply.
        Without an `address` all clients count as one."""
        if client in self._held:
            self._waiting[client] = address

    def _who_gives_way(self) -> Abortable | None:
        counts = Counter(self._waiting.values())
        most = max(counts.values(), default=0)
        return next((one for one, at in self._waiting.items() if counts[at] == most), None)

    def abort_waiting(self) -> None:
        """Closes all connections that wait for their clients."""
        for client in tuple(self._waiting):
            self.give_back(client)
            client.abort()

    def abort_all(self) -> None:
        """Closes all connections that have a place."""
        for client in tuple(self._held):
            self.give_back(client)
            client.abort()

    def give_back(self, client: Abortable) -> None:
        """Gives the place back; it may have been taken away before."""
        self._held.discard(client)
        self._waiting.pop(client, None)


LOCAL = "localhost"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address to listen on."""
    if host == LOCAL:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class AdminHosts:
    """The names that a request may have in its `Host`. `names`: those that are allowed besides
    localhost, in upper or lower case.

    A page of a foreign web site can let the name of its site resolve to the address of this port
    (DNS rebinding). The browser then takes the port for a part of that site and lets the page read
    the answers. Such a request has the site's name in its `Host`, so only known names are allowed.
    Every IP address is allowed, because no site can have one as its name: Kubernetes probes use the
    address of the pod, and published and forwarded ports have addresses that the daemon does not
    know."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {LOCAL, *(_plain(name) for name in names)}

    def allow(self, host: str | None) -> bool:
        """Whether a request may be answered. `host`: the header, perhaps with a port. None is
        allowed: only HTTP/1.0 has no such header, and no browser uses that."""
        if host is None:
            return True
        name = _without_port(host.strip())
        return _plain(name) in self._names or _is_address(name)


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
