"""The advertised address: the one that replies name and that clients connect to."""

from __future__ import annotations

from ipaddress import ip_address

import structlog

log = structlog.get_logger("groupd.daemon")

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Wildcard addresses to listen on, to which nobody can connect, and the loopback addresses to
advertise in their place."""


def address_text(host: str, port: int) -> str:
    """HOST:PORT, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def advertised_address(
    listen: str, bound: tuple[str, int], advertised: tuple[str, int] | None
) -> tuple[str, int]:
    """`advertised` if it is given. Else the bound port and the host of --listen or listeners as it
    was written, because certificates are for names. No client can connect to a wildcard address, so
    without --advertised or advertised.listeners the loopback address takes its place."""
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
    """The host for clients if none is advertised. `listen`: the host as it was written; `bound`:
    its IP address."""
    try:
        ip_address(listen or bound)
    except ValueError:
        return listen
    return WILDCARDS.get(bound, bound)
