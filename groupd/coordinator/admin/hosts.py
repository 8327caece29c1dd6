"""Which `Host` a request to the admin port may name.

A web page from elsewhere can let its own name resolve to the address of this port (DNS rebinding);
the browser then takes the port for a part of that page's site and lets the page read the answers.
Such a request has the page's name in its `Host`. So names must be known. Every IP address is
allowed, because no page gets a name by it: Kubernetes probes use the address of the pod, and
published ports and forwarded ones have addresses that the daemon does not know.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

LOCAL = "localhost"


def is_loopback(host: str) -> bool:
    """Whether an address to listen on can be reached from this machine only."""
    if host == LOCAL:
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


class AdminHosts:
    """`names`: the names that are allowed besides localhost, in upper or lower case."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {LOCAL, *(_plain(name) for name in names)}

    def allow(self, host: str | None) -> bool:
        """`host`: what the header says, perhaps with a port. None: HTTP/1.0 has no such header, and
        no browser speaks it."""
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
