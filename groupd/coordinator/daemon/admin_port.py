"""The admin port of a daemon: what its pages show, and who may ask for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from groupd.coordinator.admin.access import admin_access
from groupd.coordinator.admin.admin_limits import is_loopback
from groupd.coordinator.admin.groups import GroupRoutes
from groupd.coordinator.admin.http_messages import ControlHandler
from groupd.coordinator.admin.http_server import AdminServer
from groupd.coordinator.admin.offset_pages import OffsetPages
from groupd.coordinator.admin.routes import AdminRoutes, telemetry_route
from groupd.coordinator.admin.scrapes import Scrapes
from groupd.coordinator.admin.share_pages import SharePages
from groupd.coordinator.admin.tls import admin_tls
from groupd.coordinator.advertised import WILDCARDS, address_text
from groupd.coordinator.console.health import HealthParts, Rows
from groupd.coordinator.console.routes import Console
from groupd.coordinator.daemon.options import DaemonOptions
from groupd.coordinator.daemon.parts import DaemonParts
from groupd.coordinator.host import Host
from groupd.coordinator.lag.watch import LagWatch
from groupd.coordinator.moves.own_broker import OwnBroker
from groupd.coordinator.runtime.clock import SystemClock
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.listener import cannot_listen

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from groupd.coordinator.cluster.local_node import LocalNode

Addresses = Mapping[str, tuple[str, int]]


class DaemonAdmin:
    """The admin port of one daemon. It is made before anything is opened, and raises ConfigError
    for credentials or certificates that cannot be used. `wanted`: the address to listen on.
    `control`: answers requests below `/control`."""

    def __init__(
        self,
        options: DaemonOptions,
        wanted: tuple[str, int],
        host: Host,
        connections: ConnectionStats,
        stalls: LoopStalls,
        control: ControlHandler | None,
    ) -> None:
        self.address = ("", 0)
        """The address of the port; set once it is open."""
        self._options = options
        self._wanted = wanted
        self._host = host
        self._connections = connections
        self._stalls = stalls
        self._control = control
        self._tls = admin_tls(options.config)
        self._access = admin_access(options.config, wanted[0])
        self._server: AdminServer | None = None
        self._watch: LagWatch | None = None
        self._console: Console | None = None

    async def open(
        self,
        parts: DaemonParts,
        kafka: Addresses,
        member: LocalNode | None,
        not_ready: Callable[[], str | None],
    ) -> None:
        """Listen. `kafka`: the addresses of the listeners. `member`: the node's part in its
        cluster. Raises CannotListen."""
        # Not the broker's queue: a recording repeats what is in that, and requests of clients must
        # not wait for full pages.
        work = LongWork()
        watch = self._watch = LagWatch(
            parts.broker, parts.log_ends, SystemClock(), work, self._options.config
        )
        scrapes = Scrapes(
            parts.broker,
            self._connections,
            parts.transactions,
            lambda: self._collectors(parts, watch, member),
            work,
        )
        shown = self._shown(parts, kafka)
        routes = AdminRoutes(self._options.config, shown, scrapes, not_ready)
        ends = parts.data_plane.partitions.ends
        audit = parts.security.audit
        own = OwnBroker(parts.broker, parts.store, parts.log_ends, work, audit)
        elsewhere = None if member is None else member.elsewhere
        groups = GroupRoutes(
            parts.broker,
            work,
            ends,
            watch,
            own,
            elsewhere,
            SharePages(parts.share_partitions, parts.share_offsets, parts.data_plane),
        )
        routes.add("groups", groups)
        routes.add("events", groups.events)
        routes.add("telemetry", telemetry_route(parts.data_plane.telemetry, work))
        actions: dict[str, ControlHandler] = {"groups": OffsetPages(parts.broker, own, work).act}
        nodes: Rows = tuple  # none
        if member is not None:
            from groupd.coordinator.cluster.pages import ClusterPages

            pages = ClusterPages(member)
            nodes = pages.nodes
            routes.add("cluster", pages.show)
            actions["cluster"] = pages.act
        self._add_console(parts, nodes, routes, groups, not_ready, work)
        server = self._made(routes, actions, parts.broker.node.host)
        try:
            self.address = await server.start(*self._wanted)
        except OSError as error:
            raise cannot_listen(*self._wanted, "--admin", error) from error
        shown["admin"] = list(self.address)
        watch.start()
        self._server = server
        if member is not None:
            member.admin_url = self._url(parts.broker.node.host)

    def _collectors(
        self, parts: DaemonParts, watch: LagWatch, member: LocalNode | None
    ) -> list[Collector]:
        # Imported at the first scrape, because they need the whole metrics library.
        from groupd.coordinator.admin.collectors import (
            LogCollector,
            SecurityCollector,
            ShareStateMetrics,
            TelemetryCollector,
            TopicCleaningCollector,
        )
        from groupd.coordinator.admin.lag_metrics import LagCollector
        from groupd.coordinator.admin.share_metrics import ShareRequestsMetrics

        series_max = parts.config.metrics_lag_series_max
        found: list[Collector] = [
            LogCollector(parts.cleaner, self._stalls),
            TopicCleaningCollector(parts.topic_cleaner),
            *self._host.collectors(),
            LagCollector(parts.broker, watch, series_max),
            TelemetryCollector(parts.data_plane.telemetry),
            SecurityCollector(parts.security),
            ShareStateMetrics(parts.share_state),
            ShareRequestsMetrics(parts.share_partitions, parts.broker, series_max),
        ]
        if member is not None:
            from groupd.coordinator.cluster.metrics import MembershipCollector, PeerCollector

            found += [MembershipCollector(member), PeerCollector(member.peers)]
        return found

    def _add_console(
        self,
        parts: DaemonParts,
        nodes: Rows,
        routes: AdminRoutes,
        groups: GroupRoutes,
        not_ready: Callable[[], str | None],
        work: LongWork,
    ) -> None:
        health = HealthParts(
            parts.broker,
            self._connections,
            self._stalls,
            {"store": (self._options.store_url or "sqlite").partition(":")[0]},
            nodes,
            lambda: {"topics": (len(parts.broker.image.by_name), parts.config.max_topics)},
            not_ready,
        )
        self._console = Console(
            groups,
            health,
            lambda: {"id": parts.broker.node.node_id},
            work,
            SystemClock(),
        )
        self._console.add_to(routes)

    async def close(self) -> None:
        if self._console is not None:
            await self._console.close()
        if self._server is not None:
            await self._server.close()
        if self._watch is not None:
            await self._watch.close()

    def _url(self, node_host: str) -> str:
        """Returns the URL of the port for other nodes. Clients of those nodes reach this node at
        `node_host`. Empty if the port can only be reached from this machine."""
        host, port = self.address
        if host in WILDCARDS:
            host = node_host
        elif is_loopback(host) and not is_loopback(node_host):
            return ""
        return f"{'http' if self._tls is None else 'https'}://{address_text(host, port)}"

    def _made(
        self, routes: AdminRoutes, actions: Mapping[str, ControlHandler], node_host: str
    ) -> AdminServer:
        """Returns the server. `node_host`: the host name for clients; other nodes send callers
        there, too."""
        names = (self._wanted[0], node_host, *self._options.config.admin_hosts)
        return AdminServer(
            routes, self._control, names, self._access, self._tls, actions, self._stalls.wake
        )

    def _shown(self, parts: DaemonParts, kafka: Addresses) -> dict[str, Any]:
        options, node = self._options, parts.broker.node
        return {
            "listen": list(next(iter(kafka.values()), ("", 0))),
            "listeners": {name: list(place) for name, place in kafka.items()},
            "advertised": [node.host, node.port],
            "admin": list(self._wanted),  # until the port is open and its number known
            "data_dir": str(options.data_dir),
            "store": (options.store_url or "sqlite").partition(":")[0],
        }
