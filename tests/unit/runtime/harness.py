"""A whole broker without sockets: memory store, manual clock, real shards and routes.

Nothing here sleeps: `settle` gives the loop turns until the tasks under way have had their say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.assignors.loader import load_assignors
from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage, TopicImage
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.ownership import Ownership
from groupd.coordinator.runtime.routes import ROUTES
from groupd.coordinator.runtime.shard_runtime import GroupLogShard
from groupd.coordinator.runtime.waiting import Callback
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinProtocol,
    SyncAssignment,
    SyncGroupRequest,
)
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest, TopicPartitions
from groupd.protocol.messages.offsets import (
    CommitPartition,
    FetchTopic,
    OffsetCommitRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    commit_topic,
)
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.storage.memory import MemoryStore
from tests.support.access import ByRule, allow_all
from tests.support.manual_clock import ManualClock
from tests.support.prompt_clock import PromptClock

TOPIC_ID = bytes(range(16))
IMAGE = MetadataImage([TopicImage(TOPIC_ID, "t", 3)], version=1)
APIS = {api.request_type: api for api in API_BY_KEY.values()}
FAST = {
    "group_initial_rebalance_delay_ms": 0,
    "consumer_assignment_interval_ms": 0,
    "consumer_target_linger_ms": 0,
}


class Bench:
    """`shards`: partitions of `__consumer_offsets`. `change(shard)` may alter a fresh shard. With
    an `ownership` it begins without shards."""

    def __init__(
        self,
        store: MemoryStore | None = None,
        shards: int = 1,
        change: Callable[[GroupCoordinatorShard], None] | None = None,
        work: LongWork | None = None,
        ownership: Ownership | None = None,
        clock: ManualClock | None = None,
        **config: Any,
    ) -> None:
        self.store = store or MemoryStore()
        self.clock = clock or PromptClock()
        self.config = CoordinatorConfig(offsets_topic_num_partitions=shards, **{**FAST, **config})
        self._change = change
        self._ids = count(1)
        self._assignors = load_assignors(self.config.consumer_assignors)
        self.broker = Broker(
            self.config,
            self._make_shard,
            self.store,
            self.clock,
            ROUTES,
            work=work,
            ownership=ownership,
        )
        self.broker.image = IMAGE

    def _make_shard(
        self, image: MetadataImage, configs: Mapping[str, Mapping[str, str]]
    ) -> GroupCoordinatorShard:
        shard = GroupCoordinatorShard(
            ShardState(
                config=self.config,
                new_id=lambda: f"00000000-0000-4000-8000-{next(self._ids):012d}",
                assignors=self._assignors,
                image=image,
                group_configs={group: dict(values) for group, values in configs.items()},
            )
        )
        if self._change is not None:
            self._change(shard)
        return shard

    @property
    def shard(self) -> GroupLogShard:
        """The only one, or the first."""
        return self.broker.shards[0]

    async def start(self) -> Bench:
        await self.store.start()
        self.broker.start_writer()
        await self.broker.load()
        return self

    async def restart(self) -> Bench:
        """Closes this broker; another one on the same store."""
        await self.broker.close()
        shards = len(self.broker.shards)
        return await Bench(self.store, shards, self._change).start()

    def ask(
        self,
        request: Any,
        version: int | None = None,
        allows: Callable[..., bool] = allow_all,
        lost: Callable[[], None] | None = None,
    ) -> list[Any]:
        """Sends a request; the list that the reply will be in, exactly one if all is well. `lost`
        is called if there will be none."""
        api = APIS[type(request)]
        replies: list[Any] = []
        waiter = Callback(request, api.failure, replies.append, lost)
        version = api.max_version if version is None else version
        self.broker.submit(
            RequestContext(waiter, version, "client", access=ByRule(allows)), request
        )
        return replies

    async def answer(self, request: Any, version: int | None = None) -> Any:
        """The one reply, which needs no time to pass."""
        replies = self.ask(request, version)
        await settle()
        self.clock.advance(0)
        await settle()
        (reply,) = replies
        return reply

    def change_topics(self, *topics: TopicImage, deleted: tuple[str, ...] = ()) -> None:
        """Gives the broker metadata without `deleted` and with `topics`."""
        before = self.broker.image
        gone = tuple((name, before.by_name[name].topic_id) for name in deleted)
        kept = [topic for name, topic in before.by_name.items() if name not in deleted]
        image = MetadataImage([*kept, *topics], before.version + 1)
        created = frozenset(topic.name for topic in topics)
        self.broker.on_metadata(MetadataDelta(image, created, deleted=gone))


async def settle(turns: int = 40) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


def commit(group: str, offset: int, partition: int = 0, metadata: str = "") -> OffsetCommitRequest:
    entry = CommitPartition(partition, offset, metadata=metadata)
    return OffsetCommitRequest(group, (commit_topic("t", (entry,), TOPIC_ID),))


def fetch(group: str, *partitions: int) -> OffsetFetchRequest:
    topic = FetchTopic("t", partitions or (0,), TOPIC_ID)
    return OffsetFetchRequest((OffsetFetchGroup(group, (topic,)),))


def committed(reply: Any) -> list[int]:
    """The offsets in an OffsetFetch reply of one group and topic."""
    return [entry.offset for entry in reply.groups[0].topics[0].partitions]


def commit_errors(reply: Any) -> list[Any]:
    return [entry.error for topic in reply.topics for entry in topic.partitions]


def join(group: str, member_id: str = "", **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group, 10_000, 20_000, member_id, "consumer", (JoinProtocol("range", b"r"),), **fields
    )


def sync(group: str, generation: int, member_id: str, leads: bool = True) -> SyncGroupRequest:
    given = (SyncAssignment(member_id, b"a"),) if leads else ()
    return SyncGroupRequest(group, generation, member_id, None, "consumer", "range", given)


def beat(group: str, generation: int, member_id: str) -> HeartbeatRequest:
    return HeartbeatRequest(group, generation, member_id)


def consumer_join(group: str, member_id: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group,
        member_id,
        0,
        rebalance_timeout_ms=20_000,
        subscribed_topic_names=("t",),
        topic_partitions=(),
    )


def consumer_beat(
    group: str, member_id: str, epoch: int, owned: Sequence[TopicPartitions] | None = None
) -> ConsumerGroupHeartbeatRequest:
    held = None if owned is None else tuple(owned)
    return ConsumerGroupHeartbeatRequest(group, member_id, epoch, topic_partitions=held)
