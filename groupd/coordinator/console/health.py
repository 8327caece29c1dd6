"""The state of this daemon, live: shards, event loop, writer, connections, limits, nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, json

from groupd import __version__
from groupd.coordinator.admin.http_messages import StreamEvent
from groupd.coordinator.console.live import event
from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.runtime.shard_state import count_states
from groupd.coordinator.server.connection_stats import ConnectionStats

Rows = Callable[[], Sequence[Mapping[str, Any]]]


class HealthParts(Struct, frozen=True):
    """The parts whose health is shown. `nodes()`: the nodes of a cluster; empty without one.
    `facts`: what does not change, such as the store. `counts()`: for other things with a limit, the
    used number and the largest, by name. `not_ready()`: why the daemon is not ready; None if it
    is."""

    broker: Broker
    connections: ConnectionStats
    stalls: LoopStalls
    facts: Mapping[str, Any]
    nodes: Rows
    counts: Callable[[], Mapping[str, tuple[float, float]]]
    not_ready: Callable[[], str | None]


class HealthSource:
    """A `live.LiveSource`."""

    cost_ms = 0.0
    tells_changes = False

    def __init__(self, parts: HealthParts, now: Callable[[], Instant]) -> None:
        self._parts = parts
        self._now = now
        self._since_ms = now().monotonic_ms
        self._event: StreamEvent = ()

    async def look(self) -> StreamEvent | None:
        self._event = event("snapshot", json.encode(self.shown()))
        return self._event

    async def whole(self) -> StreamEvent:
        return self._event

    def shown(self) -> dict[str, Any]:
        """What the page shows, as JSON-friendly data."""
        parts, now = self._parts, self._now()
        broker, stats = parts.broker, parts.connections
        writer = broker.writer
        flush = writer.stats.flush.quantiles()
        return {
            **parts.facts,
            "now_ms": now.wall_ms,
            "uptime_s": (now.monotonic_ms - self._since_ms) // 1000,
            "version": __version__,
            "not_ready": parts.not_ready(),
            "shards": count_states(broker.served.states),
            "loop": {
                "longest_ms_last_minute": round(parts.stalls.longest_ns() / 1e6, 1),
                "delays": parts.stalls.delays,
                "stalls": parts.stalls.stalls,
            },
            "writer": {
                "waiting": writer.waiting,
                "transactions": writer.transactions,
                "failures": writer.failures,
                "flush_ms": {name: flush[name] for name in ("p50", "p99", "max")},
            },
            "connections": {
                "open": stats.open,
                "allowed": stats.most,
                "accepted": stats.accepted,
            },
            "limits": self._limits(),
            "refusals": self._refusals(),
            "nodes": list(parts.nodes()),
        }

    def _limits(self) -> list[dict[str, Any]]:
        stats = self._parts.connections
        used: dict[str, tuple[float, float]] = {"connections": (stats.open, stats.most)}
        if stats.budget is not None:
            used["memory of connections, bytes"] = (stats.budget.used, stats.budget.limit)
        used.update(self._parts.counts())
        return [
            {"name": name, "used": now, "most": most} for name, (now, most) in used.items() if most
        ]

    def _refusals(self) -> list[dict[str, Any]]:
        """How often something was refused since the start, by reason."""
        stats = self._parts.connections
        counts = {
            "connections beyond the limit": stats.refused,
            "malformed requests": stats.malformed,
            "replies left unread": stats.stalled,
            "memory that others needed": stats.overdue,
            "failed logins": sum(
                count for (*_, succeeded), count in stats.sasl.logins.items() if not succeeded
            ),
            "failed store transactions": self._parts.broker.writer.failures,
        }
        return [{"what": what, "count": count} for what, count in counts.items() if count]
