"""Groups: their coordinators, the classic protocol without its heartbeats, and the requests of
administrators."""

from __future__ import annotations

from groupd.protocol.messages.classic_group import (
    JoinGroupMember,
    JoinGroupReply,
    JoinGroupRequest,
    JoinProtocol,
    LeaveGroupReply,
    LeaveGroupRequest,
    LeavingMember,
    LeftMember,
    SyncAssignment,
    SyncGroupReply,
    SyncGroupRequest,
)
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupDescribeReply,
    ConsumerGroupDescribeRequest,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    NamedTopicPartitions,
)
from groupd.protocol.messages.groups import (
    DeletedGroup,
    DeleteGroupsReply,
    DeleteGroupsRequest,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsReply,
    DescribeGroupsRequest,
    FindCoordinatorReply,
    FindCoordinatorRequest,
    FoundCoordinator,
    ListedGroup,
    ListGroupsReply,
    ListGroupsRequest,
)
from groupd.protocol.schema import absent, converted, lone, of_whole, struct
from groupd.protocol.wire.registry import api, code_only, on_each

# v1 adds the key type, throttle time and the error message, v3 is flexible, v4 asks for many keys
# (KIP-699), v5 allows TRANSACTION_ABORTABLE, v6 share groups.
FIND_COORDINATOR = api(
    10,
    "0-6",
    "3+",
    struct(
        FindCoordinatorRequest,
        "keys:only@0-3 key_type:int8@1+ keys:[]string@4+",
        only=lone("string"),
    ),
    struct(
        FindCoordinatorReply,
        "throttle@1+ coordinators:only@0-3 coordinators:[]found@4+",
        only=lone(
            struct(
                FoundCoordinator,
                "key:unnamed error:error error_message:string?@1+ node_id:int32 host:string "
                "port:int32",
                unnamed=absent(""),
            )
        ),
        found=struct(
            FoundCoordinator,
            "key:string node_id:int32 host:string port:int32 error:error error_message:string?",
        ),
    ),
    on_each(
        FindCoordinatorReply,
        "keys",
        lambda key, code, message: FoundCoordinator(key, error=code, error_message=message),
    ),
)

# v1 adds the rebalance timeout, v2 throttle time, v4 the round trip for a member id (KIP-394), v5
# the instance id, v6 is flexible, v7 adds the protocol type to the reply and allows a null protocol
# name, v8 the reason, v9 skip_assignment. The reply of a failure has the member id "". A handler
# that must repeat the member id makes the reply itself.
JOIN_GROUP = api(
    11,
    "0-9",
    "6+",
    struct(
        JoinGroupRequest,
        "group_id:string session_timeout_ms+rebalance_timeout_ms:int32@0 "
        "session_timeout_ms:int32@1+ rebalance_timeout_ms:int32@1+ member_id:string "
        "group_instance_id:string?@5+ protocol_type:string protocols:[]protocol reason:string?@8+",
        protocol=struct(JoinProtocol, "name:string metadata:bytes"),
    ),
    struct(
        JoinGroupReply,
        "throttle@2+ error:error generation_id:int32 protocol_type:string?@7+ "
        "protocol_name:unless_null@0-6 protocol_name:string?@7+ leader:string "
        "skip_assignment:bool@9+ member_id:string members:[]member",
        unless_null=converted("string", write=lambda name: name or ""),
        member=struct(
            JoinGroupMember, "member_id:string group_instance_id:string?@5+ metadata:bytes"
        ),
    ),
    code_only(JoinGroupReply),
)

# v1 adds throttle time, v3 many members with instance ids, v4 is flexible, v5 adds the reason
# (KIP-800). v0-2 name one member and give its error at the top.
LEAVE_GROUP = api(
    13,
    "0-5",
    "4+",
    struct(
        LeaveGroupRequest,
        "group_id:string members:only@0-2 members:[]member@3+",
        only=lone(struct(LeavingMember, "member_id:string")),
        member=struct(
            LeavingMember, "member_id:string group_instance_id:string? reason:string?@5+"
        ),
    ),
    struct(
        LeaveGroupReply,
        "throttle@1+ error:of_only@0-2 error:error@3+ members:[]member@3+",
        of_only=of_whole(
            "error",
            lambda reply: (
                reply.members[0].error if not reply.error and reply.members else reply.error
            ),
        ),
        member=struct(LeftMember, "member_id:string group_instance_id:string? error:error"),
    ),
    code_only(LeaveGroupReply),
)

