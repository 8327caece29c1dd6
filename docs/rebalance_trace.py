"""Runs the textbook rebalance on the pure core, in virtual time, and shows every step.

C1 owns p0 and p1, C2 owns p2 and p3, C3 joins. `steps()` gives the facts, which a test checks;
`trace()` the text, which `docs/generate.py` puts into `docs/rebalance-trace.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.assignors.loader import load_assignors
from groupd.coordinator.core.inspection import inspect_group_lazily, with_lists
from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import AppliedAt, Event, Instant, RequestContext
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupHeartbeatReply,
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMetadataKey,
    Record,
)

GROUP, TOPIC, TOPIC_ID = "g", "orders", bytes([1]) * 16
HEARTBEAT_INTERVAL_MS = 5000
WALL_MS = 1_700_000_000_000
STATES = ("STABLE", "UNREVOKED_PARTITIONS", "UNRELEASED_PARTITIONS")
SHOWN_EVENTS = ("group-epoch-bumped", "partitions-revoking", "partitions-assigned")


@dataclass(frozen=True)
class Step:
    """One heartbeat. `group`: as `/groups/{id}` shows it afterwards; `owns`: what was said."""

    at_ms: int
    member: str
    said_epoch: int
    owns: tuple[int, ...] | None
    reply: ConsumerGroupHeartbeatReply
    records: tuple[Record, ...]
    events: tuple[Event, ...]
    group: Mapping[str, Any]


class Cluster:
    """One shard, its clock, and clients that know what a client knows."""

    def __init__(self) -> None:
        config = CoordinatorConfig(consumer_assignment_interval_ms=0, consumer_target_linger_ms=0)
        image = MetadataImage([TopicImage(TOPIC_ID, TOPIC, 4)], version=1)
        assignors = load_assignors(config.consumer_assignors)
        self.shard = GroupCoordinatorShard(ShardState(config, lambda: "unused", assignors, image))
        self.now_ms = 0
        self.written = 0
        self.epochs: dict[str, int] = {}
        self.owned: dict[str, tuple[int, ...]] = {}

    def beat(self, member: str, *, tell: bool = False) -> Step:
        """`tell`: the client says what it owns, as it does when it joins and after a change."""
        epoch = self.epochs.get(member, 0)
        owns = self.owned.get(member, ()) if tell or epoch == 0 else None
        request = ConsumerGroupHeartbeatRequest(
            GROUP,
            member,
            epoch,
            rebalance_timeout_ms=60_000 if epoch == 0 else -1,
            subscribed_topic_names=(TOPIC,) if epoch == 0 else None,
            topic_partitions=None if owns is None else topic_partitions(owns),
        )
        now = Instant(self.now_ms, WALL_MS + self.now_ms)
        outcome = self.shard.handle(RequestContext(0, 1, member.lower()), request, now)
        self._replay(outcome.records)
        # Without a linger the target of a heartbeat that waits for one is due at once.
        for key in self.shard.pop_due(self.now_ms):
            more = self.shard.expire(key, now)
            self._replay(more.records)
            outcome.records += more.records
            outcome.replies += more.replies
            outcome.events += more.events
        ((_, reply),) = outcome.replies
        self.epochs[member] = reply.member_epoch
        if reply.assignment is not None:
            self.owned[member] = tuple(p for one in reply.assignment for p in one.partitions)
        shown = inspect_group_lazily(self.shard.state, GROUP, now)
        assert shown is not None
        records, events = tuple(outcome.records), tuple(outcome.events)
        return Step(self.now_ms, member, epoch, owns, reply, records, events, with_lists(shown))

    def _replay(self, records: Iterable[Record]) -> None:
        for record in records:
            self.shard.replay(record, AppliedAt(self.written))
            self.written += 1


def topic_partitions(numbers: tuple[int, ...]) -> tuple[TopicPartitions, ...]:
    return (TopicPartitions(TOPIC_ID, numbers),) if numbers else ()


def steps() -> Iterator[Step]:
    """From the moment in which C3 joins; a second passes between two heartbeats."""
    cluster = Cluster()
    for member, tell in (("C1", False), ("C2", False), ("C1", False), ("C1", True), ("C2", False)):
        cluster.beat(member, tell=tell)
    for member, tell in (
        ("C3", False),
        ("C1", False),
        ("C3", False),
        ("C2", False),
        ("C3", False),
        ("C2", True),
        ("C3", False),
        ("C3", True),
    ):
        yield cluster.beat(member, tell=tell)
        cluster.now_ms += 1000


def trace() -> str:
    """All steps as text."""
    return "\n".join(
        line for number, step in enumerate(steps(), 1) for line in _lines(number, step)
    )


def _lines(number: int, step: Step) -> Iterator[str]:
    said = "joins (epoch 0)" if step.said_epoch == 0 else f"heartbeat, epoch {step.said_epoch}"
    if step.owns is not None:
        said += f", owns {names(step.owns)}"
    yield f"{number}. t={step.at_ms / 1000:.0f}s  {step.member} -> {said}"
    given = step.reply.assignment
    told = "unchanged" if given is None else names(p for one in given for p in one.partitions)
    yield f"           {step.member} <- epoch {step.reply.member_epoch}, assignment: {told}"
    for event in step.events:
        if event.kind.value in SHOWN_EVENTS:
            yield f"   event   {_event(event)}"
    for record in step.records:
        yield f"   record  {_record(record)}"
    group = step.group
    yield (
        f"   group   {group['state']}: group epoch {group['group_epoch']}, "
        f"target epoch {group['assignment_epoch']}"
    )
    waits: dict[str, list[str]] = {}
    for entry in partitions_waited_for(group):
        text = f"waits for p{entry['partition']} of {entry['held_by']}"
        waits.setdefault(entry["member_id"], []).append(text)
    for member in group["members"]:
        yield _member(member, waits.get(member["member_id"], []))
    yield ""


def partitions_waited_for(group: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The entries of `blocked` that are about a partition."""
    return [entry for entry in group["blocked"] if "partition" in entry]


