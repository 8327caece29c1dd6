"""File descriptors: a process without free ones can accept no connection and open no file. So fewer
connections are allowed than there are descriptors."""

from __future__ import annotations

import resource
from contextlib import suppress

import structlog

RESERVED = 512
"""Descriptors that Kafka clients cannot take: for the admin port, which may have some 390
connections (`admin.admin_limits.REQUESTS_MAX`, `http_server.UNASKED_MAX`), the store, and files."""

log = structlog.get_logger("groupd.daemon")


def raise_limit(max_connections: int) -> None:
    """Raises the soft limit of this process as far as `max.connections` needs it and the hard limit
    allows."""
    wanted = max_connections + RESERVED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _finite(soft) < wanted:
        with suppress(OSError, ValueError):  # a system may allow less than it says
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, _finite(hard)), hard))


def warn_if_few(max_connections: int) -> None:
    """Writes one line to the log if the limit is too low for nine tenths of `max.connections`. A
    limit that is a little lower, such as the usual 20,000, is logged when it is reached."""
    allowed = most_connections(max_connections)
    if allowed < max_connections * 9 // 10:
        log.warning(
            "too few file descriptors for max.connections",
            descriptors=resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            max_connections=max_connections,
            connections_allowed=allowed,
            needed=max_connections + RESERVED,
        )


def most_connections(max_connections: int) -> int:
    """`max.connections`, or fewer if the descriptors of this process do not allow so many."""
    soft = _finite(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return min(max_connections, soft - min(RESERVED, soft // 2))


def _finite(limit: int) -> int:
    return 2**31 - 1 if limit == resource.RLIM_INFINITY else limit
