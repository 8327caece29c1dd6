"""Safety: what must hold after every step, of the live state and of what clients believe."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from groupd.coordinator.core.classic_group.group import SESSION as CLASSIC_SESSION
from groupd.coordinator.core.classic_group.group import ClassicGroup, State
from groupd.coordinator.core.classic_group.operation import JOIN, SYNC
from groupd.coordinator.core.consumer_group.group import (
    REBALANCE,
    SESSION,
    ConsumerGroup,
)
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember, MemberState
from groupd.coordinator.core.deadlines import Deadlines
from groupd.coordinator.runtime.shard_runtime import GroupLogShard
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import JoinGroupRequest, SyncGroupRequest
from tests.simulator.classic_client import ClassicClient
from tests.simulator.client import Client
from tests.simulator.compare import difference
from tests.simulator.consumer_client import ConsumerClient
from tests.simulator.world import Violation
from tests.support.blocked import check_blocked

if TYPE_CHECKING:
    from tests.simulator.simulation import Simulation

_HARMLESS = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
    }
)

Progress = tuple[Any, ...]


class Checks:
    """Looks at a shard only when something in it has changed."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._seen: dict[GroupLogShard, Progress] = {}
        self._epochs: dict[str, tuple[object, int, int]] = {}
        self._member_epochs: dict[tuple[object, str], int] = {}
        self._generations: dict[str, tuple[object, int]] = {}
        self.looks = 0

    # What clients report

    def on_error(self, client: Client, error: ErrorCode) -> None:
        """An error that a well-behaved client must never see is a violation."""
        if error in _HARMLESS:
            return
        simulation = self._simulation
        removed = client.group_id in simulation.ledger.removed_groups
        if error is ErrorCode.GROUP_ID_NOT_FOUND and removed:
            return
        if simulation.options.mixed_groups and error in (
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ):
            return
        raise Violation(f"{client.name} got {error.name}")

    def on_epoch(self, client: ConsumerClient, before: int, after: int) -> None:
        if after < before and not client.tainted:
            raise Violation(f"the epoch of {client.name} went back from {before} to {after}")

    def owns(self, client: Client) -> None:
        """A member that the coordinator counts on owns no more than it was given."""
        process = self._simulation.process
        if client.tainted or not client.running or process is None or not process.alive:
            return
        runtime = process.shard_of(client.group_id)
        if runtime is None or runtime.state is not CoordinatorState.ACTIVE:
            return
        group = runtime.shard.state.groups.get(client.group_id)
        if isinstance(group, ConsumerGroup) and isinstance(client, ConsumerClient):
            member = group.members.get(client.member_id)
            if member is not None and client.epoch > 0 and member.member_epoch > 0:
                _check_owned(client, member)

    # After every step

    def after_step(self) -> None:
        simulation = self._simulation
        if simulation.log_capture.errors:
            raise Violation("the broker logged an error: " + simulation.log_capture.errors[0])
        process = simulation.process
        if process is None or not process.alive:
            return
        if process.loop.failures:
            raise Violation(f"the event loop failed: {process.loop.failures[0]}")
        for runtime in process.broker.shards:
            journal = runtime._journal
            progress = (runtime.state, runtime.shard, journal.next_offset, journal.durable_offset)
            if self._seen.get(runtime) != progress:
                self._seen[runtime] = progress
                if runtime.state is CoordinatorState.ACTIVE:
                    self.look(runtime)

    def look(self, runtime: GroupLogShard) -> None:
        """Checks everything about one shard."""
        self.looks += 1
        state = runtime.shard.state
        _check_timer(runtime)
        shadow = self._simulation.shadow.shard(runtime.log_name)
        for group_id, group in state.groups.items():
            if isinstance(group, ConsumerGroup):
                self._check_consumer_group(runtime.shard, group, state.deadlines)
            elif isinstance(group, ClassicGroup):
                self._check_classic_group(runtime.shard, group, state.deadlines)
            if group_id not in runtime._journal.pending:
                found = difference(runtime.shard, shadow, group_id)
                if found:
                    raise Violation(f"replay of the log differs from {group_id}: {found}")
        if runtime._journal.idle:
            lost = shadow.state.groups.keys() - state.groups.keys()
            if lost:
                raise Violation(f"groups {sorted(lost)} are in the log but not in memory")
        try:
            check_blocked(state, runtime.clock.now())
        except AssertionError as silent:
            raise Violation(f"a group waits and does not say for what: {silent}") from silent
        for client in self._simulation.clients:
            self.owns(client)
        self._check_classic_owners(runtime)
        self._check_parked(runtime)

    # Consumer groups

    def _check_consumer_group(
        self, shard: object, group: ConsumerGroup, deadlines: Deadlines
    ) -> None:
        name = group.group_id
        if not group.assignment_epoch <= group.group_epoch:
            raise Violation(f"{name}: target {group.assignment_epoch} > group {group.group_epoch}")
        last = self._epochs.get(name)
        known = last is not None and last[0] is group
        if known and (group.group_epoch < last[1] or group.assignment_epoch < last[2]):
            raise Violation(f"{name}: epochs went back: {last[1:]} -> {group.group_epoch}")
        self._epochs[name] = (group, group.group_epoch, group.assignment_epoch)
        holders: dict[tuple[bytes, int], str] = {}
        for member in group.members.values():
            self._check_member(group, member, deadlines)
            for holdings in (member.assigned, member.pending_revocation):
                for topic_id, partitions in holdings.items():
                    for partition in partitions:
                        other = holders.setdefault((topic_id, partition), member.member_id)
                        if other is not member.member_id and other != member.member_id:
                            raise Violation(
                                f"{name}: {topic_id.hex()}-{partition} is with {other} and "
                                f"{member.member_id}"
                            )
        aims: set[tuple[bytes, int]] = set()
        for member_id, target in group.targets.items():
            for topic_id, numbers in target.items():
                for partition in numbers:
                    if (topic_id, partition) in aims:
                        raise Violation(f"{name}: {partition} twice in the target ({member_id})")
                    aims.add((topic_id, partition))

    def _check_member(
        self, group: ConsumerGroup, member: ConsumerGroupMember, deadlines: Deadlines
    ) -> None:
        name = f"{group.group_id}/{member.member_id}"
        epoch = member.member_epoch
        if epoch > group.assignment_epoch:
            raise Violation(f"{name}: member {epoch} > target {group.assignment_epoch}")
        place = (group, member.member_id)
        before = self._member_epochs.get(place, -1)
        if 0 < epoch < before:
            raise Violation(f"{name}: the member epoch went back from {before} to {epoch}")
        self._member_epochs[place] = epoch
        if (SESSION, group.group_id, member.member_id) not in deadlines:
            raise Violation(f"{name} has no session deadline")
        revokes = member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None
        if revokes and epoch > 0:
            bound = group.rebalance_epochs.get(member.member_id) == epoch
            if not bound or (REBALANCE, group.group_id, member.member_id) not in deadlines:
                raise Violation(f"{name} has no deadline for its revocation")

    # Classic groups

    def _check_classic_group(
        self, shard: object, group: ClassicGroup, deadlines: Deadlines
    ) -> None:
        name = group.group_id
        last = self._generations.get(name)
        if last is not None and last[0] is group and group.generation < last[1]:
            raise Violation(f"{name}: generation went back from {last[1]} to {group.generation}")
        self._generations[name] = (group, group.generation)
        peopled = group.state in (State.COMPLETING_REBALANCE, State.STABLE)
        if (peopled and not group.members) or (group.state is State.EMPTY and group.members):
            raise Violation(f"{name}: {group.state.value} with {len(group.members)} members")
        # A downgrade that was loaded from the log has none until its first join phase ends.
        elects = group.leader_id is None and group.state is State.PREPARING_REBALANCE
        if group.members and group.leader_id not in group.members and not elects:
            raise Violation(f"{name}: leader {group.leader_id} is no member")
        if group.state is State.PREPARING_REBALANCE and (JOIN, name, "") not in deadlines:
            raise Violation(f"{name} has no deadline for its join phase")
        syncs = group.state is State.COMPLETING_REBALANCE and group.pending_sync
        if syncs and (SYNC, name, "") not in deadlines:
            raise Violation(f"{name} has no deadline for its sync phase")
        for member_id in (*group.members, *group.pending_members):
            member = group.members.get(member_id)
            waits = member is not None and member.is_waiting
            if not waits and (CLASSIC_SESSION, name, member_id) not in deadlines:
                raise Violation(f"{name}/{member_id} has no session deadline")

    def _check_classic_owners(self, runtime: GroupLogShard) -> None:
        """Members at the current generation own disjoint partitions; what one of them is about to
        give up may be with another if its claim was too old to count."""
        owners: dict[tuple[str, Any], Client] = {}
        for client in self._simulation.clients:
            group = runtime.shard.state.groups.get(client.group_id)
            if not isinstance(client, ClassicClient) or not isinstance(group, ClassicGroup):
                continue
            current = client.stable and client.generation == group.generation
            if not current or not client.running or client.member_id not in group.members:
                continue
            for partition in client.owned.keys() - client.surplus:
                other = owners.setdefault((client.group_id, partition), client)
                if other is not client:
                    raise Violation(f"{partition} is owned by {other.name} and {client.name}")

    def _check_parked(self, runtime: GroupLogShard) -> None:
        """A Join or Sync that waits is known to its group, or waits for a record. The exception
        is a Join whose place a late one of the same member has taken."""
        simulation = self._simulation
        groups = runtime.shard.state.groups
        journal = runtime._journal
        known = {w for batch in journal._in_flight + journal._open for w, _ in batch.replies}
        for group in groups.values():
            if isinstance(group, ClassicGroup):
                for member in group.members.values():
                    known.update((member.join_token, member.sync_token))
        late = {client.name for client in simulation.clients if client.tainted}
        for connection in simulation.network.connections:
            for waiter, call in connection.waiting.items():
                request = call.request
                if connection.closed_ms is not None or call.copy or call.client in late:
                    continue
                if not isinstance(request, JoinGroupRequest | SyncGroupRequest) or waiter in known:
                    continue
                if connection.process.shard_of(request.group_id) is runtime:
                    group = groups.get(request.group_id)
                    if group is None or isinstance(group, ClassicGroup):
                        raise Violation(f"nobody will answer {call.client}: {request}")


def _check_owned(client: ConsumerClient, member: ConsumerGroupMember) -> None:
    for topic_id, partition in client.owned:
        if partition in member.assigned.get(topic_id, ()):
            continue
        if partition not in member.pending_revocation.get(topic_id, ()):
            raise Violation(
                f"{client.name} owns {topic_id.hex()}-{partition}, which the coordinator holds "
                f"for free: {member}"
            )


def _check_timer(runtime: GroupLogShard) -> None:
    """Checks that the shard will be woken for its earliest deadline."""
    due = runtime.shard.next_deadline()
    wakes_at = runtime._deadlines.at_ms
    if due is not None and (wakes_at is None or wakes_at > due):
        raise Violation(f"shard {runtime.partition} sleeps through its deadline at {due}")
