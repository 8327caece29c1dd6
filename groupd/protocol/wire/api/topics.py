"""Topics and their partitions: create them, delete them, and ask for their offsets. Their records
go through `produce` and `fetch`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.cluster import (
    DescribeTopicPartitionsReply,
    DescribeTopicPartitionsRequest,
    PartitionRun,
    TopicInfo,
)
from groupd.protocol.messages.data import (
    DeletedRecords,
    DeletedRecordsTopic,
    DeleteRecordsReply,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    EpochEndOffset,
    EpochEndTopic,
    LeaderEpochPartition,
    LeaderEpochTopic,
    ListedOffset,
    ListedOffsetsTopic,
    ListOffsetsPartition,
    ListOffsetsReply,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochReply,
    OffsetForLeaderEpochRequest,
)
from groupd.protocol.messages.lazily import Lazily
from groupd.protocol.messages.topics import (
    ConfigValue,
    CreatedTopic,
    CreatePartitionsReply,
    CreatePartitionsRequest,
    CreatePartitionsResult,
    CreateTopicsReply,
    CreateTopicsRequest,
    DeletedTopic,
    DeleteTopicsReply,
    DeleteTopicsRequest,
    GrownTopic,
    NewTopic,
)
from groupd.protocol.schema import array, converted, struct
from groupd.protocol.wire.registry import api, on_each, on_partitions

# v2 adds the isolation level and throttle time, v4 the leader epoch, v6 is flexible, v10 adds the
# timeout. v7, v8, v9 and v11 only define more negative timestamps (-3 max timestamp, -4 earliest
# local, -5 latest tiered, -6 earliest pending upload).
LIST_OFFSETS = api(
    2,
    "1-11",
    "6+",
    struct(
        ListOffsetsRequest,
        "replica_id:int32 isolation_level:int8@2+ topics:[]topic timeout_ms:int32@10+",
        topic=struct(
            ListOffsetsTopic,
            "name:string partitions:[]partition",
            partition=struct(
                ListOffsetsPartition,
                "partition:int32 current_leader_epoch:int32@4+ timestamp_ms:int64",
            ),
        ),
    ),
    struct(
        ListOffsetsReply,
        "throttle@2+ topics:[]topic",
        topic=struct(
            ListedOffsetsTopic,
            "name:string partitions:[]partition",
            partition=struct(
                ListedOffset,
                "partition:int32 error:error timestamp_ms:int64 offset:int64 leader_epoch:int32@4+",
            ),
        ),
    ),
    on_partitions(
        ListOffsetsReply,
        ListedOffsetsTopic,
        lambda asked, code, _: ListedOffset(asked.partition, code),
    ),
)

# v3 adds the replica id, v4 is flexible.
OFFSET_FOR_LEADER_EPOCH = api(
    23,
    "2-4",
    "4+",
    struct(
        OffsetForLeaderEpochRequest,
        "replica_id:int32@3+ topics:[]topic",
        topic=struct(
            LeaderEpochTopic,
            "name:string partitions:[]partition",
            partition=struct(
                LeaderEpochPartition,
                "partition:int32 current_leader_epoch:int32 leader_epoch:int32",
            ),
        ),
    ),
    struct(
        OffsetForLeaderEpochReply,
        "throttle topics:[]topic",
        topic=struct(
            EpochEndTopic,
            "name:string partitions:[]partition",
            partition=struct(
                EpochEndOffset, "error:error partition:int32 leader_epoch:int32 end_offset:int64"
            ),
        ),
    ),
    on_partitions(
        OffsetForLeaderEpochReply,
        EpochEndTopic,
        lambda asked, code, _: EpochEndOffset(asked.partition, code),
    ),
)

# v1 only changes throttling, v2 is flexible.
DELETE_RECORDS = api(
    21,
    "0-2",
    "2+",
    struct(
        DeleteRecordsRequest,
        "topics:[]topic timeout_ms:int32",
        topic=struct(
            DeleteRecordsTopic,
            "name:string partitions:[]partition",
            partition=struct(tuple, "0:int32 1:int64"),
        ),
    ),
    struct(
        DeleteRecordsReply,
        "throttle topics:[]topic",
        topic=struct(
            DeletedRecordsTopic,
            "name:string partitions:[]partition",
            partition=struct(DeletedRecords, "partition:int32 low_watermark:int64 error:error"),
        ),
    ),
    on_partitions(
        DeleteRecordsReply,
        DeletedRecordsTopic,
        lambda asked, code, _: DeletedRecords(asked[0], error=code),
    ),
)

# v4 lets partitions and replication factor be -1, v5 is flexible and adds partitions, replication
# factor and configs to the reply, v6 only adds an error code, v7 the topic id. The configs of the
# reply are nullable, but Java's Admin client fails on null, so they are always written.
CREATE_TOPICS = api(
    19,
    "2-7",
    "5+",
    struct(
        CreateTopicsRequest,
        "topics:[]topic timeout_ms:int32 validate_only:bool",
        topic=struct(
            NewTopic,
            "name:string partitions:int32 replication_factor:int16 assignments:[]assignment "
            "configs:[]config",
            assignment=struct(tuple, "0:int32 1:[]int32"),
            config=struct(tuple, "0:string 1:string?"),
        ),
    ),
    struct(
        CreateTopicsReply,
        "throttle topics:[]topic",
        topic=struct(
            CreatedTopic,
            "name:string topic_id:uuid@7+ error:error error_message:string? partitions:int32@5+ "
            "replication_factor:int16@5+ configs:configs@5+ config_error:error@5+#0",
            configs=converted(
                array(
                    struct(
                        ConfigValue,
                        "name:string value:string? read_only:bool source:int8 sensitive:bool",
                    ),
                    nullable=True,
                ),
                read=lambda configs: configs or (),
            ),
        ),
    ),
    on_each(
        CreateTopicsReply,
        "topics",
        lambda topic, code, message: CreatedTopic(topic.name, error=code, error_message=message),
    ),
)

_NAME_OR_ID = struct(tuple, "0:string? 1:uuid")

# v4 is flexible, v5 adds the error message, v6 gives topics by name or id.
DELETE_TOPICS = api(
    20,
    "1-6",
    "4+",
    struct(
        DeleteTopicsRequest,
        "topics:names@0-5 topics:[]topic@6+ timeout_ms:int32",
        names=converted(
            array("string"),
            read=lambda names: tuple([(name, NO_TOPIC_ID) for name in names]),
            write=lambda topics: [name for name, _ in topics],
        ),
        topic=_NAME_OR_ID,
    ),
    struct(
        DeleteTopicsReply,
        "throttle topics:[]topic",
        topic=struct(
            DeletedTopic,
            "name:unless_null@0-5 name:string?@6+ topic_id:uuid@6+ error:error "
            "error_message:string?@5+",
            unless_null=converted("string", write=lambda name: name or ""),
        ),
    ),
    on_each(
        DeleteTopicsReply,
        "topics",
        lambda key, code, message: DeletedTopic(key[0], key[1], code, message),
    ),
)

# v1 changes throttling, v3 only adds an error code; v2 is flexible.
CREATE_PARTITIONS = api(
    37,
    "0-3",
    "2+",
    struct(
        CreatePartitionsRequest,
        "topics:[]topic timeout_ms:int32 validate_only:bool",
        topic=struct(
            GrownTopic,
            "name:string count:int32 assignments:[]assignment?",
            assignment=struct(None, "nodes:[]int32"),
        ),
    ),
    struct(
        CreatePartitionsReply,
        "throttle results:[]result",
        result=struct(CreatePartitionsResult, "name:string error:error error_message:string?"),
    ),
    on_each(
        CreatePartitionsReply,
        "topics",
        lambda topic, code, message: CreatePartitionsResult(topic.name, code, message),
    ),
)


def each_partition(runs: Sequence[PartitionRun]) -> Sequence[PartitionRun]:
    """Splits runs into runs of one partition each."""

    def each() -> Iterator[PartitionRun]:
        for run in runs:
            for number in range(run.first, run.end):
                yield replace(run, first=number, end=number + 1)

    return Lazily(sum([run.end - run.first for run in runs]), each)


def single_partitions(runs: Sequence[PartitionRun]) -> tuple[PartitionRun, ...]:
    """Returns the runs with `end` set: only `first` was read, and each is one partition."""
    return tuple([replace(run, end=run.first + 1) for run in runs])


# Always flexible (KIP-966). Eligible leader replicas only exist in a replicated log. Both arrays of
# them are empty, never null, as in a Kafka cluster in which the feature is switched off.
DESCRIBE_TOPIC_PARTITIONS = api(
    75,
    "0",
    "0+",
    struct(
        DescribeTopicPartitionsRequest,
        "topics:[]topic response_partition_limit:int32 cursor:cursor?",
        topic=struct(None, "name:string"),
        cursor=struct(tuple, "0:string 1:int32"),
    ),
    struct(
        DescribeTopicPartitionsReply,
        "throttle topics:[]topic next_cursor:cursor?",
        topic=struct(
            TopicInfo,
            "error:error name:string? topic_id:uuid internal:bool partitions:partitions "
            "authorized_operations:int32",
            partitions=converted(
                array(
                    struct(
                        PartitionRun,
                        "error:error first+end:int32 leader:int32 leader_epoch:int32 "
                        "replicas:[]int32 isr:[]int32 -:[]int32? -:[]int32? offline:[]int32",
                    )
                ),
                read=single_partitions,
                write=each_partition,
            ),
        ),
        cursor=struct(tuple, "0:string 1:int32"),
    ),
    on_each(
        DescribeTopicPartitionsReply, "topics", lambda name, code, _: TopicInfo(name, error=code)
    ),
)
