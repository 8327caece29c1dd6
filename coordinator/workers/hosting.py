"""What a daemon with workers has in addition: the workers, and what it does for them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct

from groupd.coordinator.config import ConfigError, CoordinatorConfig, with_settings
from groupd.coordinator.core.partitioning import compacted_log_name, offsets_log_name
from groupd.coordinator.producers.transactions import TransactionVerifier
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.server.admin_routes import AdminRoutes
from groupd.coordinator.server.group_lag import Ends
from groupd.coordinator.server.scrapes import Scrapes
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.workers import messages
from groupd.coordinator.workers.channel import Answer
from groupd.coordinator.workers.cluster import Cluster
from groupd.coordinator.workers.cluster_routes import ClusterRoutes
from groupd.coordinator.workers.link import Place
from groupd.coordinator.workers.log_service import LogService
from groupd.coordinator.workers.main_frontend import MainFrontend
from groupd.coordinator.workers.messages import Start
from groupd.coordinator.workers.operations import Operation
from groupd.coordinator.workers.places import bind_places
from groupd.coordinator.workers.spawn import Spawn, spawn_process
from groupd.storage.log import PartitionLogs

Handle = Callable[[bytes], Awaitable[bytes]]


class WorkerOptions(Struct, frozen=True):
    """`count`: 2 or more. The rest is how the workers log."""

    count: int
    log_format: str = "text"
    log_level: str = "info"


class Hosting:
    """`launch` before the store is opened, since processes take their time to start; `attach` once
    there is what workers ask for; then `cluster.start`."""

    def __init__(
        self,
        options: WorkerOptions,
        config: CoordinatorConfig,
        places: list[Place],
        broker: Callable[[], Broker],
        clock: Clock,
        spawn: Spawn = spawn_process,
    ) -> None:
        self._options = options
        self._config = config
        self._operations: dict[int, Mapping[Operation, Handle]] = {}
        self._data_plane: DataPlane
        self._verifier: TransactionVerifier
        self.frontend: MainFrontend
        self.cluster = Cluster(
            places,
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
    ) -> MainFrontend:
        """What takes the requests of the main process's own clients."""
        self._data_plane = data_plane
        self._verifier = verifier
        self.frontend = MainFrontend(broker, data_plane.catalogue.cluster_id, self.cluster)
        for link in self.cluster.links:
            shards = link.place.shards
            own = {name(shard) for shard in shards for name in _LOGS}
            service = LogService(logs, broker.writer.append, own)
            self._operations[link.place.node.node_id] = service.operations
        broker.find_node = self.cluster.find_node
        data_plane.catalogue.add_listener(self.cluster.on_metadata)
        data_plane.group_overrides.add_listener(self.cluster.on_group_configs)
        data_plane.broker_configs.follow(self.cluster.on_broker_configs)
        return self.frontend

    def add_routes(self, routes: AdminRoutes, scrapes: Scrapes, ends: Ends) -> None:
        """The routes of the admin port that speak for all nodes."""
        cluster_routes = ClusterRoutes(self.cluster, self._config.node_id, scrapes, ends)
        routes.add("metrics", cluster_routes.metrics)
        routes.add("groups", cluster_routes.groups)
        routes.add("events", cluster_routes.events)

    def _start(self, place: Place) -> Start:
        catalogue = self._data_plane.catalogue
        return Start(
            node_id=place.node.node_id,
            host=place.node.host,
            port=place.node.port,
            shards=place.shards,
            config=with_settings(self._config, self._data_plane.broker_configs.values()),
            image=catalogue.image,
            group_configs=self._data_plane.group_overrides.all(),
            log_format=self._options.log_format,
            log_level=self._options.log_level,
            cluster_id=catalogue.cluster_id,
        )

    def _serve(self, place: Place, operation: Operation, body: bytes) -> Answer:
        """What a worker asks."""
        handle = self._operations[place.node.node_id].get(operation)
        if handle is not None:
            return handle(body)
        if operation is Operation.FORWARD:
            return self.frontend.forwarded(body)
        if operation is Operation.VERIFY:
            return self._verify(body)
        raise ValueError(f"{operation.name} is not for the main process")

    async def _verify(self, body: bytes) -> bytes:
        write, add = messages.decode_write(body)
        codes = await self._verifier.verify(write, add=add)
        return messages.encode_codes(codes)


_LOGS = (offsets_log_name, compacted_log_name)


async def launch(
    options: WorkerOptions,
    config: CoordinatorConfig,
    listen: tuple[str, int],
    advertised: tuple[str, int] | None,
    broker: Callable[[], Broker],
    clock: Clock,
) -> Hosting:
    """Ports are bound and processes are on their way. Raises CannotListen, ConfigError."""
    shards = config.offsets_topic_num_partitions
    if options.count > shards:
        raise ConfigError(f"--workers {options.count}: there are {shards} shards only")
    places = bind_places(options.count, shards, config.node_id, listen, advertised)
    hosting = Hosting(options, config, places, broker, clock)
    try:
        await hosting.cluster.launch()
    except BaseException as error:
        await hosting.cluster.stop()
        if isinstance(error, OSError):
            raise ConfigError(f"--workers: a process cannot be started: {error}") from error
        raise
    return hosting
