"""Values of the records of share groups, types 10-15 (docs/spec/share-group.md#2.1)."""

from __future__ import annotations

from groupd.protocol.records.schema import (
    AssignedTopic,
    ShareGroupCurrentMemberValue,
    ShareGroupMemberMetadataValue,
    ShareGroupMetadataValue,
    ShareGroupStatePartitionsValue,
    ShareGroupTargetMemberValue,
    ShareGroupTargetMetadataValue,
    ShareStatePartitions,
)
from groupd.protocol.records.versioned import TOPIC_ID, VersionedValue
from groupd.protocol.schema import struct

_TOPIC = struct(AssignedTopic, "topic_id:id partitions:[]int32", id=TOPIC_ID)

MEMBER_METADATA = VersionedValue(
    struct(
        ShareGroupMemberMetadataValue,
        "rack_id:string? client_id:string client_host:string subscribed_topic_names:[]string",
    )
)
METADATA = VersionedValue(struct(ShareGroupMetadataValue, "epoch:int32 metadata_hash:int64"))
TARGET_METADATA = VersionedValue(
    struct(ShareGroupTargetMetadataValue, "assignment_epoch:int32 assignment_timestamp_ms:int64#0")
)
TARGET_MEMBER = VersionedValue(struct(ShareGroupTargetMemberValue, "topics:[]topic", topic=_TOPIC))
CURRENT_MEMBER = VersionedValue(
    struct(
        ShareGroupCurrentMemberValue,
        "member_epoch:int32 previous_member_epoch:int32 state:int8 assigned:[]topic",
        topic=_TOPIC,
    )
)
STATE_PARTITIONS = VersionedValue(
    struct(
        ShareGroupStatePartitionsValue,
        "initializing:[]topic initialized:[]topic deleting:[]deleting",
        topic=struct(
            ShareStatePartitions, "topic_id:id topic_name:string partitions:[]int32", id=TOPIC_ID
        ),
        deleting=struct(tuple, "0:id 1:string", id=TOPIC_ID),
    )
)
