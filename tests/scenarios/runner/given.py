"""Records that a scenario puts into the log by hand: states that no request leads to."""

from __future__ import annotations

from groupd.protocol.records.schema import (
    AssignedTopic,
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMemberValue,
    ConsumerGroupTargetMetadataKey,
    ConsumerGroupTargetMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OwnedTopic,
    Record,
)
from tests.scenarios.runner.backend import Names
from tests.scenarios.runner.command import list_items, partitions_of


def by_id(names: Names, text: str) -> dict[bytes, tuple[int, ...]]:
    return {names.topic_id(topic): tuple(numbers) for topic, numbers in partitions_of(text).items()}


def record(names: Names, words: list[str]) -> Record:
    """`R8 m1 epoch=10 prev=9 state=0 assigned={foo:0-2} pending={}`, `R5 m1 names=[foo]`,
    `R1 foo-0 offset=5 id=foo` (another word: an id that is nobody's), `R3 epoch=10`, `R4`,
    `R6 epoch=10`, `R7 m1 target={foo:0}`; all of group g."""
    kind = words[0]
    values = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    member = next((names.member(word) for word in words[1:] if "=" not in word), "")
    epoch = int(values.get("epoch", "0"))
    if kind == "R1":
        topic, _, partition = member.rpartition("-")
        topic_id = names.topic_id(values["id"]) if "id" in values else bytes(16)
        return Record(
            OffsetCommitKey("g", topic, int(partition)),
            OffsetCommitValue(int(values["offset"]), topic_id=topic_id),
        )
    if kind == "R3":
        return Record(ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(epoch))
    if kind == "R4":
        return Record(ConsumerGroupPartitionMetadataKey("g"), ConsumerGroupPartitionMetadataValue())
    if kind == "R6":
        return Record(ConsumerGroupTargetMetadataKey("g"), ConsumerGroupTargetMetadataValue(epoch))
    if kind == "R7":
        topics = tuple(AssignedTopic(*item) for item in by_id(names, values["target"]).items())
        return Record(
            ConsumerGroupTargetMemberKey("g", member), ConsumerGroupTargetMemberValue(topics)
        )
    if kind == "R5":
        value = ConsumerGroupMemberMetadataValue(
            values.get("instance"),
            None,
            member,
            "/127.0.0.1",
            tuple(list_items(values.get("names", "[]"))),
            values.get("regex", ""),
            60_000,
        )
        return Record(ConsumerGroupMemberMetadataKey("g", member), value)
    assert kind == "R8", kind
    owned, pending = (
        tuple(OwnedTopic(*item) for item in by_id(names, values.get(name, "{}")).items())
        for name in ("assigned", "pending")
    )
    state, previous = int(values.get("state", "0")), int(values.get("prev", epoch))
    return Record(
        ConsumerGroupCurrentMemberKey("g", member),
        ConsumerGroupCurrentMemberValue(epoch, previous, state, owned, pending),
    )