def _member(member: Mapping[str, Any], waits: list[str]) -> str:
    owned, pending, target = (
        names(member[key].get(TOPIC, ())) for key in ("owned", "pending_revocation", "target")
    )
    line = (
        f"     {member['member_id']}  epoch {member['member_epoch']}  {member['state']:<21} "
        f" owned {owned:<6} pending {pending:<3} target {target:<6} {', '.join(waits)}"
    )
    return line.rstrip()


def _event(event: Event) -> str:
    what = event.kind.value
    if event.member_id:
        what += f" {event.member_id}"
    if "partitions" in event.details:
        what += f" {names(event.details['partitions'][TOPIC])}"
    return f"{what}: {event.cause}"


def _record(record: Record) -> str:
    key, value = record.key, record.value
    match key:
        case ConsumerGroupMetadataKey():
            return f"ConsumerGroupMetadata          epoch {value.epoch}"
        case ConsumerGroupMemberMetadataKey():
            topics = ", ".join(value.subscribed_topic_names)
            return f"ConsumerGroupMemberMetadata    {key.member_id} subscribes to {topics}"
        case ConsumerGroupTargetMetadataKey():
            return f"ConsumerGroupTargetMetadata    epoch {value.assignment_epoch}"
        case ConsumerGroupTargetMemberKey():
            target = names(p for one in value.topics for p in one.partitions)
            return f"ConsumerGroupTargetMember      {key.member_id} {target}"
        case ConsumerGroupCurrentMemberKey():
            owned = names(p for one in value.assigned for p in one.partitions)
            pending = names(p for one in value.pending_revocation for p in one.partitions)
            return (
                f"ConsumerGroupCurrentMember     {key.member_id} epoch {value.member_epoch} "
                f"{STATES[value.state]} owned {owned} pending {pending}"
            )
    raise AssertionError(f"no such record in this story: {key}")


def names(numbers: Any) -> str:
    """p0 p1, or - for nothing."""
    return " ".join(f"p{number}" for number in sorted(numbers)) or "-"
