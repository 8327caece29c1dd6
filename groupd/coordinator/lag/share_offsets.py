"""Where share groups are in their partitions: DescribeShareGroupOffsets, and the positions for the
lag of share groups (KIP-932, KIP-1226; docs/spec/share-group.md#2.5).

The share coordinator knows the start offset of a share-partition, and how many records from there
on are finished already. Only what is before the start offset is finished without a gap, so the lag
is the number of records up to the end of the log, without the finished ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from groupd.coordinator.core.frontend.share_groups import check_describe_offsets
from groupd.coordinator.core.group_type import Positions
from groupd.coordinator.core.shard_requests import ListSharePartitions
from groupd.coordinator.core.slices import spans
from groupd.coordinator.core.types import (
    DataHandler,
    Instant,
    Operation,
    OutsideCall,
    RequestContext,
    Resource,
)
from groupd.coordinator.lag.growth import MINUTE_MS, MINUTES, Found, LogEnds, Trend
from groupd.coordinator.persister import Persister
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.waiting import Callback
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.share_group import (
    DescribedShareOffset,
    DescribedShareOffsets,
    DescribedShareOffsetsGroup,
    DescribeShareGroupOffsetsReply,
    DescribeShareGroupOffsetsRequest,
    ShareOffsetsGroup,
)
from groupd.protocol.messages.share_state import (
    NO_OFFSET,
    AskedShareState,
    ReadShareGroupStateSummaryRequest,
    ShareStateSummary,
    ShareStateTopic,
)
from groupd.storage.log import LogError

ASKED_AT_ONCE = 500
"""How many partitions the share coordinator is asked about at a time."""

GROUPS_KEPT = 10_000
"""The last positions are remembered for at most so many groups."""

STARTS_MAX = 20_000
"""The start offsets of the last hour are remembered for at most so many share-partitions."""


class SharePosition(Struct, frozen=True):
    """A `core.group_type.Position`. `offset`: the lag counts from there, as if the finished records
    were the first ones; `commit_timestamp_ms`: when this was first seen. All before `start_offset`
    is finished."""

    offset: int
    commit_timestamp_ms: int
    start_offset: int


NamedPartition = tuple[str, TopicId, int]
"""Topic name, topic id, partition."""


class ShareOffsets:
    """Asks the persister and the logs."""

    def __init__(self, broker: Broker, persister: Persister, ends: LogEnds) -> None:
        self._broker = broker
        self._persister = persister
        self._ends = ends
        self._positions: dict[str, dict[str, dict[int, SharePosition]]] = {}
        self._starts: dict[tuple[str, str, int], Trend] = {}
        """Start offsets by group id, topic and partition, those asked about longest ago first."""
        self.handlers: Mapping[type, DataHandler] = {
            DescribeShareGroupOffsetsRequest: self.describe
        }

    # DescribeShareGroupOffsets ------------------------------------------------------------

    async def describe(
        self, context: RequestContext, request: DescribeShareGroupOffsetsRequest
    ) -> DescribeShareGroupOffsetsReply:
        """Answers each group by itself, one after the other. The group need not exist."""
        return DescribeShareGroupOffsetsReply(
            [await self._described(context, group) for group in request.groups]
        )

    async def _described(
        self, context: RequestContext, asked: ShareOffsetsGroup
    ) -> DescribedShareOffsetsGroup:
        try:
            check_describe_offsets(
                self._broker.config, context, asked.group_id, self._broker.started
            )
            if asked.topics is None:
                topics = await self._all(context, asked.group_id)
            else:
                topics = await self._named(context, asked)
        except ApiError as error:
            return DescribedShareOffsetsGroup(
                asked.group_id, error=error.code, error_message=error.message
            )
        return DescribedShareOffsetsGroup(asked.group_id, topics)

    async def _named(
        self, context: RequestContext, asked: ShareOffsetsGroup
    ) -> list[DescribedShareOffsets]:
        """First the existing topics, then those that do not exist, then those that the client may
        not describe."""
        by_name = self._broker.image.by_name
        known: list[NamedPartition] = []
        unknown, denied = [], []
        for topic in asked.topics or ():
            if not context.allows(Operation.DESCRIBE, Resource.TOPIC, topic.name):
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                rows = [DescribedShareOffset(number, error=code) for number in topic.partitions]
                denied.append(DescribedShareOffsets(topic.name, rows))
            elif topic.name in by_name:
                topic_id = by_name[topic.name].topic_id
                known += [(topic.name, topic_id, number) for number in topic.partitions]
            else:
                rows = [DescribedShareOffset(number) for number in topic.partitions]
                unknown.append(DescribedShareOffsets(topic.name, rows))
        return [*await self._offsets(asked.group_id, known), *unknown, *denied]

    async def _all(self, context: RequestContext, group_id: str) -> list[DescribedShareOffsets]:
        """All partitions that have offsets, of topics that exist and that the client may
        describe."""
        partitions = await self._initialized(context, group_id)
        asked = [
            one
            for one in self._existing(partitions)
            if context.sees(Operation.DESCRIBE, Resource.TOPIC, one[0])
        ]
        return await self._offsets(group_id, asked)

    async def _initialized(
        self, context: RequestContext, group_id: str
    ) -> Mapping[TopicId, Collection[int]]:
        """Asks the shard of the group. Raises ApiError."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        part = Callback(
            ListSharePartitions(group_id),
            lambda _, code, message: ApiError(code, message),
            answer.set_result,
            lambda: answer.set_result(ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)),
        )
        self._broker.ask(self._broker.shard_of(group_id), context, part)
        found = await answer
        if isinstance(found, ApiError):
            raise found
        partitions: Mapping[TopicId, Collection[int]] = found
        return partitions

    def _existing(self, partitions: Mapping[TopicId, Collection[int]]) -> Iterator[NamedPartition]:
        by_id = self._broker.image.by_id
        for topic_id, numbers in sorted(partitions.items()):
            if topic_id in by_id:
                name = by_id[topic_id].name
                yield from ((name, topic_id, number) for number in sorted(numbers))

    async def _offsets(
        self, group_id: str, asked: Sequence[NamedPartition]
    ) -> list[DescribedShareOffsets]:
        rows: dict[tuple[str, TopicId], list[DescribedShareOffset]] = {}
        for span in spans(len(asked), ASKED_AT_ONCE):
            summaries = await self._summaries(group_id, asked[span])
            wanted: dict[str, list[int]] = {}
            for (name, _, number), summary in summaries:
                if _has_lag(summary):
                    wanted.setdefault(name, []).append(number)
            ends = await self._look(wanted)
            for (name, topic_id, number), summary in summaries:
                row = _row(number, summary, ends.get(name, {}))
                rows.setdefault((name, topic_id), []).append(row)
        return [
            DescribedShareOffsets(name, its, topic_id) for (name, topic_id), its in rows.items()
        ]

    async def _look(self, wanted: Mapping[str, Collection[int]]) -> dict[str, dict[int, int]]:
        """The ends of these logs, as far as they are known now."""
        try:
            found: Found = await self._ends.look(wanted) if wanted else {}
        except LogError:
            found = {}
        return {
            name: {number: bounds.end for number, bounds in its.items()}
            for name, its in found.items()
        }

    async def _summaries(
        self, group_id: str, asked: Sequence[NamedPartition]
    ) -> list[tuple[NamedPartition, ShareStateSummary]]:
        """What the share coordinator knows of each partition, in the order of the question."""
        by_topic: dict[TopicId, dict[int, NamedPartition]] = {}
        for one in asked:
            by_topic.setdefault(one[1], {})[one[2]] = one
        if not by_topic:
            return []
        topics = [
            ShareStateTopic(topic_id, [AskedShareState(number, 0) for number in its])
            for topic_id, its in by_topic.items()
        ]
        reply = await self._persister.ask(ReadShareGroupStateSummaryRequest(group_id, topics))
        return [
            (by_topic[topic.topic_id][one.partition], one)
            for topic in reply.topics
            for one in topic.partitions
            if isinstance(one, ShareStateSummary)
        ]

    # Lag ----------------------------------------------------------------------------------

    async def positions(self, call: OutsideCall) -> Positions:
        """Where the group is in each partition of `call.request` (partitions by topic id). A
        partition from which nothing was acknowledged yet is left out."""
        asked = list(self._existing(call.request))
        before = self._positions.get(call.group_id, {})
        now = self._broker.clock.now()
        found: dict[str, dict[int, SharePosition]] = {}
        for span in spans(len(asked), ASKED_AT_ONCE):
            for (name, _, number), summary in await self._summaries(call.group_id, asked[span]):
                if _has_lag(summary):
                    offset = summary.start_offset + summary.delivery_complete_count
                    last = before.get(name, {}).get(number)
                    if last is None or last.offset != offset:
                        last = SharePosition(offset, now.wall_ms, summary.start_offset)
                    elif last.start_offset != summary.start_offset:
                        last = replace(last, start_offset=summary.start_offset)
                    found.setdefault(name, {})[number] = last
                    self._follow((call.group_id, name, number), summary.start_offset, now)
        self._positions.pop(call.group_id, None)  # the newest ones are last
        self._positions[call.group_id] = found
        if len(self._positions) > GROUPS_KEPT:
            del self._positions[next(iter(self._positions))]
        return found

    def _follow(self, key: tuple[str, str, int], start_offset: int, now: Instant) -> None:
        """Remember a start offset. If there are too many, only a share-partition that nobody has
        asked about for an hour makes room."""
        trend = self._starts.pop(key, None)
        if trend is None:
            if len(self._starts) >= STARTS_MAX:
                oldest = next(iter(self._starts))
                if self._starts[oldest].last + MINUTES > now.monotonic_ms // MINUTE_MS:
                    return
                del self._starts[oldest]
            trend = Trend()
        trend.add(now.monotonic_ms, start_offset)
        self._starts[key] = trend

    def starts(self, group_id: str, topic: str, partition: int) -> list[int | None] | None:
        """The start offsets of the last hour, one a minute, newest last; None: not known."""
        trend = self._starts.get((group_id, topic, partition))
        return None if trend is None else trend.minutes(self._broker.clock.now().monotonic_ms)


def _has_lag(summary: ShareStateSummary) -> bool:
    known = NO_OFFSET not in (summary.start_offset, summary.delivery_complete_count)
    return not summary.error and known


def _row(number: int, summary: ShareStateSummary, ends: Mapping[int, int]) -> DescribedShareOffset:
    """An error of the share coordinator is shown as if nothing was known."""
    if summary.error:
        return DescribedShareOffset(number)
    start, epoch = summary.start_offset, summary.leader_epoch
    if not _has_lag(summary):
        return DescribedShareOffset(number, start, epoch)
    if number not in ends:
        return DescribedShareOffset(number, 0, error=ErrorCode.LEADER_NOT_AVAILABLE)
    lag = ends[number] - start - summary.delivery_complete_count
    return DescribedShareOffset(number, start, epoch, lag)
