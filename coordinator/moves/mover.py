"""Resets and restores of a group's offsets, for an operator at the console: first what would be
done, then doing it.

The plans are those of `groupd groups reset` and `restore`. They are written as OffsetCommit and
OffsetDelete without a member, which the coordinator refuses while the group has members, and read
back afterwards. The audit log says who moved what.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from groupd.coordinator.core.slices import spans
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.history.reset_plan import ResetAction, ResetTarget, WantedReset, plan_reset
from groupd.coordinator.history.restore import Action, Current, RestoreStep, TopicNow, plan
from groupd.coordinator.lag.ends import LogEnds
from groupd.coordinator.moves.own_requests import ask
from groupd.coordinator.moves.past import committed_at, last_moves
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.shard_runtime import ShardRuntime
from groupd.coordinator.security.audit import Audit
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import (
    CommitPartition,
    CommitTopic,
    FetchTopic,
    OffsetCommitRequest,
    OffsetDeleteRequest,
)
from groupd.storage.log import PartitionLogs

Place = tuple[str, int]
Bounds = Mapping[Place, tuple[int, int]]

OFFSET_COMMIT, OFFSET_COMMIT_VERSION = 8, 9
OFFSET_DELETE, OFFSET_DELETE_VERSION = 47, 0
COMMITS_AT_ONCE = 1000
"""Partitions in one OffsetCommit, so that its records fit into one batch."""

TIMES_MAX = 1000
"""Partitions whose offset at a time is looked up in one reset."""

_MEMBERLESS = ("Empty", "Dead")


class CannotMove(Exception):
    """`str()` is one line that says why. Nothing was written, or it says what was."""


class Moved(Struct, frozen=True):
    """`rows`: topic, partition, from, to, action, records (negative: read again; None: not known)
    and warning. `refusal`: why it cannot be applied now; "": it can."""

    rows: list[dict[str, Any]]
    refusal: str = ""
    applied: bool = False


class _Write(Struct, frozen=True):
    """The offsets to commit, and the partitions whose offsets are to be deleted."""

    commits: Mapping[Place, CommitPartition]
    deletes: Sequence[Place] = ()


class OffsetMover:
    """Moves offsets of groups that this process serves. `audit` None: the requests themselves are
    audited already."""

    def __init__(
        self,
        broker: Broker,
        logs: PartitionLogs,
        ends: LogEnds,
        work: LongWork,
        audit: Audit | None = None,
    ) -> None:
        self._broker = broker
        self._logs = logs
        self._ends = ends
        self._work = work
        self._audit = audit

    async def reset(
        self,
        shard: ShardRuntime,
        group_id: str,
        wanted: WantedReset,
        places: Sequence[Place] | None,
        apply: RequestContext | None,
    ) -> Moved:
        """`places` None: all partitions with a committed offset. `apply`: write, in the name of
        this client. Raises CannotMove, LogError."""
        committed = _committed(shard, group_id)
        chosen = list(committed) if places is None else list(places)
        if not chosen:
            raise CannotMove(f"group {group_id} has nothing committed: choose partitions")
        bounds = await self._bounds(chosen)
        at_time = {}
        if wanted.target is ResetTarget.TIME:
            at_time = await self._at_time(chosen, wanted.amount)
        before = {place: now.offset for place, now in committed.items()}
        steps = plan_reset(wanted, chosen, before, bounds, at_time)
        rows = []
        for step in steps:
            records = step.records
            if records is not None and step.action is ResetAction.REWIND:
                records = -records
            rows.append({**step.row(), "records": records})
        commits = {
            step.place: CommitPartition(step.partition, step.after)
            for step in steps
            if step.is_write and step.after is not None
        }
        return await self._finish(shard, group_id, rows, _Write(commits), apply)

    async def last_moves(self, shard: ShardRuntime, group_id: str) -> dict[str, Any]:
        """See `past.last_moves`."""
        return await last_moves(self._logs, self._work, shard, group_id)

    async def restore(
        self,
        shard: ShardRuntime,
        group_id: str,
        at_ms: int,
        apply: RequestContext | None,
        *,
        delete_new: bool,
    ) -> Moved:
        """Back to what was committed at `at_ms`. `delete_new`: offsets that did not exist then are
        deleted. Raises CannotMove, BeforeHistory, UnreadableLog, LogError."""
        then = await committed_at(self._logs, self._work, shard, group_id, at_ms)
        image = self._broker.image
        topics = {
            name: TopicNow(known.topic_id, known.partitions)
            for name in {entry.topic for entry in then}
            if (known := image.by_name.get(name)) is not None
        }
        now = _committed(shard, group_id)
        bounds = await self._bounds([(entry.topic, entry.partition) for entry in then])
        steps = plan(then, now, topics, bounds, delete_new=delete_new)
        commits = {
            (step.topic, step.partition): CommitPartition(
                step.partition, step.after, step.leader_epoch, step.metadata
            )
            for step in steps
            if step.action is Action.COMMIT and step.after is not None
        }
        deletes = [(step.topic, step.partition) for step in steps if step.action is Action.DELETE]
        rows = [_restore_row(step) for step in steps]
        return await self._finish(shard, group_id, rows, _Write(commits, deletes), apply)

    async def _bounds(self, places: Iterable[Place]) -> Bounds:
        found = await self._ends.look(_by_topic(places))
        return {
            (topic, number): (one.start, one.end)
            for topic, numbers in found.items()
            for number, one in numbers.items()
        }

    async def _at_time(self, places: Sequence[Place], at_ms: int) -> dict[Place, int]:
        if len(places) > TIMES_MAX:
            raise CannotMove(f"at most {TIMES_MAX} partitions can be reset to a time at once")
        found = {}
        for topic, number in places:
            offset = await self._ends.first_at(topic, number, at_ms)
            if offset is not None:
                found[topic, number] = offset
        return found

    async def _finish(
        self,
        shard: ShardRuntime,
        group_id: str,
        rows: list[dict[str, Any]],
        write: _Write,
        apply: RequestContext | None,
    ) -> Moved:
        refusal = _refusal(shard, group_id)
        if apply is None:
            return Moved(rows, refusal)
        if refusal:
            raise CannotMove(refusal)
        await self._commit(apply, group_id, write.commits)
        if write.deletes:
            await self._delete(apply, group_id, write.deletes)
        _check_written(shard, group_id, write)
        return Moved(rows, applied=True)

    async def _commit(
        self, by: RequestContext, group_id: str, commits: Mapping[Place, CommitPartition]
    ) -> None:
        for span in spans(len(commits), COMMITS_AT_ONCE):
            topics: dict[str, list[CommitPartition]] = defaultdict(list)
            for topic, number in list(commits)[span]:
                topics[topic].append(commits[topic, number])
            request = OffsetCommitRequest(
                group_id, tuple(CommitTopic(name, tuple(some)) for name, some in topics.items())
            )
            reply = await ask(self._broker, by, OFFSET_COMMIT, OFFSET_COMMIT_VERSION, request)
            _check(reply.topics)
            if self._audit is not None:
                for name, some in topics.items():
                    offsets = {one.partition: one.offset for one in some}
                    self._audit.offsets_reset(by, group_id, name, offsets)

    async def _delete(self, by: RequestContext, group_id: str, places: Sequence[Place]) -> None:
        topics = _by_topic(places)
        request = OffsetDeleteRequest(
            group_id, tuple(FetchTopic(name, tuple(some)) for name, some in topics.items())
        )
        reply = await ask(self._broker, by, OFFSET_DELETE, OFFSET_DELETE_VERSION, request)
        if reply.error is not ErrorCode.NONE:
            raise CannotMove(f"the coordinator refused: {reply.error.name}")
        _check(reply.topics)
        if self._audit is not None:
            for name, some in topics.items():
                self._audit.offsets_deleted(by, group_id, name, some)


def _by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, number in places:
        topics[topic].append(number)
    return topics


def _committed(shard: ShardRuntime, group_id: str) -> dict[Place, Current]:
    return {
        (topic, number): Current(stored.offset, stored.leader_epoch, stored.metadata)
        for topic, partitions in shard.shard.offsets.store.topics(group_id).items()
        for number, stored in partitions.items()
    }


def _refusal(shard: ShardRuntime, group_id: str) -> str:
    group = shard.shard.state.groups.get(group_id)
    if group is None or group.state_name() in _MEMBERLESS:
        return ""
    return (
        f"group {group_id} is {group.state_name()}: it has members, which would go on committing. "
        "Stop its consumers first"
    )


def _check(topics: Iterable[Any]) -> None:
    """Raises CannotMove when any partition was refused."""
    refused = [
        f"{topic.name}-{one.partition}: {one.error.name}"
        for topic in topics
        for one in topic.partitions
        if one.error is not ErrorCode.NONE
    ]
    if refused:
        raise CannotMove(f"{len(refused)} partitions were refused, such as {refused[0]}")


def _check_written(shard: ShardRuntime, group_id: str, write: _Write) -> None:
    """Raises CannotMove when somebody has moved an offset meanwhile."""
    store = shard.shard.offsets.store
    for (topic, number), wanted in write.commits.items():
        now = store.get(group_id, topic, number)
        if now is None or now.offset != wanted.offset:
            raise CannotMove(f"written, but somebody has moved {topic}-{number} since")
    for topic, number in write.deletes:
        if store.get(group_id, topic, number) is not None:
            raise CannotMove(f"{topic}-{number} still has an offset")


def _restore_row(step: RestoreStep) -> dict[str, Any]:
    before, after = step.before, step.after
    return {
        "topic": step.topic,
        "partition": step.partition,
        "from": before,
        "to": after,
        "action": step.action.value,
        "records": None if before is None or after is None else after - before,
        "warning": step.warning,
    }
