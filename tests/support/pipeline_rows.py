"""Rows of the pipeline's entries -> the records that they were decoded from, typed columns only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from groupd.pipeline.schema import VALUE_COLUMNS
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.records.schema import (
    AssignedTopic,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegexKey,
    ConsumerGroupRegexValue,
    ConsumerGroupTargetMemberKey,
    ConsumerGroupTargetMemberValue,
    ConsumerGroupTargetMetadataKey,
    ConsumerGroupTargetMetadataValue,
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    OwnedTopic,
    Record,
    RecordKey,
    RecordValue,
    ShareGroupCurrentMemberKey,
    ShareGroupCurrentMemberValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataKey,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionsKey,
    ShareGroupStatePartitionsValue,
    ShareGroupTargetMemberKey,
    ShareGroupTargetMemberValue,
    ShareGroupTargetMetadataKey,
    ShareGroupTargetMetadataValue,
    ShareStatePartitions,
)

Row = Mapping[str, Any]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def record_of_row(row: Row) -> Record:
    """The record of a row without an error; `key` and `value` are not looked at."""
    number = row["record_type_id"]
    struct = row[VALUE_COLUMNS[number]]
    value = None if row["tombstone"] else _VALUES[number](struct)
    return Record(_key(row, number, struct), value)


def _key(row: Row, number: int, struct: Row | None) -> RecordKey:
    group = row["group"]
    if number in (0, 1):
        return OffsetCommitKey(group, row["topic"], row["partition"])
    if number == 16:
        assert struct is not None
        return ConsumerGroupRegexKey(group, struct["regex"])
    kind = _KEYS[number]
    return kind(group, row["member"]) if row["member"] is not None else kind(group)


_KEYS: dict[int, Callable[..., RecordKey]] = {
    2: GroupMetadataKey,
    3: ConsumerGroupMetadataKey,
    5: ConsumerGroupMemberMetadataKey,
    6: ConsumerGroupTargetMetadataKey,
    7: ConsumerGroupTargetMemberKey,
    8: ConsumerGroupCurrentMemberKey,
    10: ShareGroupMemberMetadataKey,
    11: ShareGroupMetadataKey,
    12: ShareGroupTargetMetadataKey,
    13: ShareGroupTargetMemberKey,
    14: ShareGroupCurrentMemberKey,
    15: ShareGroupStatePartitionsKey,
}


def _ms(time: datetime | None, absent: int = -1) -> int:
    if time is None:
        return absent
    since = time - _EPOCH
    return (since.days * 86_400_000) + since.seconds * 1000 + since.microseconds // 1000


def _id(text: str | None) -> bytes:
    return NO_TOPIC_ID if text is None else UUID(text).bytes


def _commit(row: Row) -> RecordValue:
    return OffsetCommitValue(
        row["offset"],
        row["leader_epoch"],
        row["metadata"],
        _ms(row["commit_time"]),
        _ms(row["expire_time"]),
        _id(row["topic_id"]),
    )


def _classic_group(row: Row) -> RecordValue:
    return GroupMetadataValue(
        row["protocol_type"],
        row["generation"],
        row["protocol"],
        row["leader"],
        _ms(row["current_state_time"]),
        tuple(GroupMetadataMember(**member) for member in row["members"]),
    )


def _member(row: Row) -> RecordValue:
    classic = row["classic"]
    if classic is not None:
        protocols = tuple(ClassicProtocol(**one) for one in classic["supported_protocols"])
        classic = ClassicMemberMetadata(classic["session_timeout_ms"], protocols)
    names = tuple(row["subscribed_topic_names"])
    return ConsumerGroupMemberMetadataValue(
        **{**row, "classic": classic, "subscribed_topic_names": names}
    )


def _owned(rows: list[Row]) -> tuple[OwnedTopic, ...]:
    return tuple(
        OwnedTopic(
            _id(row["topic_id"]),
            tuple(row["partitions"]),
            None if row["assignment_epochs"] is None else tuple(row["assignment_epochs"]),
        )
        for row in rows
    )


def _current(row: Row) -> RecordValue:
    return ConsumerGroupCurrentMemberValue(
        row["member_epoch"],
        row["previous_member_epoch"],
        row["state"],
        _owned(row["assigned"]),
        _owned(row["pending_revocation"]),
    )


def _assigned(rows: list[Row]) -> tuple[AssignedTopic, ...]:
    return tuple(AssignedTopic(_id(one["topic_id"]), tuple(one["partitions"])) for one in rows)


def _share_member(row: Row) -> RecordValue:
    names = tuple(row["subscribed_topic_names"])
    return ShareGroupMemberMetadataValue(**{**row, "subscribed_topic_names": names})


def _share_current(row: Row) -> RecordValue:
    return ShareGroupCurrentMemberValue(**{**row, "assigned": _assigned(row["assigned"])})


def _share_partitions(row: Row) -> RecordValue:
    initializing, initialized = (
        tuple(
            ShareStatePartitions(_id(one["topic_id"]), one["topic_name"], tuple(one["partitions"]))
            for one in row[name]
        )
        for name in ("initializing", "initialized")
    )
    deleting = tuple((_id(one["topic_id"]), one["topic_name"]) for one in row["deleting"])
    return ShareGroupStatePartitionsValue(initializing, initialized, deleting)


def _target(row: Row) -> RecordValue:
    return ConsumerGroupTargetMetadataValue(
        row["assignment_epoch"], _ms(row["assignment_time"], absent=0)
    )


_VALUES: dict[int, Callable[[Row], RecordValue]] = {
    0: _commit,
    1: _commit,
    2: _classic_group,
    3: lambda row: ConsumerGroupMetadataValue(**row),
    5: _member,
    6: _target,
    7: lambda row: ConsumerGroupTargetMemberValue(_assigned(row["topics"])),
    8: _current,
    10: _share_member,
    11: lambda row: ShareGroupMetadataValue(**row),
    12: lambda row: ShareGroupTargetMetadataValue(
        row["assignment_epoch"], _ms(row["assignment_time"], absent=0)
    ),
    13: lambda row: ShareGroupTargetMemberValue(_assigned(row["topics"])),
    14: _share_current,
    15: _share_partitions,
    16: lambda row: ConsumerGroupRegexValue(tuple(row["topics"]), row["version"], _ms(row["time"])),
}
