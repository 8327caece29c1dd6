"""Share groups (KIP-932), always flexible: their heartbeats, and the requests of administrators.
Version 0 of 76 and 77 was Kafka's early access and no longer exists."""

from __future__ import annotations

from groupd.protocol.messages.consumer_group import NamedTopicPartitions, TopicPartitions
from groupd.protocol.messages.share_group import (
    AlteredShareOffsets,
    AlteredShareTopic,
    AlterShareGroupOffsetsReply,
    AlterShareGroupOffsetsRequest,
    DeletedShareOffsets,
    DeleteShareGroupOffsetsReply,
    DeleteShareGroupOffsetsRequest,
    DescribedShareGroup,
    DescribedShareMember,
    DescribedShareOffset,
    DescribedShareOffsets,
    DescribedShareOffsetsGroup,
    DescribeShareGroupOffsetsReply,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeReply,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatReply,
    ShareGroupHeartbeatRequest,
    ShareOffsetResult,
    ShareOffsetsGroup,
    ShareOffsetsTopic,
)
from groupd.protocol.schema import struct
from groupd.protocol.wire.registry import OF_MEMBERS, api, code_and_message, on_each

SHARE_GROUP_HEARTBEAT = api(
    76,
    "1",
    "0+",
    struct(
        ShareGroupHeartbeatRequest,
        "group_id:string member_id:string member_epoch:int32 rack_id:string? "
        "subscribed_topic_names:[]string?",
    ),
    struct(
        ShareGroupHeartbeatReply,
        "throttle error:error error_message:string? member_id:string? member_epoch:int32 "
        "heartbeat_interval_ms:int32 assignment:assignment?",
        assignment=struct(
            None,
            "topics:[]topic",
            topic=struct(TopicPartitions, "topic_id:uuid partitions:[]int32"),
        ),
    ),
    code_and_message(ShareGroupHeartbeatReply),
    lane=OF_MEMBERS,
)

SHARE_GROUP_DESCRIBE = api(
    77,
    "1",
    "0+",
    struct(ShareGroupDescribeRequest, "group_ids:[]string include_authorized_operations:bool"),
    struct(
        ShareGroupDescribeReply,
        "throttle groups:[]group",
        group=struct(
            DescribedShareGroup,
            "error:error error_message:string? group_id:string state:string group_epoch:int32 "
            "assignment_epoch:int32 assignor_name:string members:[]member "
            "authorized_operations:int32",
            member=struct(
                DescribedShareMember,
                "member_id:string rack_id:string? member_epoch:int32 client_id:string "
                "client_host:string subscribed_topic_names:[]string assignment:assignment",
                assignment=struct(
                    None,
                    "topics:[]topic",
                    topic=struct(
                        NamedTopicPartitions,
                        "topic_id:uuid topic_name:string partitions:[]int32",
                    ),
                ),
            ),
        ),
    ),
    on_each(ShareGroupDescribeReply, "group_ids", DescribedShareGroup),
)

# v1 adds the lag (KIP-1226).
DESCRIBE_SHARE_GROUP_OFFSETS = api(
    90,
    "0-1",
    "0+",
    struct(
        DescribeShareGroupOffsetsRequest,
        "groups:[]group",
        group=struct(
            ShareOffsetsGroup,
            "group_id:string topics:[]topic?",
            topic=struct(ShareOffsetsTopic, "name:string partitions:[]int32"),
        ),
    ),
    struct(
        DescribeShareGroupOffsetsReply,
        "throttle groups:[]group",
        group=struct(
            DescribedShareOffsetsGroup,
            "group_id:string topics:[]topic error:error error_message:string?",
            topic=struct(
                DescribedShareOffsets,
                "name:string topic_id:uuid partitions:[]partition",
                partition=struct(
                    DescribedShareOffset,
                    "partition:int32 start_offset:int64 leader_epoch:int32 lag:int64@1+ "
                    "error:error error_message:string?",
                ),
            ),
        ),
    ),
    on_each(
        DescribeShareGroupOffsetsReply,
        "groups",
        lambda group, code, message: DescribedShareOffsetsGroup(
            group.group_id, error=code, error_message=message
        ),
    ),
)

ALTER_SHARE_GROUP_OFFSETS = api(
    91,
    "0",
    "0+",
    struct(
        AlterShareGroupOffsetsRequest,
        "group_id:string topics:[]topic",
        topic=struct(
            AlteredShareTopic,
            "name:string partitions:[]partition",
            partition=struct(tuple, "0:int32 1:int64"),
        ),
    ),
    struct(
        AlterShareGroupOffsetsReply,
        "throttle error:error error_message:string? topics:[]topic",
        topic=struct(
            AlteredShareOffsets,
            "name:string topic_id:uuid partitions:[]partition",
            partition=struct(
                ShareOffsetResult, "partition:int32 error:error error_message:string?"
            ),
        ),
    ),
    code_and_message(AlterShareGroupOffsetsReply),
)

DELETE_SHARE_GROUP_OFFSETS = api(
    92,
    "0",
    "0+",
    struct(
        DeleteShareGroupOffsetsRequest,
        "group_id:string topics:[]topic",
        topic=struct(None, "name:string"),
    ),
    struct(
        DeleteShareGroupOffsetsReply,
        "throttle error:error error_message:string? topics:[]topic",
        topic=struct(
            DeletedShareOffsets,
            "name:string topic_id:uuid error:error error_message:string?",
        ),
    ),
    code_and_message(DeleteShareGroupOffsetsReply),
)
