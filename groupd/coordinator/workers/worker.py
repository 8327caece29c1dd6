"""A worker: some of the shards with a Kafka port of their own, all else over the channel.

The main process starts it and sends it `WorkerOperation.START`, then calls it. When its channel
ends it ends too, at once and without closing connections in order: everything that it has
acknowledged went through the channel before, so the next process finds it in the store.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from dataclasses import replace
from socket import socket
from typing import Any

from groupd.coordinator.core.assignors.loader import load_assignors
from groupd.coordinator.logs import configure_logging
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.cleaner import Cleaner
from groupd.coordinator.runtime.fresh_shards import shard_maker
from groupd.coordinator.runtime.ids import new_id
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.runtime.routes import ROUTES
from groupd.coordinator.runtime.transactions import OffsetsMarkers
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.fairness import fairness
from groupd.coordinator.server.frontend import Frontend
from groupd.coordinator.server.listener import KafkaListener
from groupd.coordinator.tracing.tracing import Tracing
from groupd.coordinator.workers.channel import Answer, Channel
from groupd.coordinator.workers.messages import (
    Codes,
    Health,
    MarkerOrder,
    Start,
    WorkerOperation,
    decode_question,
    encode,
    encoded,
)
from groupd.coordinator.workers.offsets_plane import offsets_handlers
from groupd.coordinator.workers.pipelined_writer import PipelinedWriter
from groupd.coordinator.workers.remote import (
    RemoteEnds,
    RemoteLogs,
    RemoteVerifier,
    ReplicatedTopics,
)
from groupd.coordinator.workers.reports import WorkerReports
from groupd.coordinator.workers.worker_frontend import WorkerFrontend
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.groups import FindCoordinatorRequest
from groupd.storage.log import LogUnavailable

_BEFORE_START = (WorkerOperation.START, WorkerOperation.PING, WorkerOperation.STOP)


class Worker:
    """`bound`: the socket to listen on, bound by the main process, which keeps it while a worker is
    restarted. `on_orphaned()` is called when the channel ends before a `STOP` has been carried out:
    nothing can be written any more."""

    def __init__(self, bound: socket, on_orphaned: Callable[[], None]) -> None:
        self.channel = Channel(self._serve, self._lost)
        self.connections = ConnectionStats()
        self._bound = bound
        self._on_orphaned = on_orphaned
        self._assembled = self._stopped = False
        self._starting: asyncio.Future[Health] | None = None
        self._logs = RemoteLogs(self.channel)
        self._stalls = LoopStalls()
        self._clock = self._stalls.clock
        self._topics: ReplicatedTopics
        self._broker: Broker
        self._cleaner: Cleaner
        self._listener: KafkaListener
        self._reports: WorkerReports
        self._tracing: Tracing

    def _lost(self) -> None:
        if not self._stopped:
            self._on_orphaned()

    def _serve(self, operation: WorkerOperation, body: bytes) -> Answer:
        """What the main process asks."""
        if not self._assembled and operation not in _BEFORE_START:
            raise LogUnavailable("the worker has not started")
        answer = self._answer(operation, decode_question(operation, body))
        return encoded(answer) if isinstance(answer, Awaitable) else encode(answer)

    def _answer(self, operation: WorkerOperation, question: Any) -> Any:
        """An answer or an awaitable, see `messages.CALLS`. Everything before the first await has
        its effect before the next frame is looked at."""
        match operation:
            case WorkerOperation.START:
                self._assemble(question)
                self._starting = asyncio.ensure_future(self._start())
                return self._starting
            case WorkerOperation.PING:
                return self._health()
            case WorkerOperation.STOP:
                return self._stop()
            case WorkerOperation.METADATA:
                return self._topics.apply(question.after(self._topics.image))
            case WorkerOperation.GROUP_CONFIGS:
                return self._broker.on_group_configs(question.group_id, question.configs)
            case WorkerOperation.BROKER_CONFIGS:
                return self._broker.on_broker_configs(question)
            case WorkerOperation.MARKER:
                return self._marker(question)
            case WorkerOperation.METRICS:
                return self._reports.metrics()
            case WorkerOperation.ADMIN:
                return self._reports.admin(question)
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
        self._tracing = Tracing(config)
        self._tracing.follow(broker.event_listeners, start.node_id)
        self._topics = ReplicatedTopics(start.image)
        self._topics.add_listener(broker.on_metadata)
        self._cleaner = Cleaner(self._logs, broker.shards, config, self._clock.now)
        handlers = offsets_handlers(config, broker, self._topics, self._logs)
        broker.serve_data(handlers)
        local = (ROUTES.keys() | handlers.keys()) - {FindCoordinatorRequest}
        requests = WorkerFrontend(Frontend(broker, start.cluster_id), self.channel, local)
        self._listener = KafkaListener(
            config,
            self._clock,
            requests,
            self.connections,
            fairness(config, self._stalls, broker.work, self._clock),
        )
        self._reports = WorkerReports(
            broker,
            self.connections,
            self._cleaner,
            self._stalls,
            self._logs,
            RemoteEnds(self.channel),
        )
        self._assembled = True

    async def _start(self) -> Health:
        await self._listener.start_on(self._bound)
        self._broker.start_writer()
        self._stalls.start()
        await self._broker.load()
        self._cleaner.start()
        self._reports.watch.start()
        gc.collect()  # the process keeps what is left out of later collections: `collector.serve`
        return self._health()

    # At work ------------------------------------------------------------------------------

    def _health(self) -> Health:
        if not self._assembled:
            return Health()  # the answer to START says why
        return Health(self._broker.loading, tuple(self._broker.failed))

    async def _marker(self, order: MarkerOrder) -> Codes:
        markers = OffsetsMarkers(self._broker)
        return dict(await markers.write_marker(order.marker, order.partitions))

    async def _stop(self) -> None:
        """Finish what is under way, answer it, close everything but the channel. A start that is
        under way is given up."""
        if not self._assembled:
            self._bound.close()
            self._stopped = True
            return
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        self._listener.close_listener()
        self._listener.stop_reading()
        try:
            await self._reports.watch.close()
            await self._cleaner.close()
            await self._broker.close()
        finally:
            await asyncio.gather(self._listener.close_connections(), self._tracing.stop())
            self._stalls.stop()
            self._bound.close()  # also if it never listened
        self._stopped = True
