"""The requests of brokers about the state of share-partitions (KIP-932), always flexible. Their
replies have no throttle time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import mapped
from groupd.protocol.messages.share_state import (
    AskedShareState,
    DeleteShareGroupStateRequest,
    InitializedShareState,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    ReadShareState,
    ShareStateBatch,
    ShareStateReply,
    ShareStateResult,
    ShareStateSummary,
    ShareStateTopic,
    WriteShareGroupStateRequest,
    WrittenShareState,
)
from groupd.protocol.schema import Shape, struct
from groupd.protocol.wire.registry import Api, Failure, api

_BATCH = struct(
    ShareStateBatch, "first_offset:int64 last_offset:int64 delivery_state:int8 delivery_count:int16"
)
_RESULT = struct(ShareStateResult, "partition:int32 error:error error_message:string?")


def _failure(failed: Callable[[int, ErrorCode, str | None], Any]) -> Failure:
    """The error is on every partition."""

    def topic(asked: ShareStateTopic, code: ErrorCode, message: str | None) -> ShareStateTopic:
        numbers = [one if isinstance(one, int) else one.partition for one in asked.partitions]
        return ShareStateTopic(
            asked.topic_id, mapped(lambda number: failed(number, code, message), numbers)
        )

    return lambda request, code, message: ShareStateReply(
        mapped(lambda asked: topic(asked, code, message), request.topics)
    )


def _api(
    key: int,
    versions: str,
    request: type,
    partition: Shape,
    result: Shape = _RESULT,
    failed: Callable[[int, ErrorCode, str | None], Any] = ShareStateResult,
) -> Api:
    def topics(of: Shape) -> Shape:
        return struct(ShareStateTopic, "topic_id:uuid partitions:[]partition", partition=of)

    return api(
        key,
        versions,
        "0+",
        struct(request, "group_id:string topics:[]topic", topic=topics(partition)),
        struct(ShareStateReply, "topics:[]topic", topic=topics(result)),
        _failure(failed),
        lane="share-state",
    )


INITIALIZE_SHARE_GROUP_STATE = _api(
    83,
    "0",
    InitializeShareGroupStateRequest,
    struct(InitializedShareState, "partition:int32 state_epoch:int32 start_offset:int64"),
)
READ_SHARE_GROUP_STATE = _api(
    84,
    "0",
    ReadShareGroupStateRequest,
    struct(AskedShareState, "partition:int32 leader_epoch:int32"),
    struct(
        ReadShareState,
        "partition:int32 error:error error_message:string? state_epoch:int32 start_offset:int64 "
        "batches:[]batch",
        batch=_BATCH,
    ),
    ReadShareState,
)
# v1 adds the delivery complete count (KIP-1226), here and in the summary.
WRITE_SHARE_GROUP_STATE = _api(
    85,
    "0-1",
    WriteShareGroupStateRequest,
    struct(
        WrittenShareState,
        "partition:int32 state_epoch:int32 leader_epoch:int32 start_offset:int64 "
        "delivery_complete_count:int32@1+ batches:[]batch",
        batch=_BATCH,
    ),
)
DELETE_SHARE_GROUP_STATE = _api(
    86, "0", DeleteShareGroupStateRequest, struct(None, "partition:int32")
)
READ_SHARE_GROUP_STATE_SUMMARY = _api(
    87,
    "0-1",
    ReadShareGroupStateSummaryRequest,
    struct(AskedShareState, "partition:int32 leader_epoch:int32"),
    struct(
        ShareStateSummary,
        "partition:int32 error:error error_message:string? state_epoch:int32 leader_epoch:int32 "
        "start_offset:int64 delivery_complete_count:int32@1+",
    ),
    ShareStateSummary,
)
