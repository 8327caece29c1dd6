"""The daemon: wires store, shards, data plane and sockets; the only place that makes adapters.

Order of a start: store (lock, schema), topics, ports, shards, topics of the command line. Shards
load while the port is already open, so early clients get COORDINATOR_LOAD_IN_PROGRESS. Order of a
stop: no new requests, long polls end, what is under way becomes durable and is answered, store.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from coordinator.config import CoordinatorConfig
from coordinator.core.assignors.api import AssignorError
from coordinator.core.assignors.loader import load_assignors
from coordinator.core.group_configs import GroupConfigs
from coordinator.core.shard import GroupCoordinatorShard
from coordinator.core.state import ShardState
from coordinator.runtime.broker import Broker
from coordinator.runtime.clock import Clock, SystemClock
from coordinator.runtime.ids import new_id, new_topic_id
from coordinator.runtime.offsets_view import OffsetsView
from coordinator.runtime.routes import group_routes
from coordinator.server.admin_http import AdminServer
from coordinator.server.admin_routes import AdminRoutes
from coordinator.server.connection import ConnectionStats
from coordinator.server.frontend import Frontend
from coordinator.server.listener import CannotListen, KafkaListener, cannot_listen
from coordinator.server.metrics import make_registry
from coordinator.topics.data_plane import DataPlane
from storage.log import LogError, Store, StoreRefused
from storage.open import create_store

log = structlog.get_logger("groupd.daemon")


class CannotStart(Exception):
    """`str()` is one line that says what and how to mend it."""


@dataclass(frozen=True)
class DaemonOptions:
    """What the command line decides. Addresses are (host, port); port 0 = any free one."""

    listen: tuple[str, int] = ("127.0.0.1", 9092)
    advertised: tuple[str, int] | None = None
    admin: tuple[str, int] = ("127.0.0.1", 9644)
    data_dir: Path = Path("groupd-data")
    store_url: str | None = None
    topics: tuple[tuple[str, int], ...] = ()
    config: CoordinatorConfig = field(default_factory=CoordinatorConfig)


class Daemon:
    """One broker process: everything between `start` and `stop`."""

    def __init__(self, options: DaemonOptions, clock: Clock | None = None) -> None:
        self.options = options
        self.kafka_address = ("", 0)
        self.admin_address = ("", 0)
        self.connections = ConnectionStats()
        self._config = options.config
        self._clock: Clock = clock or SystemClock()
        self._store: Store
        self._broker: Broker
        self._data_plane: DataPlane
        self._listener: KafkaListener | None = None
        self._admin: AdminServer | None = None
        self._stopping = False

    # Start --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Serve. Raises CannotStart; then nothing is left behind."""
        try:
            self._assignors = load_assignors(self._config.consumer_assignors)
            self._store = create_store(self.options.store_url, self.options.data_dir)
            await self._store.start()
        except (StoreRefused, ConfigError) as refused:
            raise CannotStart(str(refused)) from refused
        try:
            await self._assemble()
            await self._open_ports()
            await self._broker.load()
            await self._create_topics()
        except (CannotListen, StoreRefused, ConfigError) as refused:
            await self._abandon()
            raise CannotStart(str(refused)) from refused
        except LogError as error:
            await self._abandon()
            raise CannotStart(f"the store cannot be read: {error}") from error
        # What is loaded stays: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        log.info("serving", kafka=self.kafka_address, admin=self.admin_address)

    async def _assemble(self) -> None:
        await self._fix_offsets_partitions()
        self._broker = Broker(
            self._config, self._make_shard, self._store, self._clock, group_routes()
        )
        self._data_plane = DataPlane(
            config=self._config,
            store=self._store,
            append=self._broker.writer.append,
            new_topic_id=new_topic_id,
            clock=self._clock,
            offsets_log=OffsetsView(self._broker),
        )
        self._broker.start_writer()
        await self._data_plane.start()
        self._broker.image = self._data_plane.catalogue.image
        self._data_plane.catalogue.add_listener(self._broker.on_metadata)
        self._broker.serve_data(self._data_plane.handlers)

    def _make_shard(self) -> GroupCoordinatorShard:
        return GroupCoordinatorShard(
            ShardState(
                config=self._config,
                new_id=new_id,
                assignors=self._assignors,
                image=self._broker.image,
            )
        )
