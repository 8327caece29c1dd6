"""A broker without sockets, and a group of it with offsets, whose logs are scripted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.lag.growth import Bounds, Found, Wanted
from groupd.coordinator.moves.mover import PlannedMove, ShownOffsets
from groupd.coordinator.moves.own_broker import Operator, OwnBroker, OwnGroup, context_of
from groupd.coordinator.moves.plan import Current
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.shard_runtime import GroupLogShard
from groupd.coordinator.security.audit import Audit
from groupd.protocol.messages.offsets import (
    CommitPartition,
    OffsetCommitRequest,
    commit_topic,
)
from groupd.storage.log import LogCorrupt, LogUnavailable
from tests.support.loop_turns import OneStepATurn
from tests.unit.runtime.harness import TOPIC_ID, Bench, settle

T = TypeVar("T")

GROUP, TOPIC = "g", "t"
MANY = 1500
BY = context_of(Operator("admin port: token"), "10.0.0.7", None)


class ScriptedEnds:
    """Every partition has the same bounds."""

    def __init__(self) -> None:
        self.bounds = Bounds(0, 1000)
        self.away = False
        self.damaged: int | None = None
        """A partition whose log is damaged."""

    async def look(self, wanted: Wanted) -> Found:
        if self.away:
            raise LogUnavailable("the database is away")
        return {topic: dict.fromkeys(numbers, self.bounds) for topic, numbers in wanted.items()}

    async def first_at(self, topic: str, partition: int, at_ms: int) -> int | None:
        if partition == self.damaged:
            raise LogCorrupt("magic 0 at byte 0")
        return None

    async def written_ms(self, topic: str, partition: int, offset: int) -> int | None:
        return None


class Moves:
    """`moves.own_broker` over a topic with `MANY` partitions."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.ends = ScriptedEnds()
        self.work = LongWork(OneStepATurn())
        self.own = OwnBroker(bench.broker, bench.store, self.ends, self.work, Audit())

    @classmethod
    async def made(cls, **config: Any) -> Moves:
        bench = await Bench(**config).start()
        bench.broker.image = MetadataImage([TopicImage(TOPIC_ID, TOPIC, MANY)], version=2)
        return cls(bench)

    @property
    def group(self) -> OwnGroup:
        return self.own.group(self.shard, GROUP, BY)

    @property
    def shard(self) -> GroupLogShard:
        return self.bench.shard

    async def done(self, work: Awaitable[T]) -> T:
        """The result of `work`, which needs no time to pass."""
        task = asyncio.ensure_future(work)
        for _ in range(200):
            await settle()
            self.bench.clock.advance(0)
            if task.done():
                break
        else:
            task.cancel()
        return await task

    async def commit(self, offsets: Mapping[int, Current]) -> None:
        """As a client does, `offsets` by partition."""
        rows = [
            CommitPartition(number, one.offset, one.leader_epoch, one.metadata)
            for number, one in offsets.items()
        ]
        for at in range(0, len(rows), 100):
            topic = commit_topic(TOPIC, tuple(rows[at : at + 100]))
            await self.bench.answer(OffsetCommitRequest(GROUP, (topic,)), 9)

    def committed(self) -> dict[int, int]:
        """Offsets by partition."""
        stored = self.shard.shard.offsets.store.topics(GROUP).get(TOPIC, {})
        return {number: one.offset for number, one in stored.items()}

    def before(self, kind: type, count: int, act: Callable[[], Any]) -> None:
        """Call `act` before the request number `count` of this type goes to the coordinator."""
        submit, seen = self.bench.broker.submit, 0

        def submitted(context: RequestContext, request: Any) -> None:
            nonlocal seen
            if isinstance(request, kind) and context.access is BY.access:
                seen += 1
                if seen == count:
                    act()
            submit(context, request)

        self.bench.broker.submit = submitted  # type: ignore[method-assign]

    def lose_reply(self, kind: type) -> None:
        """The next request of this type is done, and its reply is lost."""
        broker = self.bench.broker
        submit = broker.submit

        def lost(reply: Any) -> None:
            raise OSError("scripted fault")

        def submitted(context: RequestContext, request: Any) -> None:
            if isinstance(request, kind):
                broker.submit = submit  # type: ignore[method-assign]
                context.token._receive = lost
            submit(context, request)

        broker.submit = submitted  # type: ignore[method-assign]


def shown(plan: PlannedMove) -> ShownOffsets:
    """What a plan has shown and would write, as an operator sends it back."""
    return {step.place: (step.before, step.after) for step in plan.steps if step.is_write}
