"""Where a node of a cluster listens when the command line does not say so.

The other nodes and their clients must reach it, so it listens on the address by which this machine
reaches the database; on the usual ports, or on free ones where another node of the same machine has
these.
"""

from __future__ import annotations

import socket
from contextlib import suppress

from groupd.storage.postgres_url import parse_url

LOOPBACK = "127.0.0.1"
_POSTGRES_PORT = 5432


def own_address(store_url: str) -> str:
    """The address of this machine towards the database. Nothing is sent. Raises StoreRefused."""
    found = parse_url(store_url).host
    with suppress(OSError):
        place = socket.getaddrinfo(found, _POSTGRES_PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(*place[:3]) as probe:
            probe.connect(place[4])
            return str(probe.getsockname()[0])
    return LOOPBACK


def port_or_any(host: str, port: int) -> int:
    """The port if it is free, else 0, which takes any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return 0
    return port
