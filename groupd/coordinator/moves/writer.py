"""Writes offsets in the name of an operator: as OffsetCommit and OffsetDelete without a member,
which the coordinator refuses while the group has members. The audit log has lines for every topic
of every request: of what was written, and of what may have been. What was refused has none."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from groupd.coordinator.core.slices import Steps, Work, dict_in_steps
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.history.restore import Current, Place
from groupd.coordinator.moves.own_requests import ask
from groupd.coordinator.moves.parts import (
    PART_BYTES,
    counted,
    differing,
    may_be_written,
    parts_of,
    refused_text,
)
from groupd.coordinator.runtime.audited_routes import LINE_WEIGHT
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
    TopicErrors,
)

OFFSET_COMMIT, OFFSET_COMMIT_VERSION = 8, 9
OFFSET_DELETE, OFFSET_DELETE_VERSION = 47, 0

_BATCH_BYTES = 100
"""More than the bytes of a batch without its records."""


class CannotMove(Exception):
    """`str()` is one line that says why. Nothing was written, or it says what was."""


class OutcomeNotKnown(Exception):
    """The coordinator has not said whether it has written, and may still do so. `str()` is one line
    that says for how many partitions, and what was written before."""


class OffsetWriter:
    def __init__(self, broker: Broker, work: LongWork, audit: Audit) -> None:
        self._broker = broker
        self._work = work
        self._audit = audit

    async def write(
        self,
        by: RequestContext,
        shard: ShardRuntime,
        group_id: str,
        wanted: Mapping[Place, Current | None],
    ) -> None:
        """Commit the offsets, delete those that are None, then read back what is committed. Raises
        CannotMove, OutcomeNotKnown."""
        run = self._work.run
        commits = await run(
            dict_in_steps((place, one) for place, one in wanted.items() if one is not None)
        )
        deletes = await run(
            dict_in_steps((place, None) for place, one in wanted.items() if one is None)
        )
        most_bytes = min(PART_BYTES, self._broker.config.message_max_bytes - _BATCH_BYTES)
        written = 0
        for commit in parts_of(group_id, commits, most_bytes):
            errors = await self._commit(by, group_id, commit)
            await run(self._noted(by, group_id, commit, errors))
            written = _checked(errors, written, len(commit), len(wanted))
        for delete in parts_of(group_id, deletes, most_bytes):
            errors = await self._delete(by, group_id, delete)
            await run(self._noted(by, group_id, delete, errors))
            written = _checked(errors, written, len(delete), len(wanted))
        now = await run(committed_of(shard, group_id, wanted))
        wrong = differing(wanted, now)
        if wrong:
            (topic, number), count = wrong[0], len(wrong)
            raise CannotMove(
                f"all {counted(len(wanted), 'partition')} written, but somebody has moved {count} "
                f"of them since, such as {topic}-{number}"
            )

    async def _commit(
        self, by: RequestContext, group_id: str, part: Mapping[Place, Current]
    ) -> dict[Place, str]:
        """The errors by partition."""
        topics: dict[str, list[CommitPartition]] = defaultdict(list)
        for (topic, number), one in part.items():
            row = CommitPartition(number, one.offset, one.leader_epoch, one.metadata)
            topics[topic].append(row)
        request = OffsetCommitRequest(
            group_id, tuple(CommitTopic(name, tuple(some)) for name, some in topics.items())
        )
        reply = await ask(self._broker, by, OFFSET_COMMIT, OFFSET_COMMIT_VERSION, request)
        return _errors(reply.topics)

    async def _delete(
        self, by: RequestContext, group_id: str, part: Mapping[Place, None]
    ) -> dict[Place, str]:
        """The errors by partition."""
        request = OffsetDeleteRequest(
            group_id,
            tuple(FetchTopic(name, tuple(some)) for name, some in by_topic(part).items()),
        )
        reply = await ask(self._broker, by, OFFSET_DELETE, OFFSET_DELETE_VERSION, request)
        if reply.error is not ErrorCode.NONE:
            return dict.fromkeys(part, reply.error.name)
        return _errors(reply.topics)

    def _noted(
        self,
        by: RequestContext,
        group_id: str,
        part: Mapping[Place, Current | None],
        errors: Mapping[Place, str],
    ) -> Steps[None]:
        """Write to the audit log what one request has done, or may have done."""
        work = Work()
        unsure = [place for place, error in errors.items() if may_be_written(error)]
        done = (place for place in part if place not in errors)
        for places, known in ((done, True), (unsure, False)):
            for topic, numbers in by_topic(places).items():
                if work.enough(LINE_WEIGHT):
                    yield
                offsets = {
                    number: one.offset
                    for number in numbers
                    if (one := part[topic, number]) is not None
                }
                if offsets:
                    self._audit.offsets_moved(by, group_id, topic, offsets, known=known)
                else:
                    self._audit.offsets_deleted(by, group_id, topic, numbers, known=known)


def by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = defaultdict(list)
    for topic, number in places:
        topics[topic].append(number)
    return topics


def committed_of(
    shard: ShardRuntime, group_id: str, places: Iterable[Place]
) -> Steps[dict[Place, Current | None]]:
    """The committed offsets of these partitions; None: a partition has none."""
    work, found = Work(), {}
    for place in places:
        if work.enough():
            yield
        stored = shard.shard.offsets.store.get(group_id, *place)
        found[place] = (
            None if stored is None else Current(stored.offset, stored.leader_epoch, stored.metadata)
        )
    return found


def _errors(topics: Iterable[TopicErrors]) -> dict[Place, str]:
    return {
        (topic.name, one.partition): one.error.name
        for topic in topics
        for one in topic.partitions
        if one.error is not ErrorCode.NONE
    }


def _checked(errors: Mapping[Place, str], written: int, tried: int, count: int) -> int:
    """How many partitions have been written after a part of `tried`. Raises CannotMove,
    OutcomeNotKnown."""
    written += tried - len(errors)
    if errors:
        unsure = any(may_be_written(error) for error in errors.values())
        raise (OutcomeNotKnown if unsure else CannotMove)(refused_text(errors, written, count))
    return written
