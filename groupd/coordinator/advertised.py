"""The advertised address: the one in replies, to which clients connect."""

from __future__ import annotations

from ipaddress import ip_address

import structlog

log = structlog.get_logger("groupd.daemon")

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses to listen on that nobody can connect to, and the loopback addresses in their place."""


def address_text(host: str, port: int) -> str:
    """HOST:PORT, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def advertised_address(
    listen: str, bound: tuple[str, int], advertised: tuple[str, int] | None
) -> tuple[str, int]:
    """`advertised`, else the host of --listen or listeners as it was written, because certificates
    are for names, and the port that is bound. No client can connect to a wildcard address, so
    without --advertised or advertised.listeners it becomes the loopback address."""
    if advertised is not None:
        return advertised
    host, port = bound
    if host in WILDCARDS:
        log.warning(
            "clients on other machines need an advertised address",
            listen=host,
            told=WILDCARDS[host],
        )
    return _told_host(listen, host), port


def _told_host(listen: str, bound: str) -> str:
    """What clients are told where nothing is advertised. `listen`: the host as it was written;
    `bound`: the IP address that it means."""
    try:
        ip_address(listen or bound)
    except ValueError:
        return listen
    return WILDCARDS.get(bound, bound)
