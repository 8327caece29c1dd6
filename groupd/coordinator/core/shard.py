"""GroupCoordinatorShard: the state machine of one `__consumer_offsets` partition.

The inputs are requests, deadlines, new metadata, finished tasks, answers to calls, and the ends of
appends. Each is handled alone and to its end, and leads to an `Outcome`. Hard state changes only in
`replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core import admin
from groupd.coordinator.core.assignors.api import PartitionAssignor
from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.group_type import ForeignHandler, Handler
from groupd.coordinator.core.group_types import GROUP_TYPES
from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage
from groupd.coordinator.core.offset_metadata_manager import (
    FORGET_DEADLINE,
    SWEEP_DEADLINE,
    OffsetMetadataManager,
)
from groupd.coordinator.core.offsets.commit import commit_offsets, commit_txn_offsets
from groupd.coordinator.core.offsets.refusals import refuse_txn_commit
from groupd.coordinator.core.offsets.store import StoredOffset
from groupd.coordinator.core.shard_requests import DeleteGroup, DeleteSomeOffsets, ListSomeGroups
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import (
    AppendError,
    AppliedAt,
    Completion,
    Instant,
    Outcome,
    OutsideCall,
    RequestContext,
    Task,
    merged_outcomes,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    TxnOffsetCommitRequest,
)
from groupd.protocol.records.commit_records import CommitRecords
from groupd.protocol.records.schema import (
    OffsetCommitKey,
    Record,
)


class GroupCoordinatorShard:
    """All groups and offsets whose ids hash to one partition."""

    def __init__(self, state: ShardState) -> None:
        self.state = state
        self._types = tuple(GROUP_TYPES)
        for group_type in self._types:
            if group_type.simple_group is not None:
                state.simple_group = group_type.simple_group
            if group_type.soft_state is not None:
                state.soft[group_type.name] = group_type.soft_state()
        self.offsets = OffsetMetadataManager(state)
        self._handlers = self._request_handlers()
        self._replay = _merged(one.replay for one in self._types)
        self._deadlines = _merged(one.deadlines for one in self._types)
        self._tasks = _merged(one.tasks for one in self._types)
        self._completions = _merged(one.completions for one in self._types)
        self._answers = _merged(one.answers for one in self._types)

    # Inputs -------------------------------------------------------------------------------

    def handle(self, context: RequestContext, request: Any, now: Instant) -> Outcome:
        """Handle one request. Raises ApiError; then nothing has changed."""
        if self.state.being_deleted or self.state.busy:
            admin.check_free(self.state, request)
        return self._handlers[type(request)](self.state, context, request, now)

    def expire(self, key: DeadlineKey, now: Instant) -> Outcome:
        """Handle a deadline that `pop_due` has returned."""
        if key == SWEEP_DEADLINE:
            return self.offsets.sweep(now)
        if key == FORGET_DEADLINE:
            return self.offsets.forget(now)
        return self._deadlines[key[0]](self.state, key, now)

    def appended(self, completion: Completion, error: AppendError | None, now: Instant) -> Outcome:
        """The records of an outcome are durable, or have failed."""
        return self._completions[completion.owner](self.state, completion, error, now)

    def task_done(self, task: Task, result: Any, now: Instant) -> Outcome:
        """A task is done; `result` is an Exception if it failed."""
        return self._tasks[task.kind](self.state, task, result, now)

    def answered(self, call: OutsideCall, answer: Any, now: Instant) -> Outcome:
        """The answer to a call has come; `answer` is an Exception if the call failed."""
        if admin.is_about_deletion(call):
            return admin.delete_answered(self.state, self.offsets.store, call, answer)
        return self._answers[call.whom](self.state, call, answer, now)

    def on_metadata(self, delta: MetadataDelta, now: Instant) -> Outcome:
        """There is a new image: groups refresh at their next heartbeat, offsets of deleted topics
        are removed."""
        self.state.image = delta.image
        outcome = merged_outcomes(one.on_metadata(self.state, delta, now) for one in self._types)
        if delta.deleted:
            deleted = delta.deleted_at(now.wall_ms)
            if not outcome.records:
                forgetting = self.offsets.on_topics_deleted(deleted, now)
                return merged_outcomes([outcome, forgetting])
            # The tombstones get a batch of their own, because together with the records of the
            # types they may be larger than one batch may be.
            self.offsets.forget_soon(deleted, now)
        return outcome

    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Set the dynamic configs of one group; they take effect at its next heartbeat."""
        if configs:
            self.state.group_configs[group_id] = dict(configs)
        else:
            self.state.group_configs.pop(group_id, None)

    def on_loaded(self, now: Instant) -> Outcome:
        """The log has been replayed: start timers, give every member a full session, and repeat the
        calls whose answers, according to the records, have not come."""
        self.offsets.start(now)
        return merged_outcomes(one.on_loaded(self.state, now) for one in self._types)

    def unload(self) -> Outcome:
        """The shard is given up: parked requests are answered."""
        outcome = Outcome()
        for group_type in self._types:
            outcome.urgent += group_type.unload(self.state).urgent
        return outcome

    def discard(self) -> None:
        """Another object replaces this shard. Handlers refer back to the shard; without this cycle
        its memory is freed at once, and also after `gc.freeze()`."""
        self._handlers.clear()

    # Hard state ---------------------------------------------------------------------------

    def replay(self, record: Record, at: AppliedAt) -> None:
        """Apply one record of the log. Raises an exception for a record that cannot be applied."""
        kind = type(record.key)
        if kind is OffsetCommitKey:
            self.offsets.replay(record, at)
        else:
            self._replay[kind](self.state, record.key, record.value)

    def replay_all(
        self,
        records: Iterable[Record],
        offsets: Iterable[int],
        producer: tuple[int, int] | None,
    ) -> None:
        """`replay` of records at these log offsets; `producer`: the (id, epoch) of their
        transaction, None if they are in none."""
        if producer is None and isinstance(records, CommitRecords):
            self.offsets.replay_commits(records, offsets)
            return
        writer = producer or (-1, -1)
        for at, record in zip(offsets, records, strict=False):
            self.replay(record, AppliedAt(at, *writer))

    def replay_offsets(self, group_id: str, topic: str, offsets: dict[int, StoredOffset]) -> None:
        """`replay` of offsets of one topic outside transactions, by partition. The store may
        keep the dict, so the caller must not use it any more."""
        self.offsets.replay_many(group_id, topic, offsets)

    def replay_marker(self, producer_id: int, commit: bool) -> None:
        """Apply the marker that ends a producer's transaction."""
        self.offsets.replay_marker(producer_id, commit=commit)

    def groups_in_transaction(self, producer_id: int) -> list[str]:
        """The ids of the groups whose pending offsets the producer's marker will commit or discard,
        sorted."""
        return self.offsets.store.pending_groups(producer_id)

    # Deadlines ----------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        """The monotonic ms of the earliest deadline; None if there is none."""
        if self.offsets.resting_ms is not None:
            self.offsets.go_on()
        return self.state.deadlines.next_deadline()

    def pop_due(self, now_ms: int, at_most: int | None = None) -> list[DeadlineKey]:
        return self.state.deadlines.pop_due(now_ms, at_most)

    def retry(self, key: DeadlineKey, at_ms: int) -> None:
        """See `Deadlines.retry`."""
        self.state.deadlines.retry(key, at_ms)

    # Display ------------------------------------------------------------------------------

    def group_states(self) -> list[tuple[str, str]]:
        """(group type, state) of every group, for gauges."""
        return [(g.type_name, g.state_name()) for g in self.state.groups.values()]

    def offset_count(self) -> int:
        return self.offsets.store.count

    # Handlers -----------------------------------------------------------------------------

    def _request_handlers(self) -> dict[type, Handler]:
        handlers: dict[type, Handler] = {
            OffsetCommitRequest: commit_offsets,
            TxnOffsetCommitRequest: self._commit_txn_offsets,
            OffsetFetchGroup: self.offsets.fetch,
            OffsetDeleteRequest: _stateless(self.offsets.delete),
            ListSomeGroups: admin.list_groups,
            DeleteGroup: _stateless(self._delete_group),
            DeleteSomeOffsets: _stateless(self._delete_some_offsets),
            **_merged(one.requests for one in self._types),
        }
        foreign: dict[type, dict[str, ForeignHandler]] = {}
        for group_type in self._types:
            for request, handler in group_type.foreign.items():
                foreign.setdefault(request, {})[group_type.name] = handler
        for request, by_type in foreign.items():
            handlers[request] = _by_type(handlers[request], by_type)
        return handlers

    def _delete_group(self, context: RequestContext, request: DeleteGroup, now: Instant) -> Outcome:
        return admin.delete_group(self.state, self.offsets.store, context, request)

    def _commit_txn_offsets(
        self,
        state: ShardState,
        context: RequestContext,
        request: TxnOffsetCommitRequest,
        now: Instant,
    ) -> Outcome:
        """Refuses the commit if the transaction has too many pending offsets, because its marker
        decides them all at once."""
        pending = self.offsets.store.pending_count(request.producer_id)
        if pending <= state.config.max_transaction_partitions:
            return commit_txn_offsets(state, context, request, now)
        reply = refuse_txn_commit(request, ErrorCode.POLICY_VIOLATION, context.api_version)
        return Outcome(replies=[(context.token, reply)], gate=request.group_id)

    def _delete_some_offsets(
        self, context: RequestContext, request: DeleteSomeOffsets, now: Instant
    ) -> Outcome:
        return admin.delete_some_offsets(self.state, self.offsets.store, context, request)


