"""The broker as one object: the shards of groups, their metadata and configs, and the way from a
request to its answer.

`submit` takes a decoded request. The route of its type (`groupd.coordinator.runtime.routes`) says
what is checked and who answers: the shard of a group, several shards, or the route itself, which
may know the answer at once. All other requests are for `RequestTasks`. Checks come in Kafka's
order: authorisation and shape first, then whether this coordinator serves at all, then the shard's
own state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from msgspec import Struct

from groupd.coordinator.config.coordinator_config import CoordinatorConfig, with_settings
from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage, TopicDeletion
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.core.shard import GroupCoordinatorShard, MakeShard
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.producers.transactions import NoTransactions, TransactionVerifier
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.event_log import EventSink
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.ownership import Ownership, SingleNodeOwnership
from groupd.coordinator.runtime.producer_expiry import ProducerExpiry
from groupd.coordinator.runtime.request_tasks import RequestTasks
from groupd.coordinator.runtime.served_shards import GroupShards, Shard
from groupd.coordinator.runtime.shard_log import open_shard_logs
from groupd.coordinator.runtime.shard_runtime import DELETED_TOPICS_MAX, GroupLogShard
from groupd.coordinator.runtime.shard_state import (
    CoordinatorState,
    GroupShardParts,
    RuntimeParts,
)
from groupd.coordinator.runtime.stats import Durations
from groupd.coordinator.runtime.waiting import Waiter, WaitingRequests
from groupd.coordinator.runtime.writer import LogWriter
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.cluster import Node
from groupd.protocol.wire.registry import Failure
from groupd.storage.log import PartitionLogs
from groupd.storage.units import OwnedUnit, Unit

log = structlog.get_logger("groupd.broker")


Check = Callable[[CoordinatorConfig, RequestContext, Any, bool], None]
"""(config, context, request, whether the broker has started). Raises ApiError before anything has
changed."""

Dispatch = Callable[["Broker", RequestContext, Any], None]
"""Passes a request that has been checked to the shards or the function that answers it."""


class Route(Struct, frozen=True):
    """How one type of request is handled. `check` None: `dispatch` checks the entries of the
    request one by one. `failure`: makes the reply to a request that fails; None: as the API says.
    `refusal`: makes the reply to a request that `check` refuses; None: the same as `failure`."""

    check: Check | None
    dispatch: Dispatch
    failure: Failure | None = None
    refusal: Failure | None = None


FindNode = Callable[[Unit], "Node | None"]
"""The node that serves a unit; None while there is none."""


class Broker:
    """Everything behind the sockets. `ownership`: which shards this node serves in a cluster; by
    default this node is alone and serves all shards from the start. `work`: the queue for long
    work; by default the broker makes its own."""

    def __init__(
        self,
        config: CoordinatorConfig,
        make_shard: MakeShard,
        logs: PartitionLogs,
        clock: Clock,
        routes: Mapping[type, Route],
        *,
        ownership: Ownership | None = None,
        work: LongWork | None = None,
    ) -> None:
        self.config = config
        self.clock = clock
        self.ownership = ownership or SingleNodeOwnership(config.node_id)
        self._may_answer = ownership.may_answer if ownership else None
        self.image = MetadataImage()
        self.group_configs: dict[str, Mapping[str, str]] = {}
        self.waiting = WaitingRequests()
        self.writer = LogWriter(logs)
        self.work = LongWork() if work is None else work
        self.processing = Durations()
        self.tasks = RequestTasks(self.ownership, clock, self.work)
        self.events = EventSink(clock)
        self.shard_count = config.offsets_topic_num_partitions
        """How many shards there are, on this node or on others."""
        served = range(self.shard_count if ownership is None else 0)
        self.served = GroupShards(self._make_runtime, served)
        self.shards = self.served.in_order
        self.progress_listeners: list[Callable[[int], None]] = [self.served.wake]
        """Each is called with a shard's number when its durable end moves or its state changes."""
        self.node = Node(config.node_id, "", -1)
        self.find_node: FindNode = lambda unit: self.node
        """Only called once this broker has started."""
        self.verifier: TransactionVerifier = NoTransactions()
        self.started = False
        self._logs = logs
        self._make_shard = make_shard
        self._routes = dict(routes)
        self._deleted: deque[TopicDeletion] = deque(maxlen=DELETED_TOPICS_MAX)
        self._shard_parts = self._made_shard_parts()
        self.calls = self._shard_parts.parts.calls
        self.expiry = ProducerExpiry(config, clock, lambda: [one.producers for one in self.shards])

    def _make_runtime(self, partition: int, owned: OwnedUnit | None) -> GroupLogShard:
        shard = GroupLogShard(partition, self.config, self._shard_parts, owned)
        shard.deleted.extend(self._deleted)
        return shard

    def _made_shard_parts(self) -> GroupShardParts:
        parts = RuntimeParts(
            self.writer,
            self.clock,
            self._on_progress,
            self._may_answer,
            self.events.add,
            self.processing,
            self.work,
        )
        return GroupShardParts(self._fresh_shard, self._bring_up_to_date, self._logs, parts)

    # Life ---------------------------------------------------------------------------------

    def start_writer(self) -> None:
        self.writer.start()
        self.expiry.start()

    async def load(self) -> None:
        """Load every shard whose log is not empty. A shard that cannot be loaded is tried again
        later. Raises LogError."""
        self.started = True
        numbers = sorted(self.served.unopened)
        if not numbers:
            return
        opened = await open_shard_logs(self._logs, numbers)
        empty, now = [one for one in numbers if opened[one].empty], self.clock.now()
        self.served.rest(empty, lambda shard: shard.begin(opened[shard.partition], now))
        for number in sorted(self.served.unopened):
            await self.served.load(number, opened[number])

    @property
    def idle(self) -> bool:
        """Whether nothing waits for the log, no shard is loading, and no task of a request does
        more than read."""
        if self.writer.busy or self.tasks.busy:
            return False
        return CoordinatorState.LOADING not in self.served.states

    async def close(self) -> None:
        """Refuse new requests, make durable and answer what is under way, then stop."""
        self.started = False
        await self.expiry.close()
        self.tasks.close()
        self.calls.close()
        self.served.close_unmade()
        for shard in self.shards:
            shard.close()
        for shard in self.shards:
            await shard.closed()
        # Before the writer is closed: data requests may still append.
        await self.tasks.ended()
        await self.writer.close()
        if len(self.waiting):
            log.warning("requests without an answer at shutdown", count=len(self.waiting))
            self.waiting.end_all(ErrorCode.NOT_COORDINATOR, self.tasks.routes)

    # Requests -----------------------------------------------------------------------------

    def submit(self, context: RequestContext, request: Any) -> None:
        """Handle `request`. The waiter in `context.token` is answered once, now or later."""
        waiter: Waiter = context.token
        waiter.waiting = self.waiting  # as `add`, without a call
        self.waiting[waiter] = True
        if context.access.restricted:
            context = context.asking_once(type(request))
        route = self._routes.get(type(request))
        if route is None:
            self.tasks.submit(context, request)
            return
        waiter.failure = route.failure or waiter.failure
        if self._may_answer and not self._may_answer():
            waiter.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            return
        try:
            if route.check is not None:
                route.check(self.config, context, request, self.started)
            route.dispatch(self, context, request)
        except ApiError as error:  # from `check`
            waiter.failure = route.refusal or waiter.failure
            waiter.fail(error.code, error.message)
        except Exception:
            log.exception("request failed", request=request)
            waiter.fail(ErrorCode.UNKNOWN_SERVER_ERROR)

    def forget(self, waiter: Waiter) -> None:
        """The client is gone: drop the answer, and cancel a request that only reads. Changes are
        still made."""
        waiter.forget()
        self.tasks.forget(waiter)

    def shard_of(self, group_id: str) -> Shard:
        number = partition_for(group_id, self.shard_count)
        return self.served.by_number.get(number) or self.served.asked(number)

    def own_shard_of(self, group_id: str) -> GroupLogShard | None:
        """The same as `shard_of`; None if this broker does not serve the shard, or not yet."""
        return self.served.get(partition_for(group_id, self.shard_count))

    def ask(self, shard: Shard, context: RequestContext, part: Waiter) -> None:
        """Let a shard answer `part`, one part of a request."""
        context = self.part(context, part)
        if self.started:
            shard.handle(context, part.request)
        else:
            part.fail(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def part(self, context: RequestContext, part: Waiter) -> RequestContext:
        """Begin one part of a request. Returns the context of the part, which has the client's
        rights."""
        self.waiting.add(part)
        return context.with_token(part)

    def node_for(self, unit: Unit) -> Node | None:
        """Returns the node that serves a unit; None while it is not known or not running."""
        return self.find_node(unit) if self.started else None

    # Metadata and events ------------------------------------------------------------------

    def on_metadata(self, delta: MetadataDelta) -> None:
        """Give every shard the image with new, grown and deleted topics."""
        self.image = delta.image
        now = self.clock.now()
        self._deleted.extend(delta.deleted_at(now.wall_ms))
        for shard in self.shards:
            shard.on_metadata(delta, now)

    def on_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Take the dynamic configs of one group as they are now."""
        if configs:
            self.group_configs[group_id] = configs
        else:
            self.group_configs.pop(group_id, None)
        shard = self.served.by_number.get(partition_for(group_id, self.shard_count))
        if shard is not None:
            shard.set_group_configs(group_id, configs)

    def on_broker_configs(self, values: Mapping[str, str]) -> None:
        """Take the broker settings that clients can change, as they are now."""
        self.config = with_settings(self.config, values)
        for shard in self.shards:
            shard.shard.state.config = self.config

    def _fresh_shard(self) -> GroupCoordinatorShard:
        shard = self._make_shard(self.image, self.group_configs)
        shard.state.config = self.config
        shard.state.groups_in_all = self._count_groups
        return shard

    def _count_groups(self) -> int:
        return sum([len(shard.machine.state.groups) for shard in self.shards])

    def _bring_up_to_date(self, shard: GroupCoordinatorShard) -> None:
        shard.state.image = self.image
        shard.state.config = self.config
        for group, configs in self.group_configs.items():
            shard.set_group_configs(group, configs)

    def _on_progress(self, partition: int) -> None:
        for listener in self.progress_listeners:
            listener(partition)
