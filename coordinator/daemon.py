"""The daemon: wires store, shards, transactions, data plane and sockets; the only place that makes
adapters.

Order of a start: store (lock, schema), topics, ports, shards, transactions, topics of the command
line. Shards load while the port is already open, so early clients get COORDINATOR_LOAD_IN_PROGRESS.
Order of a stop: no new requests, markers under way, long polls end, what is under way becomes
durable and is answered, store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from msgspec import Struct, field

from groupd.coordinator.advertised import address_told
from groupd.coordinator.cleaning.topic_cleaner import TopicCleaner
from groupd.coordinator.config import ConfigError, CoordinatorConfig
from groupd.coordinator.core.assignors.api import PartitionAssignor
from groupd.coordinator.core.assignors.loader import load_assignors
from groupd.coordinator.host import Host
from groupd.coordinator.runtime.broker import Broker, shard_maker
from groupd.coordinator.runtime.cleaner import Cleaner
from groupd.coordinator.runtime.clock import Clock, SystemClock
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.runtime.offsets_view import OffsetsView
from groupd.coordinator.runtime.routes import ROUTES
from groupd.coordinator.runtime.transactions import OffsetsMarkers
from groupd.coordinator.server.connection import Requests
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.frontend import Frontend
from groupd.coordinator.server.listener import CannotListen, KafkaListener, cannot_listen
from groupd.coordinator.topics.catalogue import fix_shard_count
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.topics.requests import data_handlers
from groupd.coordinator.transactions.coordinator import TransactionCoordinator
from groupd.coordinator.transactions.handlers import TransactionHandlers
from groupd.protocol.messages.cluster import Node
from groupd.storage.log import LogError, Store, StoreRefused
from groupd.storage.open import create_store

if TYPE_CHECKING:
    from groupd.coordinator.server.admin_http import AdminServer, ControlHandler
    from groupd.coordinator.workers.hosting import Hosting, WorkerOptions

log = structlog.get_logger("groupd.daemon")


class CannotStart(Exception):
    """`str()` is one line that says what and how to mend it."""


class DaemonOptions(Struct, frozen=True):
    """What the command line decides. Addresses are (host, port); port 0 = any free one.
    `admin` None: no admin port."""

    listen: tuple[str, int] = ("127.0.0.1", 9092)
    advertised: tuple[str, int] | None = None
    admin: tuple[str, int] | None = ("127.0.0.1", 9644)
    data_dir: Path = Path("groupd-data")
    store_url: str | None = None
    topics: tuple[tuple[str, int], ...] = ()
    config: CoordinatorConfig = field(default_factory=CoordinatorConfig)
    workers: WorkerOptions | None = None
    """None: everything in one process."""


class Daemon:
    """One broker process: everything between `start` and `stop`.

    For embedders: `clock` is the time of groups, offsets and records; sockets and long polls stay
    in real time unless it is the only one (`socket_clock`). `store` is used instead of the one of
    `options.store_url`. `wrap(requests)` may stand between the connections and the broker: it sees
    every decoded request, and may watch for repeated heartbeats (`Slot.watchers`). `control`
    answers what comes to `/control` of the admin port. `host` is what all of it stands on.
    """

    def __init__(
        self,
        options: DaemonOptions,
        clock: Clock | None = None,
        *,
        socket_clock: Clock | None = None,
        store: Store | None = None,
        wrap: Callable[[Requests], Requests] | None = None,
        control: ControlHandler | None = None,
        host: Host | None = None,
    ) -> None:
        self.options = options
        self.kafka_address = ("", 0)
        self.admin_address = ("", 0)
        self.connections = ConnectionStats()
        self._config = options.config
        self._host = host or Host()
        self._clock = self._host.clock(clock or SystemClock())
        self._socket_clock: Clock = socket_clock or clock or SystemClock()
        self._given_store = store
        self._wrap = wrap
        self._control = control
        self._nodes: list[Node] = []
        self._assignors: Mapping[str, PartitionAssignor] = {}
        self._store: Store
        self._to_close: Store | None = None
        self._data_plane: DataPlane
        self._broker: Broker
        self.requests: Requests
        """Takes what connections decode; there once the broker is assembled."""
        self._cleaner: Cleaner
        self.topic_cleaner: TopicCleaner
        self._stalls = LoopStalls()
        self._transactions: TransactionCoordinator
        self._hosting: Hosting | None = None
        self._listener: KafkaListener | None = None
        self._admin: AdminServer | None = None
        self._stopping = False
        self._assembled = False

    @property
    def broker(self) -> Broker:
        """There once the store is open, as is the data plane."""
        return self._broker

    @property
    def ending_transactions(self) -> bool:
        return self._transactions.markers.busy

    @property
    def data_plane(self) -> DataPlane:
        return self._data_plane

    # Start --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Serve. Raises CannotStart; then nothing is left behind, nor when it is cancelled."""
        trouble = "opened"
        try:
            self.take_assignors()
            await self._launch_workers()
            self._to_close = self._given_store or create_store(
                self.options.store_url, self.options.data_dir
            )
            self._store = await self._host.open(self._to_close, self.options.config)
            self._to_close = self._store
            trouble = "read"
            await self._host.run("assemble", self.assemble)
            self._stalls.start()
            await self._open_ports()
            topics = self.options.topics
            await self._host.run("load", lambda: self.load(topics), topics=topics)
            self._cleaner.start()
        except BaseException as error:  # also a cancelled start, and our own bugs
            await self._abandon()
            if isinstance(error, CannotListen | StoreRefused | ConfigError):
                raise CannotStart(str(error)) from error
            if isinstance(error, LogError):
                raise CannotStart(f"the store cannot be {trouble}: {error}") from error
            raise
        log.info("serving", kafka=self.kafka_address, admin=self.admin_address)

    def take_assignors(self) -> None:
        """Raises ConfigError."""
        self._assignors = load_assignors(self._config.consumer_assignors)
        # Members vote for the names that the assignors give themselves.
        self._config = replace(self._config, consumer_assignors=tuple(self._assignors))

    def adopt(self, store: Store) -> None:
        """Use `store`, which is open, without `start`."""
        self._store = store

    async def assemble(self) -> None:
        """Everything between the store and the sockets; nothing is loaded yet."""
        await fix_shard_count(self._store, self._config)
        cluster = None if self._hosting is None else self._hosting.cluster
        self._broker = Broker(
            self._config,
            shard_maker(self._config, self._assignors, self._host.new_id),
            self._store,
            self._clock,
            ROUTES,
            served=None if self._hosting is None else (),
        )
        self._cleaner = Cleaner(self._store, self._broker.shards, self._config, self._clock.now)
        self._data_plane = DataPlane(
            self._config,
            self._store,
            new_topic_id=self._host.new_topic_id,
            new_id=self._host.new_id,
            now=self._clock.now,
            nodes=self._nodes,
            writer=self._broker.writer.append,
            offsets_view=OffsetsView(self._broker),
            offsets_markers=cluster or OffsetsMarkers(self._broker),
            elapsed=self._host.elapsed(self._socket_clock),
            offsets_leader=None if cluster is None else cluster.offsets_leader,
        )
        self.topic_cleaner = TopicCleaner(self._data_plane, self._store, self._config, self._clock)
        transactions = self._make_transactions()
        self._broker.expiry.logs.append(self._data_plane.partitions.producers)
        self._broker.start_writer()
        self._assembled = True
        await self._data_plane.start()
        self._broker.image = self._data_plane.catalogue.image
        self._data_plane.catalogue.add_listener(self._broker.on_metadata)
        self._data_plane.group_overrides.add_listener(self._broker.on_group_configs)
        for group, overrides in self._data_plane.group_overrides.all().items():
            self._broker.on_group_configs(group, overrides)
        self._data_plane.broker_configs.follow(self._broker.on_broker_configs)
        self._broker.serve_data(data_handlers(self._data_plane))
        self._broker.serve_data(transactions.handlers)
        self.requests = Frontend(self._broker, self._data_plane.catalogue.cluster_id)
        if self._hosting is not None:
            parts = (self._store, self._broker, self._data_plane, self._transactions)
            self.requests = self._hosting.attach(*parts)
        if self._wrap is not None:
            self.requests = self._wrap(self.requests)

    async def load(self, topics: Iterable[tuple[str, int]]) -> None:
        """Read the shards, then the transactions, whose markers they take; then create topics."""
        await self._broker.load()
        if self._hosting is not None:
            await self._hosting.cluster.start()
        await self._transactions.load()
        await self._data_plane.create_missing(topics)
        self.topic_cleaner.start()

    def _make_transactions(self) -> TransactionHandlers:
        data_plane = self._data_plane
        self._transactions = TransactionCoordinator(
            self._config,
            self._store,
            self._broker.writer,
            self._clock,
            data_plane.producer_ids.next,
            data_plane.markers,
            data_plane.catalogue.show_transactions,
        )
        self._broker.verifier = self._transactions
        data_plane.verify_with(self._transactions, self._transactions.log.view)
        return TransactionHandlers(
            self._config,
            self._transactions,
            data_plane.catalogue.has_partition,
            data_plane.producer_ids.init,
        )

    async def _launch_workers(self) -> None:
        """Their processes start while the store is opened. Raises CannotListen, ConfigError."""
        if self.options.workers is not None:
            from groupd.coordinator.workers.hosting import launch

            self._hosting = await launch(
                self.options.workers,
                self.options.config,
                self.options.listen,
                self.options.advertised,
                lambda: self._broker,
                self._clock,
            )

    async def _stop_workers(self) -> None:
        if self._hosting is not None:
            await self._hosting.cluster.stop()

    async def _open_ports(self) -> None:
        self._listener = KafkaListener(
            self._config,
            self._socket_clock,
            self.requests,
            self.connections,
            self._host.connection,
        )
        self.kafka_address = await self._listener.start(*self.options.listen)
        node = address_told(self.kafka_address, self.options.advertised)
        self._host.call("announce", lambda: self.announce(*node), node=node)
        if self.options.admin is not None:
            await self._open_admin(self.options.admin)

    def announce(self, host: str, port: int) -> None:
        """The address that clients are told."""
        node = Node(self._config.node_id, host, port)
        self._nodes[:] = [node, *(self._hosting.cluster.nodes if self._hosting else ())]
        self._broker.node = node

    async def _open_admin(self, address: tuple[str, int]) -> None:
        # Imported late: an embedded broker mostly has no admin port.
        from groupd.coordinator.server.admin_groups import GroupRoutes
        from groupd.coordinator.server.admin_http import AdminServer
        from groupd.coordinator.server.admin_routes import AdminRoutes
        from groupd.coordinator.server.scrapes import Scrapes
        from groupd.coordinator.server.telemetry import add_telemetry

        parts = (self._broker, self.connections, self._transactions)
        logs = (self._cleaner, self.topic_cleaner, self._stalls)
        scrapes = Scrapes(*parts, *logs, self._host.collectors)
        shown = self._shown_options(address)
        routes = AdminRoutes(self.options.config, shown, scrapes, self._not_ready)
        ends = self._data_plane.partitions.ends
        groups = GroupRoutes(self._broker, ends)
        routes.add("groups", groups)
        routes.add("events", groups.events)
        add_telemetry(routes, scrapes, self._data_plane.telemetry)
        if self._hosting is not None:
            self._hosting.add_routes(routes, scrapes, ends)
        admin = AdminServer(routes, self._control)
        try:
            self.admin_address = await admin.start(*address)
        except OSError as error:
            raise cannot_listen(*address, "--admin", error) from error
        shown["admin"] = list(self.admin_address)
        self._admin = admin

    def _shown_options(self, admin: tuple[str, int]) -> dict[str, Any]:
        return {
            "listen": list(self.kafka_address),
            "advertised": [self._nodes[0].host, self._nodes[0].port],
            "admin": list(admin),  # until the real port is known
            "workers": self.options.workers.count if self.options.workers else 1,
            "data_dir": str(self.options.data_dir),
            "store": (self.options.store_url or "sqlite").partition(":")[0],
        }

    def _not_ready(self) -> str | None:
        if self._stopping:
            return "stopping"
        loading, failed = self._broker.loading, self._broker.failed
        if failed:
            return f"{len(failed)} shards cannot be loaded, see the log: {', '.join(failed)}"
        if loading:
            return f"{loading} shards are not active yet"
        if self._hosting is not None and (reason := self._hosting.cluster.not_ready()):
            return reason
        active = self._transactions.active
        return None if active else "the transaction coordinator is not active yet"

    # Stop ---------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Finish what is under way, answer it, close everything. A second call does nothing."""
        if self._stopping:
            return
        self._stopping = True
        if self._listener is not None:
            self._listener.close_listener()
            self._listener.stop_reading()
        try:
            await self._cleaner.close()
            await self._host.run("finish", self.finish)
        finally:
            self._stalls.stop()
            if self._listener is not None:
                await self._listener.close_connections()
            if self._admin is not None:
                await self._admin.close()
            await self._store.close()
        log.info("stopped")

    async def finish(self) -> None:
        """Refuse what is new; what is under way becomes durable and is answered."""
        await self.topic_cleaner.close()
        await self._transactions.close()
        await self._stop_workers()
        await self._data_plane.close()
        await self._broker.close()

    async def lost(self) -> str:
        """Waits until another process has taken the store over, whose groups are not ours any
        more; one line that says so."""
        return await self._store.lost()

    async def _abandon(self) -> None:
        """A start that failed half-way: give back ports and locks."""
        self._stopping = True
        if self._listener is not None:
            self._listener.close_listener()
            self._listener.stop_reading()
        if self._admin is not None:
            await self._admin.close()
        try:
            if self._assembled:
                await self._cleaner.close()
                await self._host.run("finish", self.finish)
        finally:
            await self._stop_workers()
            self._stalls.stop()
            if self._listener is not None:
                await self._listener.close_connections()
            if self._to_close is not None:
                await self._to_close.close()
