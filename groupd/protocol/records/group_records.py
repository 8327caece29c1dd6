"""Values of the records of groups, types 2-8 and 16 (docs/spec/offsets-and-log.md#5.1).

A tagged field that has its default is not written. Unknown tags are ignored (KIP-915), so a log
that a newer version has written stays readable.
"""

from __future__ import annotations

from msgspec.structs import replace

from groupd.protocol.records.schema import (
    AssignedTopic,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegexValue,
    ConsumerGroupTargetMemberValue,
    ConsumerGroupTargetMetadataValue,
    GroupMetadataMember,
    GroupMetadataValue,
    OwnedTopic,
)
from groupd.protocol.records.versioned import TOPIC_ID, VersionedValue
from groupd.protocol.schema import Codec, absent, converted, sized, struct

# v1 adds the rebalance timeout, v2 the current state timestamp, v3 the group instance id; v4 is
# flexible.
GROUP_METADATA = VersionedValue(
    struct(
        GroupMetadataValue,
        "protocol_type:string generation:int32 protocol:string? leader:string? "
        "current_state_timestamp_ms:int64@2+ members:[]member",
        member=struct(
            GroupMetadataMember,
            "member_id:string group_instance_id:string?@3+ client_id:string client_host:string "
            "rebalance_timeout_ms:none@0 rebalance_timeout_ms:int32@1+ session_timeout_ms:int32 "
            "subscription:bytes assignment:bytes",
            none=absent(-1),
        ),
    ),
    read=range(5),
    written=3,
    flexible_from=4,
)
CONSUMER_GROUP_METADATA = VersionedValue(
    struct(ConsumerGroupMetadataValue, "epoch:int32 metadata_hash:int64#0")
)
# Only tests write such values: since KIP-1101 only the tombstone of such a key is written.
PARTITION_METADATA = VersionedValue(
    struct(
        ConsumerGroupPartitionMetadataValue,
        "raw:rest",
        rest=Codec(
            lambda code: "r.take(len(r.data) - r.at)",
            lambda code, value: f"w.buffer += {value}",
            lambda *_: 0,
        ),
    ),
    flexible_from=1,
)
MEMBER_METADATA = VersionedValue(
    struct(
        ConsumerGroupMemberMetadataValue,
        "instance_id:string? rack_id:string? client_id:string client_host:string "
        "subscribed_topic_names:[]string subscribed_topic_regex:string? "
        "rebalance_timeout_ms:int32 server_assignor:string? classic:classic?#0",
        classic=struct(
            ClassicMemberMetadata,
            "session_timeout_ms:int32 supported_protocols:[]protocol",
            protocol=struct(ClassicProtocol, "name:string metadata:bytes"),
        ),
    )
)
TARGET_METADATA = VersionedValue(
    struct(
        ConsumerGroupTargetMetadataValue, "assignment_epoch:int32 assignment_timestamp_ms:int64#0"
    )
)
TARGET_MEMBER = VersionedValue(
    struct(
        ConsumerGroupTargetMemberValue,
        "topics:[]topic",
        topic=struct(AssignedTopic, "topic_id:id partitions:[]int32", id=TOPIC_ID),
    )
)


def _with_matching_epochs(topic: OwnedTopic) -> OwnedTopic:
    """If there are not as many epochs as partitions, they cannot be matched: then there are
    none."""
    epochs = topic.assignment_epochs
    if epochs is None or len(epochs) == len(topic.partitions):
        return topic
    return replace(topic, assignment_epochs=None)


CURRENT_MEMBER = VersionedValue(
    struct(
        ConsumerGroupCurrentMemberValue,
        "member_epoch:int32 previous_member_epoch:int32 state:int8 assigned:[]topic "
        "pending_revocation:[]topic",
        topic=converted(
            struct(
                OwnedTopic,
                "topic_id:id partitions:[]int32 assignment_epochs:epochs#0",
                id=TOPIC_ID,
                epochs=sized("nullable_int32_array", "int32_array", (4, 1), None),
            ),
            read=_with_matching_epochs,
        ),
    )
)
REGEX = VersionedValue(
    struct(ConsumerGroupRegexValue, "topics:[]string version:int64 timestamp_ms:int64")
)
