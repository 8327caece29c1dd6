"""A large group at one moment, and what its assignor makes of it, slice by slice."""

from __future__ import annotations

from collections.abc import Generator

from msgspec import Struct

from groupd.coordinator.core.assignors.api import (
    Assignment,
    AssignorError,
    MemberSpec,
    PartitionAssignor,
)
from groupd.coordinator.core.assignors.slices import assign_steps
from groupd.coordinator.core.assignors.spec import AssignmentSpec, ImageDescriber
from groupd.coordinator.core.consumer_group import next_heartbeats
from groupd.coordinator.core.consumer_group.errors import AssignorFailed
from groupd.coordinator.core.consumer_group.group import NO_TARGET, ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.consumer_group.subscription import effective_subscription
from groupd.coordinator.core.consumer_group.target_assignment import subscription_type
from groupd.coordinator.core.consumer_group.target_checks import SLICE_MEMBERS, check_steps
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant
from groupd.protocol.messages import TopicId


class Change(Struct, frozen=True):
    """A member's new target."""

    member_id: str
    instance_id: str | None
    target: Assignment


class Snapshot:
    """The group at one moment: its members and targets are immutable, copying them is quick."""

    __slots__ = (
        "_group",
        "_image",
        "_member_ids",
        "_members",
        "_speaks",
        "_subscriptions",
        "_targets",
    )

    def __init__(self, state: ShardState, group: ConsumerGroup, now: Instant) -> None:
        self._group = group
        self._image = state.image
        self._member_ids = list(group.sorted_member_ids())
        self._members = dict(group.members)
        self._targets = dict(group.targets)
        # Not of that moment: the later it is looked at, the better.
        self._speaks = next_heartbeats.expected(state, group, now)
        self._subscriptions: dict[tuple[tuple[str, ...], str], frozenset[TopicId]] = {}

    def fill(
        self, changes: list[Change], assignor: PartitionAssignor | None, name: str
    ) -> Generator[None, None, None]:
        """Adds the members whose target changes. Raises AssignorFailed."""
        if assignor is None:
            raise AssignorFailed(name, "the preferred assignor is not configured")
        specs: dict[str, MemberSpec] = {}
        yield from self._specs(specs)
        kind = subscription_type(list(self._subscriptions))
        view = AssignmentSpec(specs, kind, keep_order=True, next_heartbeat=self._speaks)
        topics = ImageDescriber(self._image)
        try:
            result = yield from assign_steps(assignor, view, topics)
            yield
            targets = yield from check_steps(result, view, topics)
        except AssignorError as error:
            raise AssignorFailed(name, str(error)) from error
        except Exception as error:
            # A plug-in may raise anything; the shard lives on.
            raise AssignorFailed(name, f"{type(error).__name__}: {error}") from error
        for count, (member_id, spec) in enumerate(specs.items()):
            target = targets[member_id]
            if member_id not in self._targets or (
                target is not spec.assigned and target != spec.assigned
            ):
                changes.append(Change(member_id, spec.instance_id, target))
            if count % SLICE_MEMBERS == 0:
                yield

    def _specs(self, specs: dict[str, MemberSpec]) -> Generator[None, None, None]:
        for member_id in self._member_ids:
            member = self._members[member_id]
            specs[member_id] = MemberSpec(
                self._topic_ids(member),
                self._targets.get(member_id, NO_TARGET),
                member.instance_id,
                member.rack_id,
            )
            if len(specs) % SLICE_MEMBERS == 0:
                yield

    def _topic_ids(self, member: ConsumerGroupMember) -> frozenset[TopicId]:
        key = (member.subscribed_topic_names, member.subscribed_topic_regex)
        found = self._subscriptions.get(key)
        if found is None:
            found = effective_subscription(self._group, member, self._image).topic_ids()
            self._subscriptions[key] = found
        return found
