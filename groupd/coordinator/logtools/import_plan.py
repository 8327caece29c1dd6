"""What an import will write: records by partition of this store, topics, and what is left out.

The plan is made, and tried out on a new coordinator, before anything is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import AppliedAt
from groupd.coordinator.logtools.errors import LogToolError
from groupd.coordinator.logtools.latest import Kept, Tally
from groupd.coordinator.logtools.topic_ids import ForeignTopic
from groupd.coordinator.runtime.clock import new_id, new_topic_id
from groupd.coordinator.runtime.coordinator_types import is_internal
from groupd.coordinator.topics.names import check_topic_name
from groupd.protocol.errors import ApiError
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.records.batch import BatchRecord
from groupd.protocol.records.batch_builder import plain_batch
from groupd.storage.log import StoredTopic

BATCH_BYTES = 256 * 1024
RECORD_OVERHEAD_BYTES = 24


class ImportPlan(Struct):
    """The plan. `records`: by partition, in the order of writing. `groups`: the number of groups by
    type. `kept_here`: groups that are already in the store and stay as they are. `ends`: the
    smallest end that a log of a topic must have, by the log's name. `missing`: topics that neither
    exist here nor are created."""

    partitions: int
    tally: Tally
    records: dict[int, list[Kept]] = field(default_factory=dict)
    groups: Counter[str] = field(default_factory=Counter)
    offsets: int = 0
    kept_here: list[str] = field(default_factory=list)
    created: list[StoredTopic] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        return sum(map(len, self.records.values()))


def fresh_shard() -> GroupCoordinatorShard:
    """A shard into which records can be replayed; it serves no requests."""
    return GroupCoordinatorShard(ShardState(CoordinatorConfig(), new_id, {}))


def distribute(
    kept: Iterable[Kept], partitions: int, leave_out: Iterable[str]
) -> dict[int, list[Kept]]:
    """The records by the partition that a group id hashes to here, without the groups in
    `leave_out`."""
    out = frozenset(leave_out)
    records: dict[int, list[Kept]] = {}
    for one in kept:
        if one.group not in out:
            records.setdefault(partition_for(one.group, partitions), []).append(one)
    return dict(sorted(records.items()))


def try_out(plan: ImportPlan) -> None:
    """Replay the plan into a new coordinator and count what it makes. Raises LogToolError when a
    daemon could not load it."""
    for partition, records in plan.records.items():
        shard = fresh_shard()
        for offset, one in enumerate(records):
            try:
                shard.replay(one.record, AppliedAt(offset))
            except Exception as error:
                raise LogToolError(
                    f"group {one.group}: the source contradicts itself at offset {one.offset}: "
                    f"{error}; leave the group out with --group for each of the others"
                ) from error
        for kind, state in shard.group_states():
            plan.groups[f"{kind} {state}"] += 1
        plan.offsets += shard.offset_count()
        assert all(
            partition_for(group, plan.partitions) == partition for group in shard.state.groups
        )


def new_topics(
    topics: Mapping[str, ForeignTopic],
    here: Mapping[str, TopicId],
    partitions: Mapping[str, int],
) -> Iterator[StoredTopic]:
    """The topics to create, each with the id that it has in the source. `partitions` overrides the
    known counts. Topics with names that are not valid here are left out."""
    taken = set(here.values())
    for name, topic in sorted(topics.items()):
        if name in here or not topic.used or is_internal(name) or not _legal(name):
            continue
        topic_id = topic.topic_id
        if topic_id == NO_TOPIC_ID or topic_id in taken:
            topic_id = new_topic_id()
        taken.add(topic_id)
        count = partitions.get(name, max(topic.partitions, 1))
        if count < topic.partitions:
            raise LogToolError(
                f"--topic {name}:{count}: the groups use {topic.partitions} partitions of it"
            )
        yield StoredTopic(topic_id, name, count)


def _legal(name: str) -> bool:
    try:
        check_topic_name(name)
    except ApiError:
        return False
    return True


def batches_of(records: Iterable[Kept], offset: int) -> Iterator[tuple[int, int, int, bytes]]:
    """(base offset, last offset, max timestamp, payload) of batches outside transactions, from
    `offset` on; each record keeps its time."""
    waiting: list[BatchRecord] = []
    size = 0
    for one in records:
        length = len(one.key) + len(one.value) + RECORD_OVERHEAD_BYTES
        if waiting and size + length > BATCH_BYTES:
            yield _packed(waiting)
            waiting, size = [], 0
        waiting.append(BatchRecord(offset, one.timestamp_ms, one.key, one.value))
        size += length
        offset += 1
    if waiting:
        yield _packed(waiting)


def _packed(records: list[BatchRecord]) -> tuple[int, int, int, bytes]:
    newest_ms = max(record.timestamp_ms for record in records)
    return records[0].offset, records[-1].offset, newest_ms, plain_batch(records)
