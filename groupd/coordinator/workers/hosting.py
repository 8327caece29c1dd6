"""What a daemon with workers has besides its parts: the workers, and answers to their calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from groupd.coordinator.admin.routes import AdminRoutes
from groupd.coordinator.admin.scrapes import Scrapes
from groupd.coordinator.config.coordinator_config import (
    ConfigError,
    CoordinatorConfig,
    with_settings,
)
from groupd.coordinator.core.partitioning import compacted_log_name, offsets_log_name
from groupd.coordinator.lag.ends import LogEnds
from groupd.coordinator.lag.rows import Ends
from groupd.coordinator.producers.transactions import TransactionVerifier
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.workers.channel import Answer
from groupd.coordinator.workers.cluster import Cluster
from groupd.coordinator.workers.cluster_routes import ClusterRoutes
from groupd.coordinator.workers.link import WorkerNode
from groupd.coordinator.workers.log_service import LogService
from groupd.coordinator.workers.main_frontend import MainFrontend
from groupd.coordinator.workers.messages import (
    Codes,
    Start,
    Verify,
    WorkerOperation,
    decode_question,
    encoded,
)
from groupd.coordinator.workers.spawn import Spawn, spawn_process
from groupd.coordinator.workers.worker_nodes import bind_nodes
from groupd.storage.log import PartitionLogs

Handle = Callable[[Any], Awaitable[Any]]


class WorkerOptions(Struct, frozen=True):
    """`count`: 2 or more. The rest is how the workers log."""

    count: int
    log_format: str = "text"
    log_level: str = "info"


class Hosting:
    """The workers of a daemon. Call `launch` before the store is opened, since processes take their
    time to start; `attach` once there is what workers ask for; then `cluster.start`."""

    def __init__(
        self,
        options: WorkerOptions,
        config: CoordinatorConfig,
        workers: list[WorkerNode],
        broker: Callable[[], Broker],
        clock: Clock,
        spawn: Spawn = spawn_process,
    ) -> None:
        self._options = options
        self._config = config
        self._operations: dict[int, Mapping[WorkerOperation, Handle]] = {}
        """The handlers of what a worker asks, by node id."""
        self._data_plane: DataPlane
        self._verifier: TransactionVerifier
        self._frontend: MainFrontend | None = None
        self.cluster = Cluster(
            workers,
            config.node_id,
            lambda: broker().node,
            self._serve,
            self._start,
            clock,
            config.worker_timeout_ms,
            spawn,
        )

    def attach(
        self,
        logs: PartitionLogs,
        broker: Broker,
        data_plane: DataPlane,
        verifier: TransactionVerifier,
        ends: LogEnds,
    ) -> MainFrontend:
        """Connects the workers with what they ask for. Returns the front end that takes the
        requests of the main process's own clients."""
        self._data_plane = data_plane
        self._verifier = verifier
        frontend = self._frontend = MainFrontend(
            broker, data_plane.catalogue.cluster_id, self.cluster
        )
        for link in self.cluster.links:
            shards = link.worker.shards
            own = {name(shard) for shard in shards for name in _LOGS}
            service = LogService(logs, broker.writer.append, own)
            self._operations[link.node_id] = {
                **service.operations,
                WorkerOperation.FORWARD: frontend.forwarded,
                WorkerOperation.VERIFY: self._verify,
                WorkerOperation.ENDS: ends.look,
                WorkerOperation.WRITTEN: lambda asked: ends.written_ms(*asked),
                WorkerOperation.FIRST_AT: lambda asked: ends.first_at(*asked),
            }
        broker.find_node = self.cluster.find_node
        data_plane.catalogue.add_listener(self.cluster.on_metadata)
        data_plane.group_overrides.add_listener(self.cluster.on_group_configs)
        data_plane.broker_configs.follow(self.cluster.on_broker_configs)
        return frontend

    async def stop(self) -> None:
        """Stops the workers in order, and what speaks for them to clients; also before `attach`."""
        await self.cluster.stop()
        if self._frontend is not None:
            self._frontend.close()

    def shown(self) -> list[dict[str, Any]]:
        """Each worker, as the console shows it."""
        return [
            {"node": link.node_id, "state": link.state.value, "restarts": link.restarts}
            for link in self.cluster.links
        ]

    def add_routes(
        self, routes: AdminRoutes, scrapes: Scrapes, ends: Ends, work: LongWork
    ) -> ClusterRoutes:
        """Adds the routes of the admin port that speak for all nodes."""
        cluster_routes = ClusterRoutes(self.cluster, self._config.node_id, scrapes, ends, work)
        routes.add("metrics", cluster_routes.metrics)
        routes.add("groups", cluster_routes.groups)
        routes.add("events", cluster_routes.events)
        return cluster_routes

    def _start(self, worker: WorkerNode) -> Start:
        catalogue = self._data_plane.catalogue
        return Start(
            node_id=worker.node.node_id,
            host=worker.node.host,
            port=worker.node.port,
            shards=worker.shards,
            config=with_settings(self._config, self._data_plane.broker_configs.values()),
            image=catalogue.image,
            group_configs=self._data_plane.group_overrides.all(),
            log_format=self._options.log_format,
            log_level=self._options.log_level,
            cluster_id=catalogue.cluster_id,
        )

    def _serve(self, worker: WorkerNode, operation: WorkerOperation, body: bytes) -> Answer:
        """The answer to what a worker asks."""
        handle = self._operations[worker.node.node_id].get(operation)
        if handle is None:
            raise ValueError(f"{operation.name} is not for the main process")
        return encoded(handle(decode_question(operation, body)))

    async def _verify(self, asked: Verify) -> Codes:
        return await self._verifier.verify(asked.write, add=asked.add)


_LOGS = (offsets_log_name, compacted_log_name)


async def launch(
    options: WorkerOptions,
    config: CoordinatorConfig,
    listen: tuple[str, int],
    advertised: tuple[str, int] | None,
    broker: Callable[[], Broker],
    clock: Clock,
) -> Hosting:
    """Binds the ports and starts the processes. Raises CannotListen, ConfigError."""
    shards = config.offsets_topic_num_partitions
    if options.count > shards:
        raise ConfigError(f"--workers {options.count}: there are {shards} shards only")
    rack = config.broker_rack or None
    workers = bind_nodes(options.count, shards, config.node_id, listen, advertised, rack)
    hosting = Hosting(options, config, workers, broker, clock)
    try:
        await hosting.cluster.launch()
    except BaseException as error:
        await hosting.cluster.stop()
        if isinstance(error, OSError):
            raise ConfigError(f"--workers: a process cannot be started: {error}") from error
        raise
    return hosting
