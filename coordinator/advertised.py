"""The advertised address: the one in replies, to which clients connect."""

from __future__ import annotations

import structlog

log = structlog.get_logger("groupd.daemon")

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Addresses to listen on that nobody can connect to, and the loopback addresses in their place."""


def address_text(host: str, port: int) -> str:
    """HOST:PORT, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def advertised_address(
    bound: tuple[str, int], advertised: tuple[str, int] | None
) -> tuple[str, int]:
    """`advertised`, else the address that the daemon listens on. No client can connect to a
    wildcard address, so without --advertised or advertised.listeners it becomes the loopback
    address."""
    if advertised is not None:
        return advertised
    host, port = bound
    local = WILDCARDS.get(host)
    if local is None:
        return host, port
    log.warning("clients on other machines need an advertised address", listen=host, told=local)
    return local, port
