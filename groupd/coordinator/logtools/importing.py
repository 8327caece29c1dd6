"""`groupd log import`: brings the groups and offsets of another cluster into a store. The plan says
what will be written and what is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.partitioning import compacted_log_name, offsets_log_name, partition_for
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import AppliedAt
from groupd.coordinator.logtools.entries import LogToolError
from groupd.coordinator.logtools.latest import Kept, Tally
from groupd.coordinator.logtools.logs import OFFSETS_LOG, SHARE_STATE_LOG, ToolLog
from groupd.coordinator.logtools.share_state import distribute_state
from groupd.coordinator.logtools.topic_ids import ForeignTopic, Translation, gather_topics
from groupd.coordinator.runtime.clock import new_id, new_topic_id
from groupd.coordinator.runtime.coordinator_types import is_internal
from groupd.coordinator.runtime.loader import LoadFailed, load_shard
from groupd.coordinator.runtime.shard_log import shard_log
from groupd.coordinator.topics.topic import check_topic_name, log_name
from groupd.protocol.errors import ApiError
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.records.batch import BatchRecord
from groupd.protocol.records.batch_builder import empty_batch, plain_batch
from groupd.storage.log import Append, Catalogue, ConfigEntry, LogState, PartitionLogs, StoredTopic

# The plan is made, and tried out on a new coordinator, before anything is written.

BATCH_BYTES = 256 * 1024
RECORD_OVERHEAD_BYTES = 24


class ImportPlan(Struct):
    """What an import will write. `records`: by partition, in the order of writing. `groups`: the
    number of groups by type and state. `kept_here`: groups that are in the store already and stay
    as they are. `ends`: the smallest end that the log of a topic must get, by the log's name.
    `missing`: topics that do not exist here and are not created. `state`: like `records`, of the
    log of share groups' state, which has `state_partitions`."""

    partitions: int
    tally: Tally
    records: dict[int, list[Kept]] = field(default_factory=dict)
    groups: Counter[str] = field(default_factory=Counter)
    offsets: int = 0
    kept_here: list[str] = field(default_factory=list)
    created: list[StoredTopic] = field(default_factory=list)
    ends: dict[str, int] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    state: Mapping[int, list[Kept]] = field(default_factory=dict)
    state_partitions: int = 0

    @property
    def count(self) -> int:
        return sum(map(len, (*self.records.values(), *self.state.values())))


def fresh_shard() -> GroupCoordinatorShard:
    """A shard into which records can be replayed. It serves no requests."""
    return GroupCoordinatorShard(ShardState(CoordinatorConfig(), new_id, {}))


def distribute(
    kept: Iterable[Kept], partitions: int, leave_out: Iterable[str]
) -> dict[int, list[Kept]]:
    """The records by the partition that their group id hashes to here, without the groups in
    `leave_out`."""
    out = frozenset(leave_out)
    records: dict[int, list[Kept]] = {}
    for one in kept:
        if one.group not in out:
            records.setdefault(partition_for(one.group, partitions), []).append(one)
    return dict(sorted(records.items()))


def try_out(plan: ImportPlan) -> None:
    """Replay the plan into a new coordinator, and count its groups and offsets. Raises LogToolError
    if a daemon could not load the records."""
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
    """The topics to create, each with its id in the source. `partitions` overrides the known
    counts. Topics with names that are not valid here are left out."""
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
    """(base offset, last offset, max timestamp, payload) of batches outside transactions, beginning
    at `offset`. Each record keeps its time."""
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


# The import ---------------------------------------------------------------------------------

# Everything is tried out before anything is written, and all records are written in one
# transaction, so an import is complete or has no effect. Topics are created before that
# transaction. If it fails, they do no harm.

DEFAULT_PARTITIONS = 50
_NAMED_GROUPS = 5

States = Callable[[Sequence[str]], Awaitable[Mapping[str, LogState]]]
"""Returns the states of logs by name. Logs that do not exist are left out."""


class Target(PartitionLogs, Catalogue, Protocol):
    """A started store, or a reader of one."""


class ImportOptions(Struct, frozen=True):
    """`partitions`: the partition count of the offsets log, for a store that has none yet.
    `topic_partitions`: partition counts by topic that override those of the source."""

    merge: bool = False
    create_topics: bool = False
    partitions: int | None = None
    topic_partitions: Mapping[str, int] = field(default_factory=dict)


