"""The storage of replicas, and leaders. A partition has one replica, so most requests that change
something are refused (`groupd.coordinator.topics.replicas`)."""

from __future__ import annotations

from itertools import chain

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.replicas import (
    AlterPartitionReassignmentsReply,
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsReply,
    AlterReplicaLogDirsRequest,
    DescribeLogDirsReply,
    DescribeLogDirsRequest,
    ElectLeadersReply,
    ElectLeadersRequest,
    ListPartitionReassignmentsReply,
    ListPartitionReassignmentsRequest,
    LogDir,
    PartitionOutcome,
    ReassignedTopic,
    TopicOutcomes,
)
from groupd.protocol.schema import struct
from groupd.protocol.wire.registry import api, code_and_message, code_only

_PARTITIONS = struct(tuple, "0:string 1:[]int32")
_OUTCOMES = struct(
    TopicOutcomes,
    "name:string partitions:[]partition",
    partition=struct(PartitionOutcome, "partition:int32 error:error error_message:string?"),
)


def _alter_log_dirs_failure(
    request: AlterReplicaLogDirsRequest, code: ErrorCode, _: str | None
) -> AlterReplicaLogDirsReply:
    asked = list(chain.from_iterable([topics for _, topics in request.dirs]))
    return AlterReplicaLogDirsReply(
        mapped(lambda topic: (topic[0], mapped(lambda item: (item, code), topic[1])), asked)
    )


# v2 is flexible.
ALTER_REPLICA_LOG_DIRS = api(
    34,
    "1-2",
    "2+",
    struct(
        AlterReplicaLogDirsRequest,
        "dirs:[]dir",
        dir=struct(tuple, "0:string 1:[]topic", topic=_PARTITIONS),
    ),
    struct(
        AlterReplicaLogDirsReply,
        "throttle topics:[]topic",
        topic=struct(tuple, "0:string 1:[]partition", partition=struct(tuple, "0:int32 1:error")),
    ),
    _alter_log_dirs_failure,
)

# v2 is flexible, v3 adds an error of the whole request, v4 the size of the volume, v5 whether new
# partitions may be placed there (KIP-1066): always true here. A replica is never behind.
DESCRIBE_LOG_DIRS = api(
    35,
    "1-5",
    "2+",
    struct(DescribeLogDirsRequest, "topics:[]topic?", topic=_PARTITIONS),
    struct(
        DescribeLogDirsReply,
        "throttle error:error@3+ log_dirs:[]dir",
        dir=struct(
            LogDir,
            "error:error path:string topics:[]topic total_bytes:int64@4+ usable_bytes:int64@4+ "
            "-:bool@5+",
            topic=struct(
                tuple,
                "0:string 1:[]partition",
                partition=struct(tuple, "0:int32 1:int64 -:int64 -:bool"),
            ),
        ),
    ),
    code_only(DescribeLogDirsReply),
)


def _elect_failure(
    request: ElectLeadersRequest, code: ErrorCode, message: str | None
) -> ElectLeadersReply:
    def topic(asked: tuple[str, tuple[int, ...]]) -> TopicOutcomes:
        partitions = mapped(lambda item: PartitionOutcome(item, code, message), asked[1])
        return TopicOutcomes(asked[0], partitions)

    return ElectLeadersReply(code, mapped(topic, request.topics or ()))


# v1 adds the type of election (KIP-460), v2 is flexible.
ELECT_LEADERS = api(
    43,
    "0-2",
    "2+",
    struct(
        ElectLeadersRequest,
        "election_type:int8@1+ topics:[]topic? timeout_ms:int32",
        topic=_PARTITIONS,
    ),
    struct(ElectLeadersReply, "throttle error:error@1+ topics:[]topic", topic=_OUTCOMES),
    _elect_failure,
)


def _reassign_failure(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsReply:
    def topic(asked: ReassignedTopic) -> TopicOutcomes:
        partitions = mapped(lambda item: PartitionOutcome(item[0], code, message), asked.partitions)
        return TopicOutcomes(asked.name, partitions)

    return AlterPartitionReassignmentsReply(
        request.allow_replication_factor_change, code, message, mapped(topic, request.topics)
    )


# Always flexible. v1 says whether the number of replicas may change (KIP-860).
ALTER_PARTITION_REASSIGNMENTS = api(
    45,
    "0-1",
    "0+",
    struct(
        AlterPartitionReassignmentsRequest,
        "timeout_ms:int32 allow_replication_factor_change:bool@1+ topics:[]topic",
        topic=struct(
            ReassignedTopic,
            "name:string partitions:[]partition",
            partition=struct(tuple, "0:int32 1:[]int32?"),
        ),
    ),
    struct(
        AlterPartitionReassignmentsReply,
        "throttle allow_replication_factor_change:bool@1+ error:error error_message:string? "
        "topics:[]topic",
        topic=_OUTCOMES,
    ),
    _reassign_failure,
)

# Always flexible. The list is empty: groupd moves no replicas.
LIST_PARTITION_REASSIGNMENTS = api(
    46,
    "0",
    "0+",
    struct(
        ListPartitionReassignmentsRequest, "timeout_ms:int32 topics:[]topic?", topic=_PARTITIONS
    ),
    struct(
        ListPartitionReassignmentsReply,
        "throttle error:error error_message:string? -:[]topic",
        topic=_PARTITIONS,
    ),
    code_and_message(ListPartitionReassignmentsReply),
)
