"""Checks all the time that the coordinator keeps certain rules: in records when they become
durable, and in live groups after every event.

    owners    no two members hold the same partition (owned or being revoked)
    epochs    group epochs, target epochs, generations and member epochs do not go back
    commits   no offset is moved by a member that is not in the group or names a wrong epoch

A wrong epoch is one above the member's own; in a classic group, any but the generation. This module
states the rules a second time on purpose, and uses none of the coordinator's own checks. It keeps
violations and does not raise them, so that they do not disturb the code that runs the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.types import Event, EventKind
from groupd.protocol.messages import TopicIdPartition
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetMetadataKey,
    ConsumerGroupTargetMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    Record,
)

VIOLATIONS_MAX = 20


class Invariants:
    """The invariants of one broker. `group_of(group_id)`: the live group; `trace(group_id)`: its
    history as text."""

    def __init__(
        self, group_of: Callable[[str], Group | None], trace: Callable[[str], str]
    ) -> None:
        self._group_of = group_of
        self._trace = trace
        self._epochs: dict[tuple[str, ...], int] = {}
        self._held: dict[str, dict[str, frozenset[TopicIdPartition]]] = {}
        self.violations: list[str] = []

    def reset(self) -> None:
        """Forget what the logs held: they are empty again."""
        self._epochs.clear()
        self._held.clear()

    def report(self, group_id: str, what: str) -> None:
        if len(self.violations) < VIOLATIONS_MAX:
            self.violations.append(f"group {group_id}: {what}\n{self._trace(group_id)}")

    # Durable records

    def on_records(self, records: Sequence[Record]) -> None:
        """Check the records of one batch. Owners are compared at the end of the batch, because
        moving a partition takes several records."""
        touched = set()
        for record in records:
            match record.key:
                case ConsumerGroupMetadataKey(group):
                    self._note_epoch(("group", group), group, "group epoch", record.value)
                case ConsumerGroupTargetMetadataKey(group):
                    self._note_epoch(("target", group), group, "target epoch", record.value)
                case GroupMetadataKey(group):
                    self._note_epoch(("generation", group), group, "generation", record.value)
                case ConsumerGroupCurrentMemberKey(group, member):
                    name = f"epoch of member {member}"
                    self._note_epoch(("member", group, member), group, name, record.value)
                    self._note_held(group, member, record.value)
                    touched.add(group)
        for group in sorted(touched):
            self._check_owners(group, self._held[group], "in the log")

    def _note_epoch(self, key: tuple[str, ...], group: str, name: str, value: Any) -> None:
        epoch = _epoch_of(value)
        before = self._epochs.get(key, 0)
        # A static member that left (epoch -2) and a new member (epoch 0) begin again.
        if epoch is None or epoch <= 0:
            self._epochs.pop(key, None)
            return
        if epoch < before:
            self.report(group, f"the {name} went back from {before} to {epoch}")
        self._epochs[key] = epoch

    def _note_held(self, group: str, member: str, value: Any) -> None:
        members = self._held.setdefault(group, {})
        if isinstance(value, ConsumerGroupCurrentMemberValue):
            members[member] = frozenset(
                (topic.topic_id, number)
                for topic in (*value.assigned, *value.pending_revocation)
                for number in topic.partitions
            )
        else:
            members.pop(member, None)

    # Live groups

    def on_events(self, _: int, events: Sequence[Event]) -> None:
        for event in events:
            group = self._group_of(event.group_id)
            if event.kind is EventKind.OFFSETS_COMMITTED:
                self._check_commit(event, group)
            elif isinstance(group, ConsumerGroup):
                held = {
                    member_id: frozenset(
                        (topic_id, number)
                        for holdings in (member.assigned, member.pending_revocation)
                        for topic_id, numbers in holdings.items()
                        for number in numbers
                    )
                    for member_id, member in group.members.items()
                }
                self._check_owners(group.group_id, held, "in memory")

    def _check_commit(self, event: Event, group: Group | None) -> None:
        if event.epoch < 0 and not event.member_id:
            # A commit from outside the group is only allowed while the group is empty, or in a
            # transaction, where the producer is responsible.
            if event.details.get("transactional"):
                return
            if isinstance(group, ConsumerGroup | ClassicGroup) and not group.is_empty():
                self.report(event.group_id, "an offset was moved from outside a group in use")
            return
        said = f"{event.member_id} moved an offset at epoch {event.epoch}"
        if isinstance(group, ConsumerGroup):
            member = group.members.get(event.member_id)
            if member is None:
                self.report(event.group_id, f"{said}, but is no member")
            elif event.epoch > member.member_epoch:
                self.report(event.group_id, f"{said}, but is at {member.member_epoch}")
        elif isinstance(group, ClassicGroup) and not group.is_empty():
            if event.member_id not in group.members:
                self.report(event.group_id, f"{said}, but is no member")
            elif event.epoch != group.generation:
                self.report(event.group_id, f"{said}, but the generation is {group.generation}")

    def _check_owners(
        self, group: str, held: Mapping[str, Iterable[TopicIdPartition]], where: str
    ) -> None:
        owners: dict[TopicIdPartition, str] = {}
        for member in sorted(held):
            for partition in held[member]:
                other = owners.setdefault(partition, member)
                if other != member:
                    topic_id, number = partition
                    self.report(
                        group,
                        f"partition {number} of topic id {topic_id.hex()} is with {other} and "
                        f"with {member} ({where})",
                    )


def _epoch_of(value: Any) -> int | None:
    match value:
        case ConsumerGroupMetadataValue():
            return value.epoch
        case ConsumerGroupTargetMetadataValue():
            return value.assignment_epoch
        case ConsumerGroupCurrentMemberValue():
            return value.member_epoch
        case GroupMetadataValue():
            return value.generation
    return None