async def plan_import(
    kept: list[Kept],
    tally: Tally,
    topics: dict[str, ForeignTopic],
    store: Target | None,
    states: States,
    options: ImportOptions,
    state: Sequence[Kept] = (),
) -> ImportPlan:
    """Make the plan. `topics`: what is known of topics besides the records. `store`: None if it
    does not exist yet. `state`: the records of share groups' state. Raises LogToolError if nothing
    should be written."""
    made_with = None if store is None else await partitions_of(store)
    if None not in (made_with, options.partitions) and made_with != options.partitions:
        raise LogToolError(
            f"--partitions {options.partitions}: the store was made with {made_with}"
        )
    partitions = made_with or options.partitions or DEFAULT_PARTITIONS
    groups = set() if store is None else await _groups(store, states, partitions)
    if groups and not options.merge:
        some = ", ".join(sorted(groups)[:_NAMED_GROUPS])
        raise LogToolError(
            f"the store has {len(groups)} groups already ({some}): import into a new one, or add "
            "what is not there yet with --merge"
        )
    plan = ImportPlan(partitions, tally)
    plan.kept_here = sorted({one.group for one in kept} & groups)
    plan.records = distribute(kept, partitions, groups)
    gather_topics(topics, (one for some in plan.records.values() for one in some))
    here = {} if store is None else {topic.name: topic.topic_id for topic in await store.topics()}
    known = dict(here)
    if options.create_topics:
        plan.created = list(new_topics(topics, here, options.topic_partitions))
        known.update((topic.name, topic.topic_id) for topic in plan.created)
        plan.ends = {
            log_name(known[name], partition): end
            for name, topic in topics.items()
            for partition, end in topic.ends.items()
            if name in known and end > 0
        }
    plan.missing = sorted(
        name for name, topic in topics.items() if topic.used and name not in known
    )
    translation = Translation(topics, known)
    plan.records = {
        partition: [translation.apply(one) for one in records]
        for partition, records in plan.records.items()
    }
    made_with = None if store is None else await partitions_of(store, SHARE_STATE_LOG)
    plan.state_partitions = made_with or CoordinatorConfig().share_state_num_partitions
    # State of a group that is here already, or of one that is gone, stays where it is.
    taken = {one.group for records in plan.records.values() for one in records}
    plan.state = distribute_state(state, plan.state_partitions, taken, translation)
    try_out(plan)
    return plan


async def partitions_of(store: Catalogue, log: ToolLog = OFFSETS_LOG) -> int | None:
    """The partition count of a log; None if no daemon with that log has served the store yet."""
    for resource, name, key, value in await store.configs():
        if (resource, name, key) == log.shards_key:
            return int(value)
    return None


async def _groups(store: Target, states: States, partitions: int) -> set[str]:
    """The groups in the store, as a daemon would load them."""
    found: set[str] = set()
    both = [name(p) for name in (offsets_log_name, compacted_log_name) for p in range(partitions)]
    opened = await states(both)
    for number in range(partitions):
        history = offsets_log_name(number)
        if history not in opened:
            continue
        compacted = compacted_log_name(number)
        logs = shard_log(opened[history], opened.get(compacted, LogState(compacted, 0, 0, 0)))
        try:
            shard = (await load_shard(fresh_shard, store, logs)).shard
        except LoadFailed as error:
            raise LogToolError(f"the store cannot be loaded: {error}") from error
        found.update(shard.state.groups)
        shard.discard()
    return found


async def write_plan(plan: ImportPlan, store: Target) -> None:
    """Write the plan. `store` must be started, and no other process may use it."""
    counts = {OFFSETS_LOG: plan.partitions}
    if plan.state:
        counts[SHARE_STATE_LOG] = plan.state_partitions
    for log, count in counts.items():
        if await partitions_of(store, log) is None:
            resource, name, key = log.shards_key
            await store.put_configs([ConfigEntry(resource, name, key, str(count))])
    for topic in plan.created:
        await store.put_topic(topic)
    appends = []
    for name, state in (await store.open_many(list(plan.ends))).items():
        if state.next_offset == 0:
            # The topic's records stay in the other cluster. Committed offsets must still lie inside
            # the log here, or clients would reset them. So an empty batch stands for the records,
            # as if all were compacted away.
            last = plan.ends[name] - 1
            bare = empty_batch(last, last)
            appends.append(Append(name, state.owner_epoch, 0, last, -1, bare))
    names = {
        log.store_name(partition): records
        for log, by_partition in ((OFFSETS_LOG, plan.records), (SHARE_STATE_LOG, plan.state))
        for partition, records in by_partition.items()
    }
    for name, state in (await store.open_many(list(names))).items():
        for base, last, newest_ms, payload in batches_of(names[name], state.next_offset):
            appends.append(Append(name, state.owner_epoch, base, last, newest_ms, payload))
    await store.append(appends)
