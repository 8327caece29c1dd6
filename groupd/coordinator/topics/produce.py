"""Produce (0): append record batches, and answer when they are durable. Offsets are assigned in the
order of arrival, so pipelined requests of one producer keep their order. If a request must wait
first (for a partition to open, or a transaction to be verified), later requests wait behind it. All
batches of a request go to the writer in one call, those of a request with very many in several.
`timeout_ms` is not used: there are no other replicas to wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from groupd.coordinator.core.types import Instant, Operation, RequestContext, Resource
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.topics.appends import Appends, ArrivalOrder
from groupd.coordinator.topics.batch_checks import produced_batch
from groupd.coordinator.topics.broker_configs import BrokerConfigs
from groupd.coordinator.topics.layout import CurrentLeaders, Layout
from groupd.coordinator.topics.partitions import Partitions
from groupd.coordinator.topics.produce_entry import BatchChecking, ProduceEntry
from groupd.coordinator.topics.produce_transactions import ProduceTransactions
from groupd.coordinator.topics.topic import log_name
from groupd.coordinator.topics.topic_configs import TopicSettings
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.data import (
    ProducedPartition,
    ProducedTopic,
    ProducePartition,
    ProduceReply,
    ProduceRequest,
    ProduceTopic,
)
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.records.batch import parse_header, with_log_append_time
from groupd.storage.log import LogError

PARTITIONS_AT_ONCE = 100
"""How many batches of a request get their offsets without a turn for other work: takes a few
milliseconds."""

_LEADERS_SINCE = 10
_BY_ID_FROM = 13
_LEADER_ERRORS = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER})


class _Begun(Struct, frozen=True):
    """A request, or a part of it, whose batches have their offsets. `append`: the task that writes
    the batches of `staged`; its result is the error, or None."""

    grouped: list[tuple[ProduceTopic, list[ProduceEntry]]]
    entries: list[ProduceEntry]
    staged: list[ProduceEntry]
    append: asyncio.Task[ApiError | None] | None
    continues: bool
    """Its first topic is the last topic of the part before."""


class Produce:
    """Handles Produce. `now()` is the wall clock for LogAppendTime and timestamp checks."""

    def __init__(
        self,
        partitions: Partitions,
        layout: Layout,
        appends: Appends,
        transactions: ProduceTransactions,
        broker: BrokerConfigs,
        now: Callable[[], Instant],
        work: LongWork,
    ) -> None:
        self._partitions = partitions
        self._layout = layout
        self._appends = appends
        self._transactions = transactions
        self._broker = broker
        self._now = now
        self._work = work
        self._checking = BatchChecking(broker, work)
        self._order = ArrivalOrder()

    async def handle(self, context: RequestContext, request: ProduceRequest) -> ProduceReply | None:
        """The reply; None for acks=0. Raises ApiError for transactional batches that the client may
        not send and, for acks=0, if any batch has failed."""
        if not is_long(request):
            self._transactions.check_access(context, request)
            begun = [await self._begin(context, request)]
        else:
            begun = await self._begin_long(context, request)
        leaders = CurrentLeaders(self._layout, context, _LEADERS_SINCE, _LEADER_ERRORS)
        pace = self._work.pace()
        for part in begun:
            await self._finish(part)
            if pace.due(len(part.entries)):
                await pace.turn()
            _name_leaders(part, leaders)
        if request.acks != 0:
            return _reply(begun, leaders.endpoints)
        for part in begun:
            _check_done(part)
        return None

    async def _begin_long(self, context: RequestContext, request: ProduceRequest) -> list[_Begun]:
        """Begin a long request in parts, with turns for other work in between. No other request of
        its connection starts meanwhile, so no later one can overtake a part."""
        pace = self._work.pace()
        for part, _ in _parts(request):
            await pace.turn()
            self._transactions.check_access(context, part)
        begun = []
        for part, continues in _parts(request):
            await pace.turn()
            begun.append(await self._begin(context, part, continues=continues))
        return begun

    async def _begin(
        self, context: RequestContext, request: ProduceRequest, *, continues: bool = False
    ) -> _Begun:
        """Check and stage the batches and start the append."""
        grouped = [
            (topic, [self._admit(context, request, topic, asked) for asked in topic.partitions])
            for topic in request.topics
        ]
        entries = [entry for _, some in grouped for entry in some if not entry.failed]
        unchecked = self._checking.start(entries, self._now().wall_ms)
        transactional = self._transactions.mark(entries)
        logs = [_log_name(entry) for entry in entries]
        # A producer waits for its own verification only, not for that of other producers.
        name = request.transactional_id
        queues = [] if name is None else [f"{log}/{name}" for log in logs]
        if self._attach(entries) and not unchecked and not self._order.busy(logs):
            logs = []
        if logs or self._order.busy(queues) or self._transactions.needed(context, transactional):
            staged = await self._in_turn(
                context, request, logs, queues, entries, unchecked, transactional
            )
        else:
            staged = self._stage(entries)
        return _Begun(grouped, entries, staged, self._append(staged), continues)

    async def _finish(self, begun: _Begun) -> None:
        """Wait until the batches are durable, or have failed."""
        if begun.append is not None:
            failure = await asyncio.shield(begun.append)
            if failure is not None:
                for entry in begun.staged:
                    entry.fail(failure)
        await self._await_duplicates(begun.entries)

    def _admit(
        self,
        context: RequestContext,
        request: ProduceRequest,
        topic: ProduceTopic,
        asked: ProducePartition,
    ) -> ProduceEntry:
        entry = ProduceEntry(asked, ProducedPartition(asked.partition))
        try:
            entry.topic = self._partitions.resolve(
                topic.name,
                topic.topic_id,
                asked.partition,
                lambda name: context.allows(Operation.WRITE, Resource.TOPIC, name),
                by_id=not topic.name and context.api_version >= _BY_ID_FROM,
            )
            if request.acks not in (-1, 0, 1):
                raise ApiError(
                    ErrorCode.INVALID_REQUIRED_ACKS, f"acks={request.acks}: must be -1, 0 or 1"
                )
            if entry.topic.internal:
                raise ApiError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"Cannot append to internal topic {entry.topic.name}",
                )
            entry.header = produced_batch(asked.records, context.api_version)
        except ApiError as error:
            entry.fail(error)
        return entry

    def _attach(self, entries: list[ProduceEntry]) -> bool:
        """Give each entry its open log; False if one must be opened first."""
        complete = True
        for entry in entries:
            if entry.failed or entry.topic is None:
                continue
            entry.log = self._partitions.is_open(entry.topic, entry.asked.partition)
            complete = complete and entry.log is not None
        return complete

    async def _in_turn(
        self,
        context: RequestContext,
        request: ProduceRequest,
        logs: list[str],
        queues: list[str],
        entries: list[ProduceEntry],
        unchecked: list[ProduceEntry],
        transactional: list[ProduceEntry],
    ) -> list[ProduceEntry]:
        """Open logs, finish checks and verify transactions before anything is appended. Later
        requests wait for that. Returns the entries to be appended."""
        opening, verifying = self._order.enter(logs), self._order.enter(queues)
        try:
            try:
                await opening.wait()
                if unchecked:
                    await self._checking.finish(unchecked)
                await self._open_all(entries)
            finally:
                # The next request goes on at the next turn of the loop, after these entries are
                # staged.
                opening.leave()
            await verifying.wait()
            await self._open_all(entries)
            if self._transactions.needed(context, transactional):
                await self._transactions.verify(context, request, transactional)
                await self._open_all(entries)
            return self._stage(entries)
        finally:
            verifying.leave()

    async def _open_all(self, entries: list[ProduceEntry]) -> None:
        while not self._attach(entries):
            for entry in entries:
                if entry.log is None and not entry.failed:
                    await self._open(entry)

    async def _open(self, entry: ProduceEntry) -> None:
        assert entry.topic is not None
        try:
            await self._partitions.open(entry.topic, entry.asked.partition)
        except (ApiError, LogError) as failed:
            entry.fail(self._partitions.refusal(failed))

    def _stage(self, entries: list[ProduceEntry]) -> list[ProduceEntry]:
        """Assign offsets. Returns the entries to be appended. Nothing is awaited here, because the
        order of offsets depends on it."""
        now_ms = self._now().wall_ms
        for entry in entries:
            if not entry.failed:
                try:
                    self._stage_one(entry, now_ms)
                except ApiError as error:
                    assert entry.log is not None
                    entry.refuse(error, entry.log.start_offset)
        return [entry for entry in entries if entry.append is not None]

    def _stage_one(self, entry: ProduceEntry, now_ms: int) -> None:
        log, topic = entry.log, entry.topic
        assert log is not None
        assert topic is not None
        if entry.refusal is not None:
            raise entry.refusal
        assert entry.checked is not None
        header, payload = entry.checked
        settings = TopicSettings(self._broker.config, topic.configs)
        if settings.text("message.timestamp.type") == "LogAppendTime":
            payload = with_log_append_time(payload, now_ms)
            header = parse_header(payload)
        if entry.verified_by not in (None, log):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition was opened anew")
        duplicate = log.producers.check(
            header, entry.verification, enforced=self._transactions.enforced
        )
        if duplicate is not None:
            entry.duplicate_of = duplicate.last_offset
            base_offset, append_time_ms = duplicate.first_offset, duplicate.timestamp_ms
        else:
            entry.append = log.stage(header, payload)
            base_offset = entry.append.base_offset
            append_time_ms = header.max_timestamp_ms if header.is_log_append_time else -1
        entry.result = replace(
            entry.result,
            base_offset=base_offset,
            log_append_time_ms=append_time_ms,
            log_start_offset=log.start_offset,
        )

    def _append(self, staged: list[ProduceEntry]) -> asyncio.Task[ApiError | None] | None:
        if not staged:
            return None
        return self._appends.start(
            [
                (entry.log, entry.append)
                for entry in staged
                if entry.log is not None and entry.append is not None
            ]
        )

    @staticmethod
    async def _await_duplicates(entries: list[ProduceEntry]) -> None:
        """Wait until the first append of each duplicate is durable: then the duplicate is, too."""
        for entry in entries:
            if entry.duplicate_of >= 0 and entry.log is not None:
                durable = await entry.log.wait_durable(entry.duplicate_of)
                if not durable:
                    # The batch may be in the store nevertheless, see `Appends`.
                    entry.fail(ApiError(ErrorCode.REQUEST_TIMED_OUT, "the first append failed"))


def is_long(request: ProduceRequest) -> bool:
    """Whether the request is processed in parts."""
    if len(request.topics) > PARTITIONS_AT_ONCE:
        return True
    return sum([len(topic.partitions) for topic in request.topics]) > PARTITIONS_AT_ONCE


def _log_name(entry: ProduceEntry) -> str:
    assert entry.topic is not None
    return log_name(entry.topic.topic_id, entry.asked.partition)


def _parts(request: ProduceRequest) -> Iterator[tuple[ProduceRequest, bool]]:
    """A long request as several short ones, in its order. With each: whether its first topic is the
    last topic of the part before."""
    topics: list[ProduceTopic] = []
    room, continues = PARTITIONS_AT_ONCE, False
    for topic in request.topics:
        first = 0
        while first == 0 or first < len(topic.partitions):
            some = topic.partitions[first : first + room]
            topics.append(replace(topic, partitions=some))
            first += max(1, len(some))
            room -= max(1, len(some))
            if room == 0:
                yield replace(request, topics=tuple(topics)), continues
                topics, room = [], PARTITIONS_AT_ONCE
                continues = first < len(topic.partitions)
    if topics:
        yield replace(request, topics=tuple(topics)), continues


def _check_done(part: _Begun) -> None:
    """Raises ApiError if any batch has failed."""
    for _, entries in part.grouped:
        for entry in entries:
            if entry.failed:
                raise ApiError(entry.result.error, entry.result.error_message)


def _name_leaders(part: _Begun, leaders: CurrentLeaders) -> None:
    for entry in part.entries:
        if entry.failed:
            leader = leaders.of(entry.topic, entry.asked.partition, entry.result.error)
            if leader is not None:
                entry.result = replace(entry.result, current_leader=leader)


def _reply(begun: list[_Begun], leaders: tuple[Node, ...]) -> ProduceReply:
    """A topic whose partitions are in several parts is put together again."""
    topics: list[tuple[ProduceTopic, list[ProduceEntry]]] = []
    for part in begun:
        rest = iter(part.grouped)
        if part.continues:
            topics[-1][1].extend(next(rest)[1])
        topics += rest

    def produced(one: tuple[ProduceTopic, list[ProduceEntry]]) -> ProducedTopic:
        topic, entries = one
        return ProducedTopic(
            topic.name, topic.topic_id, mapped(lambda entry: entry.result, entries)
        )

    return ProduceReply(mapped(produced, topics), leaders)
