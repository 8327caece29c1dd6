"""The offsets of groups in the broker of this process, for `mover.py`: read from the memory of a
shard, written as requests with the name of an operator.

These requests are handled like those of any client, so the coordinator refuses them when it would
refuse a client. But the broker does not audit them. This file writes the audit lines: for every
topic of every request one line about what was written and one about what may have been written.
There are no lines for what was refused.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from groupd.coordinator.core.offsets.store import StoredOffset
from groupd.coordinator.core.slices import LISTED_MAX, Pace, Steps, dict_in_steps
from groupd.coordinator.core.types import Access, RequestContext
from groupd.coordinator.history.changes import CommittedOffset
from groupd.coordinator.history.stream import UnreadableLog
from groupd.coordinator.lag.growth import LogEnds
from groupd.coordinator.moves.mover import ELSEWHERE, PART_BYTES, CannotMove, Errors, may_be_written
from groupd.coordinator.moves.past import committed_at, last_moves
from groupd.coordinator.moves.plan import Current, Ranges, TopicNow
from groupd.coordinator.runtime.audited_routes import LINE_WEIGHT
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.shard_runtime import GroupLogShard
from groupd.coordinator.runtime.waiting import Callback
from groupd.coordinator.security.audit import Audit
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicPartition
from groupd.protocol.messages.offsets import (
    CommitPartition,
    FetchTopic,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    TopicErrors,
    commit_topic,
)
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.storage.log import LogCorrupt, LogError, PartitionLogs

CLIENT_ID = "groupd-console"

PARTITIONS_MAX = LISTED_MAX
"""The most partitions of one plan."""

TIMES_MAX = 1000
"""The most partitions of one reset by time: each needs a look-up."""

OFFSET_COMMIT, OFFSET_COMMIT_VERSION = 8, 9
OFFSET_DELETE, OFFSET_DELETE_VERSION = 47, 0

_BATCH_BYTES = 100
"""An upper bound for the bytes of a batch without its records."""

T = TypeVar("T")


class CannotRead(Exception):
    """The store cannot be read now; `str()` is one line that says why."""


class Operator(Access):
    """The rights of an operator, to whom the admin port has given the role admin. `name`: the
    operator's name."""

    audited_by_asker = True

    def __init__(self, name: str) -> None:
        self.principal = name


def context_of(operator: Operator, address: str, token: Any) -> RequestContext:
    """Returns the context for an operator's request. `address`: of the operator's client."""
    return RequestContext(token, 0, CLIENT_ID, f"/{address}", operator)


class OwnBroker:
    """The broker of this process, for moving offsets. `work` does what takes long in slices."""

    def __init__(
        self, broker: Broker, logs: PartitionLogs, ends: LogEnds, work: LongWork, audit: Audit
    ) -> None:
        self.broker = broker
        self.logs = logs
        self.ends = ends
        self.work = work
        self.audit = audit

    def group(self, shard: GroupLogShard, group_id: str, by: RequestContext) -> OwnGroup:
        """Returns a group of a shard that this process serves. Its offsets are written in the name
        of `by`. Raises CannotMove if the group commits no offsets."""
        group = shard.shard.state.groups.get(group_id)
        if group is not None and group.offset_owner is None:
            raise CannotMove(f"group {group_id} is a {group.type_name} group{ELSEWHERE}")
        return OwnGroup(self, shard, group_id, by)

    async def last_moves(self, shard: GroupLogShard, group_id: str) -> dict[str, Any]:
        """Returns what `past.last_moves` returns. Raises CannotRead, UnreadableLog."""
        with _reading():
            return await last_moves(self.logs, self.work, shard, group_id)