# v1 adds throttle time, v3 the instance id, v4 is flexible, v5 adds protocol type and name on both
# sides (KIP-559).
SYNC_GROUP = api(
    14,
    "0-5",
    "4+",
    struct(
        SyncGroupRequest,
        "group_id:string generation_id:int32 member_id:string group_instance_id:string?@3+ "
        "protocol_type:string?@5+ protocol_name:string?@5+ assignments:[]assignment",
        assignment=struct(SyncAssignment, "member_id:string assignment:bytes"),
    ),
    struct(
        SyncGroupReply,
        "throttle@1+ error:error protocol_type:string?@5+ protocol_name:string?@5+ "
        "assignment:bytes",
    ),
    code_only(SyncGroupReply),
)

# v1 adds throttle time, v3 the authorized operations, v4 the instance id, v5 is flexible, v6 adds
# the error message.
DESCRIBE_GROUPS = api(
    15,
    "0-6",
    "5+",
    struct(DescribeGroupsRequest, "groups:[]string include_authorized_operations:bool@3+"),
    struct(
        DescribeGroupsReply,
        "throttle@1+ groups:[]group",
        group=struct(
            DescribedGroup,
            "error:error error_message:string?@6+ group_id:string state:string "
            "protocol_type:string protocol_data:string members:[]member "
            "authorized_operations:int32@3+",
            member=struct(
                DescribedMember,
                "member_id:string group_instance_id:string?@4+ client_id:string "
                "client_host:string metadata:bytes assignment:bytes",
            ),
        ),
    ),
    on_each(DescribeGroupsReply, "groups", DescribedGroup),
)

# v1 adds throttle time, v3 is flexible, v4 adds the states filter and the state (KIP-518), v5 the
# types filter and the group type (KIP-848).
LIST_GROUPS = api(
    16,
    "0-5",
    "3+",
    struct(ListGroupsRequest, "states_filter:[]string@4+ types_filter:[]string@5+"),
    struct(
        ListGroupsReply,
        "throttle@1+ error:error groups:[]group",
        group=struct(
            ListedGroup,
            "group_id:string protocol_type:string state:string@4+ group_type:string@5+",
        ),
    ),
    code_only(ListGroupsReply),
)

# v2 is flexible, v3 adds an error message per group (KIP-1331). A failure has no message, as in
# Kafka.
DELETE_GROUPS = api(
    42,
    "0-3",
    "2+",
    struct(DeleteGroupsRequest, "group_ids:[]string"),
    struct(
        DeleteGroupsReply,
        "throttle results:[]result",
        result=struct(DeletedGroup, "group_id:string error:error error_message:string?@3+"),
    ),
    on_each(DeleteGroupsReply, "group_ids", lambda group_id, code, _: DeletedGroup(group_id, code)),
)

_OWNED = struct(
    None,
    "topics:[]topic",
    topic=struct(NamedTopicPartitions, "topic_id:uuid topic_name:string partitions:[]int32"),
)

# Always flexible (KIP-848). v1 adds the member type (KIP-1099).
CONSUMER_GROUP_DESCRIBE = api(
    69,
    "0-1",
    "0+",
    struct(ConsumerGroupDescribeRequest, "group_ids:[]string include_authorized_operations:bool"),
    struct(
        ConsumerGroupDescribeReply,
        "throttle groups:[]group",
        group=struct(
            DescribedConsumerGroup,
            "error:error error_message:string? group_id:string state:string group_epoch:int32 "
            "assignment_epoch:int32 assignor_name:string members:[]member "
            "authorized_operations:int32",
            member=struct(
                DescribedConsumerMember,
                "member_id:string instance_id:string? rack_id:string? member_epoch:int32 "
                "client_id:string client_host:string subscribed_topic_names:[]string "
                "subscribed_topic_regex:string? assignment:owned target_assignment:owned "
                "member_type:int8@1+",
                owned=_OWNED,
            ),
        ),
    ),
    on_each(ConsumerGroupDescribeReply, "group_ids", DescribedConsumerGroup),
)