K = TypeVar("K")
V = TypeVar("V")


def _merged(tables: Iterable[Mapping[K, V]]) -> dict[K, V]:
    """The tables of all types as one. Raises ValueError if two of them have the same key."""
    merged: dict[K, V] = {}
    for table in tables:
        if both := merged.keys() & table.keys():
            raise ValueError(f"two group types have {both}")
        merged.update(table)
    return merged


def _stateless(handler: Callable[[RequestContext, Any, Instant], Outcome]) -> Handler:
    """A `Handler` made of one that needs no state."""
    return lambda state, context, request, now: handler(context, request, now)


def _by_type(default: Handler, by_type: Mapping[str, ForeignHandler]) -> Handler:
    """A `Handler` for requests that groups of other types answer while they have members. For any
    other group, the type to which the request belongs answers."""

    def handle(state: ShardState, context: RequestContext, request: Any, now: Instant) -> Outcome:
        group = state.groups.get(request.group_id)
        if group is not None and group.members:
            handler = by_type.get(group.type_name)
            if handler is not None:
                return handler(state, group, context, request, now)
        return default(state, context, request, now)

    return handle


MakeShard = Callable[[MetadataImage, Mapping[str, Mapping[str, str]]], GroupCoordinatorShard]
"""(topics, dynamic group configs) -> a fresh shard."""


def shard_maker(
    config: CoordinatorConfig,
    assignors: Mapping[str, PartitionAssignor],
    share_assignor: PartitionAssignor,
    new_id: Callable[[], str],
) -> MakeShard:
    """Returns a function that makes fresh shards. `share_assignor`: that of share groups; `new_id`:
    makes the ids of members whose clients send none."""

    def make(
        image: MetadataImage, overrides: Mapping[str, Mapping[str, str]]
    ) -> GroupCoordinatorShard:
        return GroupCoordinatorShard(
            ShardState(
                config=config,
                new_id=new_id,
                assignors=assignors,
                image=image,
                group_configs={group: dict(values) for group, values in overrides.items()},
                share_assignor=share_assignor,
            )
        )

    return make
