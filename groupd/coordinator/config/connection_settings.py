"""The settings of connections: how many there may be, and what each may take."""

from __future__ import annotations

from dataclasses import dataclass

from groupd.coordinator.config.settings import setting

_INT_MAX = 2**31 - 1


@dataclass(frozen=True)
class ConnectionSettings:
    """Limits of connections, of what they send and of what they do not read."""

    # Connections
    socket_request_max_bytes: int = setting(
        "socket.request.max.bytes", 104857600, "Largest request frame.", low=1024
    )
    queued_max_request_bytes: int = setting(
        "queued.max.request.bytes",
        134217728,
        "Bytes that all connections of a process may hold: unfinished requests, requests under "
        "way, replies that are not sent. Each may have an eighth of what is left, and waits for "
        "more. A value below socket.request.max.bytes counts as that; -1 = no limit.",
        low=-1,
    )
    request_max_items: int = setting(
        "groupd.request.max.items",
        250000,
        "Most items (partitions, groups, members ...) in the arrays of one request.",
        low=1000,
    )
    max_connections: int = setting(
        "max.connections",
        20000,
        "Most open connections; others wait until one closes.",
        low=1,
    )
    max_connections_per_ip: int = setting(
        "max.connections.per.ip",
        _INT_MAX,
        "Most open connections of one address, others are closed; 0 only with overrides.",
        low=0,
    )
    max_connections_per_ip_overrides: tuple[str, ...] = setting(
        "max.connections.per.ip.overrides",
        (),
        "Other limits for some addresses: 10.0.0.7:100,::1:200.",
    )
    connections_max_idle_ms: int = setting(
        "connections.max.idle.ms", 600000, "A connection silent for so long is closed.", low=1
    )
    queued_max_requests: int = setting(
        "groupd.connection.max.inflight",
        1000,
        "Requests of one connection under way before it is not read further.",
        low=1,
    )
    write_buffer_max_bytes: int = setting(
        "groupd.connection.write.buffer.max.bytes",
        65536,
        "Unsent reply bytes of one connection before it is not read further.",
        low=1024,
    )
    write_stall_timeout_ms: int = setting(
        "groupd.connection.write.stall.timeout.ms",
        60000,
        "A client that does not read its replies for so long is dropped.",
        low=1,
    )
