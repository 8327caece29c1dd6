"""A worker: some of the shards with a Kafka port of their own, all else over the channel.

The main process starts it, says with `Operation.START` who it is, and asks it from then on. It ends
with its channel, at once and without a word to its clients: whoever restarts it has what it has
acknowledged, since that went through the channel before.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from dataclasses import replace
from socket import socket

import structlog

from groupd.coordinator.core.assignors.loader import load_assignors
from groupd.coordinator.runtime import collector
from groupd.coordinator.runtime.broker import Broker, shard_maker
from groupd.coordinator.runtime.cleaner import Cleaner
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.ids import new_id
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.runtime.routes import ROUTES
from groupd.coordinator.runtime.transactions import OffsetsMarkers
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.frontend import Frontend
from groupd.coordinator.server.listener import KafkaListener
from groupd.coordinator.server.logs import configure_logging
from groupd.coordinator.workers import messages
from groupd.coordinator.workers.channel import Answer, Channel
from groupd.coordinator.workers.messages import Health, Start
from groupd.coordinator.workers.offsets_plane import offsets_handlers
from groupd.coordinator.workers.operations import Operation
from groupd.coordinator.workers.pipelined_writer import PipelinedWriter
from groupd.coordinator.workers.remote_logs import RemoteLogs
from groupd.coordinator.workers.remote_transactions import RemoteVerifier
from groupd.coordinator.workers.replicated_topics import ReplicatedTopics
from groupd.coordinator.workers.worker_frontend import WorkerFrontend
from groupd.coordinator.workers.worker_reports import WorkerReports
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.groups import FindCoordinatorRequest
from groupd.storage.log import LogUnavailable

log = structlog.get_logger("groupd.workers")


class Worker:
    """`bound`: the socket to listen on, bound by the main process, which keeps it while a worker is
    restarted. `on_orphaned()` is called when the channel ends before a `STOP` has been carried out:
    nothing can be written any more."""

    def __init__(self, bound: socket, clock: Clock, on_orphaned: Callable[[], None]) -> None:
        self.channel = Channel(self._serve, self._lost)
        self.connections = ConnectionStats()
        self._bound = bound
        self._clock = clock
        self._on_orphaned = on_orphaned
        self._assembled = self._stopped = False
        self._starting: asyncio.Future[bytes] | None = None
        self._logs = RemoteLogs(self.channel)
        self._stalls = LoopStalls()
        self._topics: ReplicatedTopics
        self._broker: Broker
        self._cleaner: Cleaner
        self._listener: KafkaListener
        self._reports: WorkerReports

    def _lost(self) -> None:
        if not self._stopped:
            self._on_orphaned()

    def _serve(self, operation: Operation, body: bytes) -> Answer:
        """What the main process asks. Everything before the first await of an answer has its
        effect before the next frame is looked at."""
        match operation:
            case Operation.START:
                self._assemble(Start.decode(body))
                self._starting = asyncio.ensure_future(self._start())
                return self._starting
            case Operation.PING:
                return self._health().encode()
            case Operation.STOP:
                return self._stop()
            case _ if not self._assembled:
                raise LogUnavailable("the worker has not started")
            case Operation.METADATA:
                self._topics.apply(messages.decode_metadata(body, self._topics.image))
                return b""
            case Operation.GROUP_CONFIGS:
                self._broker.on_group_configs(*messages.decode_group_configs(body))
                return b""
            case Operation.BROKER_CONFIGS:
                self._broker.on_broker_configs(messages.decode_broker_configs(body))
                return b""
            case Operation.MARKER:
                return self._marker(body)
            case Operation.METRICS:
                return self._reports.metrics()
            case Operation.ADMIN:
                return self._reports.admin(*messages.decode_path(body))
            case _:
                raise ValueError(f"{operation.name} is not for workers")

    # Start --------------------------------------------------------------------------------

    def _assemble(self, start: Start) -> None:
        configure_logging(start.log_format, start.log_level, node=start.node_id)
        assignors = load_assignors(start.config.consumer_assignors)
        config = replace(start.config, consumer_assignors=tuple(assignors), node_id=start.node_id)
        broker = self._broker = Broker(
            config,
            shard_maker(config, assignors, new_id),
            self._logs,
            self._clock,
            ROUTES,
            served=start.shards,
            writer=PipelinedWriter(self._logs),
        )
        broker.node = Node(start.node_id, start.host, start.port)
        broker.image = start.image
        broker.group_configs.update(start.group_configs)
        broker.verifier = RemoteVerifier(self.channel)
        self._topics = ReplicatedTopics(start.image)
        self._topics.add_listener(broker.on_metadata)
        self._cleaner = Cleaner(self._logs, broker.shards, config, self._clock.now)
        handlers = offsets_handlers(config, broker, self._topics, self._logs)
        broker.serve_data(handlers)
        local = (ROUTES.keys() | handlers.keys()) - {FindCoordinatorRequest}
        requests = WorkerFrontend(Frontend(broker, start.cluster_id), self.channel, local)
        self._listener = KafkaListener(config, self._clock, requests, self.connections)
        self._reports = WorkerReports(broker, self.connections, self._cleaner, self._stalls)
        self._assembled = True

    async def _start(self) -> bytes:
        await self._listener.start_on(self._bound)
        self._broker.start_writer()
        self._stalls.start()
        await self._broker.load()
        self._cleaner.start()
        gc.collect()
        collector.serve()
        return self._health().encode()

    # At work ------------------------------------------------------------------------------

    def _health(self) -> Health:
        if not self._assembled:
            return Health()  # the answer to START says why
        return Health(self._broker.loading, tuple(self._broker.failed))

    async def _marker(self, body: bytes) -> bytes:
        marker, places = messages.decode_marker(body)
        return messages.encode_codes(
            await OffsetsMarkers(self._broker).write_marker(marker, places)
        )

    async def _stop(self) -> bytes:
        """Finish what is under way, answer it, close everything but the channel. A start that is
        under way is given up."""
        if not self._assembled:
            self._bound.close()
            self._stopped = True
            return b""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        self._listener.close_listener()
        self._listener.stop_reading()
        try:
            await self._cleaner.close()
            await self._broker.close()
        finally:
            self._stalls.stop()
            await self._listener.close_connections()
            self._bound.close()  # also if it never listened
        self._stopped = True
        return b""
