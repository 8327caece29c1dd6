"""GroupCoordinatorShard: the state machine of one `__consumer_offsets` partition.

Every input is handled alone and to its end: a request, a deadline, new metadata, a finished task,
an append's outcome. It leads to an `Outcome`; hard state changes only in `replay`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from groupd.coordinator.core import admin
from groupd.coordinator.core.classic_group import describe as classic_describe
from groupd.coordinator.core.classic_group import heartbeat as classic_heartbeat
from groupd.coordinator.core.classic_group import join, leave, lifecycle, sync
from groupd.coordinator.core.classic_group import replay as classic_replay
from groupd.coordinator.core.classic_group import timers as classic_timers
from groupd.coordinator.core.classic_group.appended import appended
from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.consumer_group import deferred_target, gather, metadata, regex
from groupd.coordinator.core.consumer_group import describe as consumer_describe
from groupd.coordinator.core.consumer_group import heartbeat as consumer_heartbeat
from groupd.coordinator.core.consumer_group import replay as consumer_replay
from groupd.coordinator.core.consumer_group import timers as consumer_timers
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.timer_keys import GATHERING_KINDS
from groupd.coordinator.core.deadlines import DeadlineKey
from groupd.coordinator.core.interop import appended as interop_appended
from groupd.coordinator.core.interop import classic_heartbeat as interop_heartbeat
from groupd.coordinator.core.interop import classic_join, classic_leave, classic_sync, downgrade
from groupd.coordinator.core.interop import timers as interop_timers
from groupd.coordinator.core.metadata_image import MetadataDelta
from groupd.coordinator.core.offset_metadata_manager import SWEEP_DEADLINE, OffsetMetadataManager
from groupd.coordinator.core.offsets.replay import replay_runs
from groupd.coordinator.core.offsets.store import StoredOffset
from groupd.coordinator.core.queries import DescribeClassicGroup, DescribeConsumerGroup
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import (
    AppendError,
    AppliedAt,
    Completion,
    Instant,
    Outcome,
    RequestContext,
    Task,
)
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from groupd.protocol.messages.groups import DeleteGroupsRequest, ListGroupsRequest
from groupd.protocol.messages.offsets import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    TxnOffsetCommitRequest,
)
from groupd.protocol.records.schema import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
    RecordValue,
)

Handler = Callable[[RequestContext, Any, Instant], Outcome]


class GroupCoordinatorShard:
    """All groups and offsets whose ids hash to one partition."""

    def __init__(self, state: ShardState) -> None:
        self.state = state
        self.offsets = OffsetMetadataManager(state, ClassicGroup.simple)
        self._handlers: dict[type, Handler] = {
            ConsumerGroupHeartbeatRequest: self._with_state(consumer_heartbeat.handle),
            HeartbeatRequest: self._by_type(classic_heartbeat.handle, interop_heartbeat.handle),
            JoinGroupRequest: self._by_type(join.handle, classic_join.handle),
            SyncGroupRequest: self._by_type(sync.handle, classic_sync.handle),
            LeaveGroupRequest: self._by_type(leave.handle, classic_leave.handle),
            OffsetCommitRequest: self.offsets.commit,
            TxnOffsetCommitRequest: self.offsets.txn_commit,
            OffsetFetchGroup: self.offsets.fetch,
            OffsetDeleteRequest: self.offsets.delete,
            DescribeClassicGroup: self._describe_classic,
            DescribeConsumerGroup: self._describe_consumer,
            ListGroupsRequest: self._list_groups,
            DeleteGroupsRequest: self._delete_groups,
        }

    # Inputs -------------------------------------------------------------------------------

    def handle(self, context: RequestContext, request: Any, now: Instant) -> Outcome:
        """One request for this shard. Raises ApiError; then nothing has changed."""
        return self._handlers[type(request)](context, request, now)

    def expire(self, key: DeadlineKey, now: Instant) -> Outcome:
        """A deadline that `pop_due` has taken off."""
        if key == SWEEP_DEADLINE:
            return self.offsets.sweep(now)
        if key[0] in classic_timers.KINDS:
            return classic_timers.expire(self.state, key, now)
        if key[0] in GATHERING_KINDS:
            return gather.expire(self.state, key, now)
        if key[0] in interop_timers.KINDS:
            return interop_timers.expire(self.state, key, now)
        return consumer_timers.expire(self.state, key, now)

    def appended(self, completion: Completion, error: AppendError | None, now: Instant) -> Outcome:
        """An outcome's records are durable, or have failed."""
        if completion.owner == downgrade.OWNER:
            return interop_appended.appended(self.state, completion, error, now)
        return appended(self.state, completion, error, now)

    def task_done(self, task: Task, result: Any, now: Instant) -> Outcome:
        """`result` is an Exception when the task failed."""
        if task.kind == deferred_target.TASK_KIND:
            outcome = deferred_target.complete(self.state, task, result, now)
            gather.after_slice(self.state, task.group_id, now)
            return outcome
        return regex.complete(self.state, task, result, now)

    def on_metadata(self, delta: MetadataDelta, now: Instant) -> Outcome:
        """A new image: groups refresh at their next heartbeat, offsets of deleted topics go."""
        self.state.image = delta.image
        metadata.on_delta(self.state, delta, now)
        if not delta.deleted:
            return Outcome()
        return self.offsets.on_topics_deleted(delta.deleted)

    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Dynamic configs of one group, effective at its next heartbeat."""
        if configs:
            self.state.group_configs[group_id] = dict(configs)
        else:
            self.state.group_configs.pop(group_id, None)

    def on_loaded(self, now: Instant) -> Outcome:
        """The log has been replayed: start timers; every member gets a full session."""
        self.offsets.start(now)
        consumer = consumer_timers.on_loaded(self.state, now)
        classic = lifecycle.on_loaded(self.state, now)
        classic.events[:0] = consumer.events
        return classic

    def unload(self) -> Outcome:
        """The shard is given up: whoever is parked is told."""
        outcome = lifecycle.unload(self.state)
        outcome.urgent += gather.unload(self.state).urgent
        return outcome

    def discard(self) -> None:
        """Another object takes over. Handlers refer back to the shard; without this cycle its
        memory is free at once, and also after `gc.freeze()`."""
        self._handlers.clear()

    # Hard state ---------------------------------------------------------------------------

    def replay(self, record: Record, at: AppliedAt) -> None:
        """Apply one record of the log. Raises on what must not be skipped."""
        if isinstance(record.key, OffsetCommitKey):
            self.offsets.replay(record, at)
        elif isinstance(record.key, GroupMetadataKey):
            classic_replay.apply(self.state, record, at)
        else:
            consumer_replay.apply(self.state, record, at)

    def replay_all(
        self, records: Iterable[Record], offset: int, producer: tuple[int, int] | None
    ) -> None:
        """`replay` of records at consecutive log offsets; `producer`: of their transaction."""
        if producer is not None:
            for at, record in enumerate(records, offset):
                self.replay(record, AppliedAt(at, *producer))
            return
        replay_runs(records, offset, self.offsets.replay_many, self.replay)

    def replay_group(
        self, kind: type[Any], group_id: str, name: str, value: RecordValue | None
    ) -> None:
        """`replay` of a record of a consumer group, taken apart: the class of its key, the member
        id or regular expression in it or ""."""
        consumer_replay.apply_parts(self.state, kind, group_id, name, value)

    def replay_offset(
        self, place: tuple[str, str, int], value: OffsetCommitValue | None, log_offset: int
    ) -> None:
        """`replay` of an offset outside transactions, given as (group, topic, partition): the
        quick way for loaders, nearly all of whose records are that."""
        self.offsets.replay_at(place, value, log_offset)

    def replay_offsets(self, group_id: str, topic: str, offsets: dict[int, StoredOffset]) -> None:
        """The same for many of one topic; the dict is the store's from here on."""
        self.offsets.replay_many(group_id, topic, offsets)

    def replay_marker(self, producer_id: int, commit: bool) -> None:
        """The end of a transaction."""
        self.offsets.replay_marker(producer_id, commit=commit)

    def groups_in_transaction(self, producer_id: int) -> list[str]:
        """Whose offsets the producer's marker will decide, sorted."""
        return self.offsets.store.pending_groups(producer_id)

    # Deadlines ----------------------------------------------------------------------------

    def next_deadline(self) -> int | None:
        """Monotonic ms, not after the earliest deadline."""
        return self.state.deadlines.next_deadline()

    def pop_due(self, now_ms: int, at_most: int | None = None) -> list[DeadlineKey]:
        return self.state.deadlines.pop_due(now_ms, at_most)

    def retry(self, key: DeadlineKey, at_ms: int) -> None:
        """`key` was popped, but could not be handled: again at `at_ms` unless it is set."""
        if key not in self.state.deadlines:
            self.state.deadlines.set(key, at_ms)

    # Display ------------------------------------------------------------------------------

    def group_states(self) -> list[tuple[str, str]]:
        """(group type, state) of every group, for gauges."""
        return [(g.type_name, g.state_name()) for g in self.state.groups.values()]

    def offset_count(self) -> int:
        return self.offsets.store.count

    # Handlers -----------------------------------------------------------------------------

    def _with_state(
        self, handler: Callable[[ShardState, RequestContext, Any, Instant], Outcome]
    ) -> Handler:
        return lambda context, request, now: handler(self.state, context, request, now)

    def _by_type(
        self,
        classic: Callable[[ShardState, RequestContext, Any, Instant], Outcome],
        interop: Callable[[ShardState, ConsumerGroup, RequestContext, Any, Instant], Outcome],
    ) -> Handler:
        """A request of the classic protocol: consumer groups with members host it, everything
        else (an empty consumer group too) is for the classic handler."""

        def handler(context: RequestContext, request: Any, now: Instant) -> Outcome:
            group = self.state.groups.get(request.group_id)
            if isinstance(group, ConsumerGroup) and group.members:
                return interop(self.state, group, context, request, now)
            return classic(self.state, context, request, now)

        return handler

    def _describe_classic(
        self, context: RequestContext, request: DescribeClassicGroup, now: Instant
    ) -> Outcome:
        group = classic_describe.describe(
            self.state, context, request.group_id, request.include_authorized_operations
        )
        return Outcome(replies=[(context.token, group)], gate=request.group_id)

    def _describe_consumer(
        self, context: RequestContext, request: DescribeConsumerGroup, now: Instant
    ) -> Outcome:
        group = consumer_describe.describe(
            self.state, context, request.group_id, request.include_authorized_operations
        )
        return Outcome(replies=[(context.token, group)], gate=request.group_id)

    def _list_groups(
        self, context: RequestContext, request: ListGroupsRequest, now: Instant
    ) -> Outcome:
        reply = admin.list_groups(self.state, context, request)
        return Outcome(replies=[(context.token, reply)], gate="*")

    def _delete_groups(
        self, context: RequestContext, request: DeleteGroupsRequest, now: Instant
    ) -> Outcome:
        return admin.delete_groups(self.state, self.offsets, context, request.group_ids, now)
