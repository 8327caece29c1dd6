"""What another assignor would do with a consumer group as it is now. Nothing is changed."""

from __future__ import annotations

from groupd.coordinator.core.assignors.api import Assignment
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.subscription import preferred_assignor
from groupd.coordinator.core.consumer_group.target_assignment import GroupSnapshot, compute
from groupd.coordinator.core.group_type import AssignorTrial, Proposal
from groupd.coordinator.core.slices import Steps, chunks
from groupd.coordinator.core.state import ShardState


def _used(state: ShardState, group: ConsumerGroup) -> str:
    return preferred_assignor(group.assignor_votes, state.config.consumer_assignors[0])


def _propose(state: ShardState, group: ConsumerGroup, name: str) -> Steps[Proposal]:
    snapshot = GroupSnapshot(group, state.image)
    changed = yield from compute(snapshot, state.assignors.get(name), name, None)
    current: dict[str, Assignment] = {}
    for some in chunks(snapshot.member_ids):
        current.update((member_id, snapshot.target(member_id)) for member_id in some)
        yield
    compared = f"Now: the group's target. Compared with the assignor {name}."
    return Proposal(current, {**current, **changed}, compared)


WHAT_IF = AssignorTrial(_used, _propose)