class OwnGroup:
    """A `mover.GroupOffsets` in this process. Methods that read logs raise CannotRead, or
    UnreadableLog if something in the store is damaged; `committed_at` also raises BeforeHistory.
    One order may have at most `PARTITIONS_MAX` partitions; with more CannotMove is raised."""

    writes_again = False

    def __init__(
        self, own: OwnBroker, shard: GroupLogShard, group_id: str, by: RequestContext
    ) -> None:
        self.group_id = group_id
        self.part_bytes = min(PART_BYTES, own.broker.config.message_max_bytes - _BATCH_BYTES)
        self._own = own
        self._shard = shard
        self._by = by

    def partitions_of(
        self, partitions: Mapping[str, Sequence[int]] | None
    ) -> Iterable[TopicPartition] | None:
        """Yields the partitions that an order names by topic; None if it names none."""
        if partitions is None:
            return None
        _check_count(sum(map(len, partitions.values())))
        return ((topic, number) for topic, some in partitions.items() for number in some)

    async def run(self, steps: Steps[T]) -> T:
        return await self._own.work.run(steps)

    async def state(self) -> str:
        group = self._shard.shard.state.groups.get(self.group_id)
        return "" if group is None else group.state_name()

    async def committed(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, Current]:
        if partitions is not None:
            _check_count(len(partitions))
            return await self.run(self._committed(partitions))
        topics = self._shard.shard.offsets.store.topics(self.group_id)
        _check_count(sum(map(len, topics.values())))
        every = [(topic, number) for topic, some in topics.items() for number in some]
        return await self.run(self._committed(every))

    def _committed(
        self, partitions: Iterable[TopicPartition]
    ) -> Steps[dict[TopicPartition, Current]]:
        pace, found = Pace(), {}
        for partition in partitions:
            if pace.due():
                yield
            stored = self._shard.shard.offsets.store.get(self.group_id, *partition)
            if stored is not None:
                found[partition] = _current(stored)
        return found

    async def committed_at(self, at_ms: int) -> list[CommittedOffset]:
        own = self._own
        with _reading():
            then = await committed_at(own.logs, own.work, self._shard, self.group_id, at_ms)
        _check_count(len(then))
        return then

    async def topics(self, names: Iterable[str]) -> dict[str, TopicNow]:
        image = self._own.broker.image
        return {
            name: TopicNow(known.topic_id, known.partitions)
            for name in names
            if (known := image.by_name.get(name)) is not None
        }

    async def ranges(self, partitions: Collection[TopicPartition]) -> Ranges:
        with _reading():
            found = await self._own.ends.look(_by_topic(partitions))
        return await self.run(
            dict_in_steps(
                ((topic, number), (one.start, one.end))
                for topic, numbers in found.items()
                for number, one in numbers.items()
            )
        )

    async def at_time(
        self, partitions: Collection[TopicPartition], at_ms: int
    ) -> dict[TopicPartition, int]:
        _check_count(len(partitions), TIMES_MAX)
        found = {}
        for topic, number in partitions:
            with _reading(f"the log of {topic}-{number}"):
                offset = await self._own.ends.first_at(topic, number, at_ms)
            if offset is not None:
                found[topic, number] = offset
        return found

    async def commit(self, part: Mapping[TopicPartition, Current]) -> Errors:
        topics: dict[str, list[CommitPartition]] = defaultdict(list)
        for (topic, number), one in part.items():
            row = CommitPartition(number, one.offset, one.leader_epoch, one.metadata)
            topics[topic].append(row)
        request = OffsetCommitRequest(
            self.group_id, tuple(commit_topic(name, tuple(some)) for name, some in topics.items())
        )
        reply = await self._ask(OFFSET_COMMIT, OFFSET_COMMIT_VERSION, request)
        return await self.run(self._audited(part, _errors(reply.topics)))

    async def delete(self, part: Mapping[TopicPartition, None]) -> Errors:
        topics = tuple(FetchTopic(name, tuple(some)) for name, some in _by_topic(part).items())
        request = OffsetDeleteRequest(self.group_id, topics)
        reply = await self._ask(OFFSET_DELETE, OFFSET_DELETE_VERSION, request)
        if reply.error is ErrorCode.NONE:
            errors = _errors(reply.topics)
        else:
            errors = dict.fromkeys(part, reply.error.name)
        return await self.run(self._audited(part, errors))

    async def _ask(self, api_key: int, version: int, request: Any) -> Any:
        """Returns the reply. Errors are in the reply, also if the reply is lost; then it is not
        known what was done."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        failure, by = API_BY_KEY[api_key].failure, self._by

        def resolve(reply: Any) -> None:
            if not answer.done():
                answer.set_result(reply)

        def lost() -> None:
            resolve(failure(request, ErrorCode.UNKNOWN_SERVER_ERROR, None))

        waiter = Callback(request, failure, resolve, lost)
        context = RequestContext(waiter, version, by.client_id, by.client_host, by.access)
        self._own.broker.submit(context, request)
        return await answer

    def _audited(
        self, part: Mapping[TopicPartition, Current | None], errors: Errors
    ) -> Steps[Errors]:
        """Write to the audit log what one request has done, or may have done. Returns `errors`."""
        pace, audit = Pace(), self._own.audit
        unsure = [partition for partition, error in errors.items() if may_be_written(error)]
        done = (partition for partition in part if partition not in errors)
        for partitions, known in ((done, True), (unsure, False)):
            for topic, numbers in _by_topic(partitions).items():
                if pace.due(LINE_WEIGHT):
                    yield
                offsets = {
                    number: one.offset
                    for number in numbers
                    if (one := part[topic, number]) is not None
                }
                if offsets:
                    audit.offsets_moved(self._by, self.group_id, topic, offsets, known=known)
                else:
                    audit.offsets_deleted(self._by, self.group_id, topic, numbers, known=known)
        return errors


@contextmanager
def _reading(log: str = "the log") -> Iterator[None]:
    """Turns errors of the store into CannotRead and UnreadableLog. `log`: which log is being read,
    for messages."""
    try:
        yield
    except LogCorrupt as error:
        raise UnreadableLog(f"{log} is damaged: {error}") from error
    except LogError as error:
        why = str(error) or type(error).__name__
        raise CannotRead(f"the store cannot be read now: {why}") from error


def _check_count(count: int, most: int = PARTITIONS_MAX) -> None:
    if count > most:
        raise CannotMove(
            f"{count} partitions are too many for one order, which may have {most}: "
            "choose some of them, or use `groupd groups reset` or `restore`"
        )


def _current(stored: StoredOffset) -> Current:
    return Current(stored.offset, stored.leader_epoch, stored.metadata)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        topics[topic].append(number)
    return topics


def _errors(topics: Iterable[TopicErrors]) -> dict[TopicPartition, str]:
    return {
        (topic.name, one.partition): one.error.name
        for topic in topics
        for one in topic.partitions
        if one.error is not ErrorCode.NONE
    }
