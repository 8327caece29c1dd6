"""ShareFetch (78) and ShareAcknowledge (79) (KIP-932), v1-2, always flexible.

v2 adds renewals (KIP-1222) and the acquire mode (KIP-1206). The types of an acknowledgement are an
array of int8, which is written like bytes.
"""

from __future__ import annotations

from groupd.protocol.messages.share_fetch import (
    AcknowledgedPartition,
    AcknowledgedTopic,
    AcknowledgementBatch,
    AcquiredRecords,
    ForgottenShareTopic,
    ShareAcknowledgeReply,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResult,
    ShareAcknowledgeResults,
    ShareFetchedPartition,
    ShareFetchedTopic,
    ShareFetchReply,
    ShareFetchRequest,
)
from groupd.protocol.schema import converted, struct
from groupd.protocol.wire.api.produce import ENDPOINT, LEADER
from groupd.protocol.wire.registry import api, code_and_message

_TOPIC = struct(
    AcknowledgedTopic,
    "topic_id:uuid partitions:[]partition",
    partition=struct(
        AcknowledgedPartition,
        "partition:int32 batches:[]batch",
        batch=struct(AcknowledgementBatch, "first_offset:int64 last_offset:int64 types:bytes"),
    ),
)

SHARE_FETCH = api(
    78,
    "1-2",
    "0+",
    struct(
        ShareFetchRequest,
        "group_id:string? member_id:string? session_epoch:int32 max_wait_ms:int32 "
        "min_bytes:int32 max_bytes:int32 max_records:int32 batch_size:int32 "
        "acquire_mode:int8@2+ is_renew_ack:bool@2+ topics:[]topic forgotten:[]forgotten",
        topic=_TOPIC,
        forgotten=struct(ForgottenShareTopic, "topic_id:uuid partitions:[]int32"),
    ),
    struct(
        ShareFetchReply,
        "throttle error:error error_message:string? lock_timeout_ms:int32 topics:[]topic "
        "node_endpoints:[]node",
        topic=struct(
            ShareFetchedTopic,
            "topic_id:uuid partitions:[]partition",
            partition=struct(
                ShareFetchedPartition,
                "partition:int32 error:error error_message:string? acknowledge_error:error "
                "acknowledge_error_message:string? current_leader:leader records:records "
                "acquired:[]acquired",
                leader=LEADER,
                records=converted("records", read=lambda records: records or b""),
                acquired=struct(
                    AcquiredRecords, "first_offset:int64 last_offset:int64 delivery_count:int16"
                ),
            ),
        ),
        node=ENDPOINT,
    ),
    code_and_message(ShareFetchReply),
)

SHARE_ACKNOWLEDGE = api(
    79,
    "1-2",
    "0+",
    struct(
        ShareAcknowledgeRequest,
        "group_id:string? member_id:string? session_epoch:int32 is_renew_ack:bool@2+ "
        "topics:[]topic",
        topic=_TOPIC,
    ),
    struct(
        ShareAcknowledgeReply,
        "throttle error:error error_message:string? lock_timeout_ms:int32@2+ topics:[]topic "
        "node_endpoints:[]node",
        topic=struct(
            ShareAcknowledgeResults,
            "topic_id:uuid partitions:[]partition",
            partition=struct(
                ShareAcknowledgeResult,
                "partition:int32 error:error error_message:string? current_leader:leader",
                leader=LEADER,
            ),
        ),
        node=ENDPOINT,
    ),
    code_and_message(ShareAcknowledgeReply),
)
