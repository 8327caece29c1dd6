"""The shard of groups: a `LogShard` whose machine is a `GroupCoordinatorShard`.

Beside what every shard does, it keeps the producers of its log and writes the markers that end
their transactions, takes new topics and dynamic configs, and says how long the stored reply to a
heartbeat may be sent again (`ShardReplyValidity`). `inspect` is for the admin port.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Mapping, Sized
from itertools import chain
from typing import Any

import structlog

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.blocked import wait
from groupd.coordinator.core.inspection import (
    inspect_group_lazily,
    open_transactions,
    with_lists,
)
from groupd.coordinator.core.metadata_image import MetadataDelta, TopicDeletion
from groupd.coordinator.core.partitioning import offsets_log_name
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.types import Instant, Outcome, ReplyValidity
from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.producers.transactions import Marker
from groupd.coordinator.runtime.journal import EncodedWrite, measured
from groupd.coordinator.runtime.loader import LoadFailed, load_anew, timers_started
from groupd.coordinator.runtime.log_shard import LogShard
from groupd.coordinator.runtime.machine import LoadedMachine
from groupd.coordinator.runtime.shard_log import ShardLog, open_shard_log
from groupd.coordinator.runtime.shard_state import REFUSALS, CoordinatorState, GroupShardParts
from groupd.coordinator.runtime.waiting import Waiter
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.codec import encode_pairs
from groupd.protocol.records.commit_records import CommitRecords
from groupd.protocol.records.schema import Record
from groupd.storage.units import OwnedUnit

log = structlog.get_logger("groupd.shard")

DELETED_TOPICS_MAX = 1000
"""A shard remembers at most this many deleted topics, the newest ones, whose offsets it deletes
after a load. Offsets of topics that were deleted earlier expire by the retention time."""

BEING_WRITTEN = "changes of the group are being written to the log"

_ACTIVE = CoordinatorState.ACTIVE


class GroupLogShard(LogShard[GroupCoordinatorShard]):
    """One partition of `__consumer_offsets` with its groups."""

    def __init__(
        self,
        partition: int,
        config: CoordinatorConfig,
        shared: GroupShardParts,
        owned: OwnedUnit | None = None,
    ) -> None:
        name, machine = offsets_log_name(partition), shared.make_shard()
        super().__init__(partition, name, machine, config, shared.parts)
        self.log: ShardLog | None = None
        self.producers = ProducerStates()
        self._shared = shared
        self._owned = owned
        self.deleted: deque[TopicDeletion] = deque(maxlen=DELETED_TOPICS_MAX)
        """Topics whose offsets may still be in the log: they were deleted while the shard was not
        served, or the tombstones of their offsets are not durable yet. After a load the shard
        deletes these offsets again."""

    @property
    def shard(self) -> GroupCoordinatorShard:
        """The machine. A reload replaces it."""
        return self.machine

    # Loading ------------------------------------------------------------------------------

    async def read_log(self, opened: ShardLog | None) -> LoadedMachine[GroupCoordinatorShard]:
        shared = self._shared
        opened = opened or await open_shard_log(shared.logs, self.partition, self._owned)
        loaded = await load_anew(
            shared.make_shard, shared.bring_up_to_date, shared.logs, opened, self.clock
        )
        if self.state is not CoordinatorState.CLOSED:
            self.producers, self.log = loaded.producers, opened
        return _loaded(loaded.shard, loaded.outcome, loaded.records, opened)

    def begin(self, opened: ShardLog, since: Instant) -> None:
        """Serve at once. The log must be empty, and was opened at `since`."""
        self.log = opened
        try:
            outcome = timers_started(self.machine, opened, since)
        except LoadFailed:
            self.state = CoordinatorState.FAILED
        else:
            self.serve(_loaded(self.machine, outcome, 0, opened))

    def on_active(self) -> None:
        if self.deleted:
            now = self.clock.now()
            self.input(lambda: self.machine.offsets.on_topics_deleted(self.deleted, now))

    # Inputs -------------------------------------------------------------------------------

    def store_reply(self, validity: ReplyValidity, waiter: Waiter) -> None:
        waiter.may_repeat(ShardReplyValidity(self, self._journal.pending, validity))

    def on_metadata(self, delta: MetadataDelta, now: Instant) -> None:
        """Take the new image. A shard that is loading gets it when it is made (`make_shard`), and
        deletes the offsets of deleted topics once it is loaded."""
        self.deleted.extend(delta.deleted_at(now.wall_ms))
        self.input(lambda: self.machine.on_metadata(delta, now))

    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        self.machine.set_group_configs(group_id, configs)

    def topics_of(self, group_id: str) -> Mapping[str, Sized]:
        """Returns the topics for which a group has committed offsets. The values: the offsets of
        each topic, which can only be counted."""
        return self.machine.offsets.store.topics(group_id)

    def is_settled(self, group_id: str) -> bool:
        """Whether the shard serves and no record of the group waits for the log."""
        return self.state is CoordinatorState.ACTIVE and group_id not in self._journal.pending

    def encode(self, records: list[Record] | CommitRecords) -> EncodedWrite:
        if isinstance(records, CommitRecords) and records.bare:
            size, names = records.size_bytes(), (records.group,)
            return EncodedWrite(records.packed, records.count, size, names)
        return measured(encode_pairs(records), sorted({key.group for key, _ in records}))

    # Transactions -------------------------------------------------------------------------

    def in_transaction(self, producer: tuple[int, int], offset: int, records: int) -> None:
        self.producers.written(*producer, offset, records, self.clock.now().wall_ms)

    def on_durable(self) -> None:
        self.producers.transactions.durable(self.durable_offset)
        if self.deleted and self._journal.idle and not self.machine.offsets.has_slices_left:
            self.deleted.clear()

    def write_marker(self, marker: Marker, waiter: Waiter) -> None:
        """End a transaction. Its pending offsets are committed or dropped at once. `waiter` is
        answered with NONE when the marker is durable, or with the code that says why not. Requests
        that read one of the groups concerned wait for the marker too."""
        if self.state is not CoordinatorState.ACTIVE:
            waiter.fail(REFUSALS[self.state])
            return
        now, journal, producer_id = self.clock.now(), self._journal, marker.producer_id
        try:
            self.producers.check_marker(marker)
            groups = self.machine.groups_in_transaction(producer_id)
            self.machine.replay_marker(producer_id, marker.committed)
            self.producers.marked(marker, journal.next_offset, now.wall_ms)
            replies = [(waiter, ErrorCode.NONE)]
            journal.accept_marker(marker, groups, replies, now.monotonic_ms)
        except ApiError as error:  # from the check: nothing has changed
            waiter.fail(error.code)
            return
        except Exception:
            log.exception("marker failed; shard is rebuilt", shard=self.partition)
            waiter.fail(ErrorCode.NOT_COORDINATOR)
            self._fail(ErrorCode.NOT_COORDINATOR)
            return
        self._writer.mark(self)
        self._commit_timeout.arm()


def _loaded(
    machine: GroupCoordinatorShard, outcome: Outcome, records: int, opened: ShardLog
) -> LoadedMachine[GroupCoordinatorShard]:
    history = opened.history
    start, end = history.start_offset, opened.next_offset
    return LoadedMachine(machine, outcome, records, start, end, history.owner_epoch)


class ShardReplyValidity:
    """Says whether the stored reply to a steady heartbeat may still be sent. The core's part says
    that group, member and settings have not changed. This class adds what the core cannot see:
    the shard has not been replaced since and still serves, and no record of the group waits for the
    log. ADR 10 says what this costs to keep. `pending`: the groups with records that are not
    durable yet, from the journal of the shard."""

    __slots__ = ("_group_id", "_holder", "_machine", "_now_ms", "_pending", "_renew")

    def __init__(
        self, holder: GroupLogShard, pending: Container[str], validity: ReplyValidity
    ) -> None:
        self._holder = holder
        self._machine = holder.machine
        self._pending = pending
        self._group_id = validity.group_id
        self._renew = validity.renew
        self._now_ms = holder.clock.monotonic_ms

    def renew(self) -> bool:
        holder = self._holder
        return (
            holder.machine is self._machine
            and holder.state is _ACTIVE
            and not (holder.may_answer and not holder.may_answer())
            and not (self._pending and self._group_id in self._pending)
            and self._renew(self._now_ms())
        )


def inspect_lazily(
    shard: GroupLogShard, group_id: str, now: Instant, after: str | None = None
) -> dict[str, Any] | None:
    """Returns what `inspect_group_lazily` returns. `blocked` also has transactions that hold
    offsets back, and a write that is under way."""
    shown = inspect_group_lazily(shard.shard.state, group_id, now, after)
    if shown is not None:
        writing = [] if shard.is_settled(group_id) else [wait(BEING_WRITTEN)]
        held_back = open_transactions(shard.shard.offsets.store, group_id)
        shown["blocked"] = chain(shown["blocked"], held_back, writing)
    return shown


def inspect(shard: GroupLogShard, group_id: str, now: Instant) -> dict[str, Any] | None:
    """The same as `inspect_lazily`, with lists."""
    shown = inspect_lazily(shard, group_id, now)
    return None if shown is None else with_lists(shown)
