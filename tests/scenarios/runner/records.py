"""Records and events of the core as lines: the facts that the rules speak of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from groupd.coordinator.core.types import Event, Instant
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegexKey,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMetadataKey,
    GroupMetadataKey,
    OffsetCommitKey,
    OwnedTopic,
    Record,
    ShareGroupCurrentMemberKey,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionsKey,
    ShareGroupTargetMemberKey,
    ShareGroupTargetMetadataKey,
)
from tests.scenarios.runner.backend import Names
from tests.scenarios.runner.command import show_partitions
from tests.scenarios.runner.payloads import show_assignment

TYPES: Mapping[type, int] = {
    OffsetCommitKey: 1,
    GroupMetadataKey: 2,
    ConsumerGroupMetadataKey: 3,
    ConsumerGroupPartitionMetadataKey: 4,
    ConsumerGroupMemberMetadataKey: 5,
    ConsumerGroupTargetMetadataKey: 6,
    ConsumerGroupTargetMemberKey: 7,
    ConsumerGroupCurrentMemberKey: 8,
    ShareGroupMemberMetadataKey: 10,
    ShareGroupMetadataKey: 11,
    ShareGroupTargetMetadataKey: 12,
    ShareGroupTargetMemberKey: 13,
    ShareGroupCurrentMemberKey: 14,
    ShareGroupStatePartitionsKey: 15,
    ConsumerGroupRegexKey: 16,
}
STATES = {0: "STABLE", 1: "UNREVOKED", 2: "UNRELEASED"}


def show_records(names: Names, records: Iterable[Record], now: Instant) -> list[str]:
    """`R5 m1 ...` a value of type 5, `T5 m1` its tombstone."""
    return [_show(names, record, now) for record in records]


def _show(names: Names, record: Record, now: Instant) -> str:
    key, value = record.key, record.value
    number = TYPES[type(key)]
    subject = [] if key.group == "g" else [f"group={key.group}"]
    if hasattr(key, "member_id"):
        subject.append(names.alias(key.member_id))
    if isinstance(key, OffsetCommitKey):
        subject.append(f"{key.topic}-{key.partition}")
    if isinstance(key, ConsumerGroupRegexKey):
        subject.append(f'"{key.regex}"')
    if value is None:
        return " ".join([f"T{number}", *subject])
    facts = _FACTS[number](names, value, now)
    return " ".join([f"R{number}", *subject, *facts])


def _offset(_: Names, value: Any, now: Instant) -> list[str]:
    facts = [str(value.offset)]
    if value.metadata:
        facts.append(f"metadata of {len(value.metadata)}")
    if value.leader_epoch != -1:
        facts.append(f"leader_epoch={value.leader_epoch}")
    if value.expire_timestamp_ms != -1:
        facts.append(f"expires_in={value.expire_timestamp_ms - now.wall_ms}")
    return facts


def _classic(names: Names, value: Any, _: Instant) -> list[str]:
    members = [
        f"{names.alias(one.member_id)}={show_assignment(one.assignment, names)}"
        for one in value.members
    ]
    facts = [f"gen={value.generation}", f'type="{value.protocol_type}"']
    if value.protocol is not None:
        facts.append(f"protocol={value.protocol}")
    if value.leader is not None:
        facts.append(f"leader={names.alias(value.leader)}")
    return [*facts, f"members=[{','.join(members)}]"]


def _member(_: Names, value: Any, __: Instant) -> list[str]:
    facts = [f"names=[{','.join(value.subscribed_topic_names)}]"]
    optional = {
        "regex": value.subscribed_topic_regex and f'"{value.subscribed_topic_regex}"',
        "assignor": value.server_assignor,
        "instance": value.instance_id,
        "rack": value.rack_id,
        "timeout": value.rebalance_timeout_ms if value.rebalance_timeout_ms != 60_000 else None,
    }
    facts += [f"{name}={fact}" for name, fact in optional.items() if fact]
    if value.classic is not None:
        offered = ",".join(one.name for one in value.classic.supported_protocols)
        facts.append(f"classic=[{offered}] session={value.classic.session_timeout_ms}")
    return facts


def _target_epoch(_: Names, value: Any, now: Instant) -> list[str]:
    known = {0: "0", now.wall_ms: "now"}
    at = known.get(value.assignment_timestamp_ms, "earlier")
    return [f"epoch={value.assignment_epoch}", f"at={at}"]


def _target(names: Names, value: Any, _: Instant) -> list[str]:
    return [show_partitions({names.topic_of(t.topic_id): list(t.partitions) for t in value.topics})]


def _current(names: Names, value: Any, _: Instant) -> list[str]:
    facts = [
        f"epoch={value.member_epoch}",
        f"prev={value.previous_member_epoch}",
        STATES.get(value.state, str(value.state)),
        _owned(names, value.assigned),
    ]
    if value.pending_revocation:
        facts.append(f"pending={_owned(names, value.pending_revocation)}")
    return facts


def _owned(names: Names, owned: Iterable[OwnedTopic]) -> str:
    """`{foo:0-1@2 foo:3@5}`: partitions of one assignment epoch together."""
    shown = []
    for topic in sorted(owned, key=lambda one: names.topic_of(one.topic_id)):
        epochs = topic.assignment_epochs or (-1,) * len(topic.partitions)
        for epoch in sorted(set(epochs)):
            held = [p for p, e in zip(topic.partitions, epochs, strict=True) if e == epoch]
            text = show_partitions({names.topic_of(topic.topic_id): held})
            shown.append(f"{text[1:-1]}@{epoch}")
    return "{" + " ".join(shown) + "}"


def _regex(_: Names, value: Any, __: Instant) -> list[str]:
    return [f"topics=[{','.join(value.topics)}]"]


def _group_epoch(_: Names, value: Any, __: Instant) -> list[str]:
    return [f"epoch={value.epoch}", *(["hash=0"] * (value.metadata_hash == 0))]


def _share_member(_: Names, value: Any, __: Instant) -> list[str]:
    facts = [f"names=[{','.join(value.subscribed_topic_names)}]"]
    return facts if value.rack_id is None else [*facts, f"rack={value.rack_id}"]


def _share_current(names: Names, value: Any, _: Instant) -> list[str]:
    held = {names.topic_of(one.topic_id): list(one.partitions) for one in value.assigned}
    epochs = [f"epoch={value.member_epoch}", f"prev={value.previous_member_epoch}"]
    return [*epochs, show_partitions(held)]


def _state_partitions(_: Names, value: Any, __: Instant) -> list[str]:
    """Lists that are empty are left out."""
    facts = []
    for label, topics in (
        ("initializing", value.initializing),
        ("initialized", value.initialized),
    ):
        if topics:
            shown = show_partitions({one.topic_name: list(one.partitions) for one in topics})
            facts.append(f"{label}={shown}")
    if value.deleting:
        facts.append(f"deleting=[{','.join(sorted(name for _, name in value.deleting))}]")
    return facts or ["nothing"]


_FACTS: Mapping[int, Any] = {
    1: _offset,
    2: _classic,
    3: _group_epoch,
    4: lambda *_: [],
    5: _member,
    6: _target_epoch,
    7: _target,
    8: _current,
    10: _share_member,
    11: _group_epoch,
    12: _target_epoch,
    13: _target,
    14: _share_current,
    15: _state_partitions,
    16: _regex,
}


def show_events(names: Names, events: Iterable[Event]) -> list[str]:
    """One line: kind, member, epoch of each."""
    shown = []
    for event in events:
        parts = [event.kind.value]
        if event.member_id:
            parts.append(names.alias(event.member_id))
        if event.epoch != -1:
            parts.append(str(event.epoch))
        shown.append(" ".join(parts))
    return ["events: " + ", ".join(shown)] if shown else []
