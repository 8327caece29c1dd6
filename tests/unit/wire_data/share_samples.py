"""Requests and replies of share groups and of their durable state, as in `data_samples`."""

from __future__ import annotations

from typing import Any

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import share_fetch as f
from groupd.protocol.messages import share_group as g
from groupd.protocol.messages import share_state as s
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.consumer_group import NamedTopicPartitions, TopicPartitions
from tests.unit.wire_data.data_samples import (
    INT32_MAX,
    INT64_MAX,
    NAME,
    TOPIC_ID,
    Sample,
    since,
)

OTHER_ID = bytes(range(2, 18))
FAILED = ErrorCode.FENCED_STATE_EPOCH


def _error(code: ErrorCode = ErrorCode.NONE, message: str | None = None) -> dict[str, Any]:
    return {"error_code": int(code), "error_message": message}


NOTHING_WRONG = _error()
WRONG = _error(FAILED, "stale")


# Members ----------------------------------------------------------------------------------


def heartbeat(_: int) -> Sample:
    return g.ShareGroupHeartbeatRequest("g", NAME, INT32_MAX, "r", (NAME, "")), {
        "group_id": "g",
        "member_id": NAME,
        "member_epoch": INT32_MAX,
        "rack_id": "r",
        "subscribed_topic_names": (NAME, ""),
    }


def heartbeat_bare(_: int) -> Sample:
    return g.ShareGroupHeartbeatRequest("g", "m", -1), {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": -1,
        "rack_id": None,
        "subscribed_topic_names": None,
    }


def heartbeat_reply(_: int) -> Sample:
    topics = (TopicPartitions(TOPIC_ID, (0, INT32_MAX)),)
    message = g.ShareGroupHeartbeatReply(
        member_id=NAME, member_epoch=2, heartbeat_interval_ms=5000, assignment=topics
    )
    assigned = [{"topic_id": TOPIC_ID, "partitions": (0, INT32_MAX)}]
    return message, {
        "throttle_time_ms": 0,
        **NOTHING_WRONG,
        "member_id": NAME,
        "member_epoch": 2,
        "heartbeat_interval_ms": 5000,
        "assignment": {"topic_partitions": assigned},
    }


def heartbeat_refused(_: int) -> Sample:
    return g.ShareGroupHeartbeatReply(ErrorCode.FENCED_MEMBER_EPOCH, "late"), {
        "throttle_time_ms": 0,
        **_error(ErrorCode.FENCED_MEMBER_EPOCH, "late"),
        "member_id": None,
        "member_epoch": 0,
        "heartbeat_interval_ms": 0,
        "assignment": None,
    }


def describe(_: int) -> Sample:
    return g.ShareGroupDescribeRequest((NAME, ""), True), {
        "group_ids": (NAME, ""),
        "include_authorized_operations": True,
    }


def describe_reply(_: int) -> Sample:
    held = NamedTopicPartitions(TOPIC_ID, NAME, (0, 7))
    member = g.DescribedShareMember("m", "r", 3, "c", "/h", (NAME,), (held,))
    found = g.DescribedShareGroup(
        "g",
        state="Stable",
        group_epoch=4,
        assignment_epoch=3,
        assignor_name="simple",
        members=(member,),
        authorized_operations=264,
    )
    missing = g.DescribedShareGroup("x", ErrorCode.GROUP_ID_NOT_FOUND, "none")
    topics = [{"topic_id": TOPIC_ID, "topic_name": NAME, "partitions": (0, 7)}]
    return g.ShareGroupDescribeReply((found, missing)), {
        "throttle_time_ms": 0,
        "groups": [
            {
                **NOTHING_WRONG,
                "group_id": "g",
                "group_state": "Stable",
                "group_epoch": 4,
                "assignment_epoch": 3,
                "assignor_name": "simple",
                "members": [
                    {
                        "member_id": "m",
                        "rack_id": "r",
                        "member_epoch": 3,
                        "client_id": "c",
                        "client_host": "/h",
                        "subscribed_topic_names": (NAME,),
                        "assignment": {"topic_partitions": topics},
                    }
                ],
                "authorized_operations": 264,
            },
            {
                **_error(ErrorCode.GROUP_ID_NOT_FOUND, "none"),
                "group_id": "x",
                "group_state": "",
                "group_epoch": 0,
                "assignment_epoch": 0,
                "assignor_name": "",
                "members": [],
                "authorized_operations": -(2**31),
            },
        ],
    }


# Records ----------------------------------------------------------------------------------

_BATCHES = (
    f.AcknowledgementBatch(0, INT64_MAX, bytes([f.ACCEPT])),
    f.AcknowledgementBatch(5, 6, bytes([f.GAP, 255])),
)
_TOPICS = (
    f.AcknowledgedTopic(
        TOPIC_ID,
        (f.AcknowledgedPartition(0, _BATCHES), f.AcknowledgedPartition(INT32_MAX)),
    ),
    f.AcknowledgedTopic(TOPIC_ID, ()),
)
_TOPIC_VALUES = [
    {
        "topic_id": TOPIC_ID,
        "partitions": [
            {
                "partition_index": 0,
                "acknowledgement_batches": [
                    {
                        "first_offset": 0,
                        "last_offset": INT64_MAX,
                        "acknowledge_types": (1,),
                    },
                    {"first_offset": 5, "last_offset": 6, "acknowledge_types": (0, -1)},
                ],
            },
            {"partition_index": INT32_MAX, "acknowledgement_batches": []},
        ],
    },
    {"topic_id": TOPIC_ID, "partitions": []},
]
_NODE = {"node_id": 1, "host": "h", "port": 9092, "rack": "r"}


def fetch(version: int) -> Sample:
    message = f.ShareFetchRequest(
        "g",
        NAME,
        7,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1000,
        max_records=10,
        batch_size=5,
        acquire_mode=since(version, 2, f.RECORD_LIMIT, f.BATCH_OPTIMIZED),
        is_renew_ack=version >= 2,
        topics=_TOPICS,
        forgotten=(f.ForgottenShareTopic(OTHER_ID, (0, 1)),),
    )
    return message, {
        "group_id": "g",
        "member_id": NAME,
        "share_session_epoch": 7,
        "max_wait_ms": 500,
        "min_bytes": 1,
        "max_bytes": 1000,
        "max_records": 10,
        "batch_size": 5,
        "share_acquire_mode": f.RECORD_LIMIT,
        "is_renew_ack": True,
        "topics": _TOPIC_VALUES,
        "forgotten_topics_data": [{"topic_id": OTHER_ID, "partitions": (0, 1)}],
    }


def fetch_bare(_: int) -> Sample:
    return f.ShareFetchRequest(session_epoch=-1), {
        "group_id": None,
        "member_id": None,
        "share_session_epoch": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": INT32_MAX,
        "max_records": 0,
        "batch_size": 0,
        "share_acquire_mode": 0,
        "is_renew_ack": False,
        "topics": [],
        "forgotten_topics_data": [],
    }


def fetch_reply(_: int) -> Sample:
    records = b"\x00\xff" * 100
    full = f.ShareFetchedPartition(
        0,
        acknowledge_error=ErrorCode.INVALID_RECORD_STATE,
        acknowledge_error_message="gone",
        records=records,
        acquired=(f.AcquiredRecords(0, INT64_MAX, 32767),),
    )
    moved = f.ShareFetchedPartition(
        1, ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved", current_leader=(1, 5)
    )
    message = f.ShareFetchReply(
        lock_timeout_ms=30_000,
        topics=(f.ShareFetchedTopic(TOPIC_ID, (full, moved)),),
        node_endpoints=(Node(1, "h", 9092, "r"),),
    )
    partitions = [
        {
            "partition_index": 0,
            **NOTHING_WRONG,
            "acknowledge_error_code": int(ErrorCode.INVALID_RECORD_STATE),
            "acknowledge_error_message": "gone",
            "current_leader": {"leader_id": 0, "leader_epoch": 0},
            "records": records,
            "acquired_records": [
                {"first_offset": 0, "last_offset": INT64_MAX, "delivery_count": 32767}
            ],
        },
        {
            "partition_index": 1,
            **_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved"),
            "acknowledge_error_code": 0,
            "acknowledge_error_message": None,
            "current_leader": {"leader_id": 1, "leader_epoch": 5},
            "records": b"",
            "acquired_records": [],
        },
    ]
    return message, {
        "throttle_time_ms": 0,
        **NOTHING_WRONG,
        "acquisition_lock_timeout_ms": 30_000,
        "responses": [{"topic_id": TOPIC_ID, "partitions": partitions}],
        "node_endpoints": [_NODE],
    }


def acknowledge(version: int) -> Sample:
    return f.ShareAcknowledgeRequest("g", NAME, 7, version >= 2, _TOPICS), {
        "group_id": "g",
        "member_id": NAME,
        "share_session_epoch": 7,
        "is_renew_ack": True,
        "topics": _TOPIC_VALUES,
    }


def acknowledge_reply(version: int) -> Sample:
    results = (
        f.ShareAcknowledgeResult(0),
        f.ShareAcknowledgeResult(1, ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved", (1, 5)),
    )
    message = f.ShareAcknowledgeReply(
        lock_timeout_ms=since(version, 2, 30_000, 0),
        topics=(f.ShareAcknowledgeResults(TOPIC_ID, results),),
        node_endpoints=(Node(1, "h", 9092, "r"),),
    )
    partitions = [
        {
            "partition_index": 0,
            **NOTHING_WRONG,
            "current_leader": {"leader_id": 0, "leader_epoch": 0},
        },
        {
            "partition_index": 1,
            **_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, "moved"),
            "current_leader": {"leader_id": 1, "leader_epoch": 5},
        },
    ]
    return message, {
        "throttle_time_ms": 0,
        **NOTHING_WRONG,
        "acquisition_lock_timeout_ms": 30_000,
        "responses": [{"topic_id": TOPIC_ID, "partitions": partitions}],
        "node_endpoints": [_NODE],
    }


# Durable state ----------------------------------------------------------------------------

_STATE_BATCHES = (
    s.ShareStateBatch(0, INT64_MAX, s.ACKNOWLEDGED, 1),
    s.ShareStateBatch(5, 5, s.ARCHIVED, 32767),
)
_STATE_BATCH_VALUES = [
    {"first_offset": 0, "last_offset": INT64_MAX, "delivery_state": 2, "delivery_count": 1},
    {"first_offset": 5, "last_offset": 5, "delivery_state": 4, "delivery_count": 32767},
]


def _state_request(request: Any, parts: tuple[Any, ...], values: list[Any]) -> Sample:
    topics = (s.ShareStateTopic(TOPIC_ID, parts), s.ShareStateTopic(OTHER_ID, ()))
    return request(NAME, topics), {
        "group_id": NAME,
        "topics": [
            {"topic_id": TOPIC_ID, "partitions": values},
            {"topic_id": OTHER_ID, "partitions": []},
        ],
    }


def _state_reply(parts: tuple[Any, ...], values: list[Any]) -> Sample:
    topics = (s.ShareStateTopic(TOPIC_ID, parts),)
    return s.ShareStateReply(topics), {"results": [{"topic_id": TOPIC_ID, "partitions": values}]}


def initialize(_: int) -> Sample:
    return _state_request(
        s.InitializeShareGroupStateRequest,
        (s.InitializedShareState(0, 2, -1), s.InitializedShareState(INT32_MAX, 3, INT64_MAX)),
        [
            {"partition": 0, "state_epoch": 2, "start_offset": -1},
            {"partition": INT32_MAX, "state_epoch": 3, "start_offset": INT64_MAX},
        ],
    )


def state_reply(_: int) -> Sample:
    return _state_reply(
        (s.ShareStateResult(0), s.ShareStateResult(1, FAILED, "stale")),
        [{"partition": 0, **NOTHING_WRONG}, {"partition": 1, **WRONG}],
    )


def read(_: int) -> Sample:
    return _asked(s.ReadShareGroupStateRequest)


def _asked(request: Any) -> Sample:
    return _state_request(
        request,
        (s.AskedShareState(0, 5), s.AskedShareState(1, -1)),
        [{"partition": 0, "leader_epoch": 5}, {"partition": 1, "leader_epoch": -1}],
    )


def read_reply(_: int) -> Sample:
    found = s.ReadShareState(0, state_epoch=2, start_offset=INT64_MAX, batches=_STATE_BATCHES)
    return _state_reply(
        (found, s.ReadShareState(1, FAILED, "stale")),
        [
            {
                "partition": 0,
                **NOTHING_WRONG,
                "state_epoch": 2,
                "start_offset": INT64_MAX,
                "state_batches": _STATE_BATCH_VALUES,
            },
            {
                "partition": 1,
                **WRONG,
                "state_epoch": 0,
                "start_offset": 0,
                "state_batches": [],
            },
        ],
    )


def write(version: int) -> Sample:
    count = since(version, 1, 9, -1)
    return _state_request(
        s.WriteShareGroupStateRequest,
        (s.WrittenShareState(0, 2, 5, 10, count, _STATE_BATCHES),),
        [
            {
                "partition": 0,
                "state_epoch": 2,
                "leader_epoch": 5,
                "start_offset": 10,
                "delivery_complete_count": 9,
                "state_batches": _STATE_BATCH_VALUES,
            }
        ],
    )


def delete(_: int) -> Sample:
    return _state_request(
        s.DeleteShareGroupStateRequest,
        (0, INT32_MAX),
        [{"partition": 0}, {"partition": INT32_MAX}],
    )


def summary(_: int) -> Sample:
    return _asked(s.ReadShareGroupStateSummaryRequest)


def summary_reply(version: int) -> Sample:
    found = s.ShareStateSummary(
        0,
        state_epoch=2,
        leader_epoch=5,
        start_offset=10,
        delivery_complete_count=since(version, 1, 9, -1),
    )
    return _state_reply(
        (found,),
        [
            {
                "partition": 0,
                **NOTHING_WRONG,
                "state_epoch": 2,
                "leader_epoch": 5,
                "start_offset": 10,
                "delivery_complete_count": 9,
            }
        ],
    )


# Offsets ----------------------------------------------------------------------------------


def describe_offsets(_: int) -> Sample:
    groups = (
        g.ShareOffsetsGroup("g", (g.ShareOffsetsTopic(NAME, (0, INT32_MAX)),)),
        g.ShareOffsetsGroup("h"),
    )
    topics = [{"topic_name": NAME, "partitions": (0, INT32_MAX)}]
    return g.DescribeShareGroupOffsetsRequest(groups), {
        "groups": [{"group_id": "g", "topics": topics}, {"group_id": "h", "topics": None}]
    }


def describe_offsets_reply(version: int) -> Sample:
    partitions = (
        g.DescribedShareOffset(0, INT64_MAX, 5, since(version, 1, 7, -1)),
        g.DescribedShareOffset(1, error=FAILED, error_message="stale"),
    )
    found = g.DescribedShareOffsetsGroup(
        "g", (g.DescribedShareOffsets(NAME, partitions, TOPIC_ID),)
    )
    denied = g.DescribedShareOffsetsGroup("h", error=FAILED, error_message="stale")
    shown = [
        {
            "partition_index": 0,
            "start_offset": INT64_MAX,
            "leader_epoch": 5,
            "lag": 7,
            **NOTHING_WRONG,
        },
        {"partition_index": 1, "start_offset": -1, "leader_epoch": 0, "lag": -1, **WRONG},
    ]
    topics = [{"topic_name": NAME, "topic_id": TOPIC_ID, "partitions": shown}]
    return g.DescribeShareGroupOffsetsReply((found, denied)), {
        "throttle_time_ms": 0,
        "groups": [
            {"group_id": "g", "topics": topics, **NOTHING_WRONG},
            {"group_id": "h", "topics": [], **WRONG},
        ],
    }


def alter_offsets(_: int) -> Sample:
    topics = (g.AlteredShareTopic(NAME, ((0, INT64_MAX), (1, 0))), g.AlteredShareTopic("u", ()))
    return g.AlterShareGroupOffsetsRequest("g", topics), {
        "group_id": "g",
        "topics": [
            {
                "topic_name": NAME,
                "partitions": [
                    {"partition_index": 0, "start_offset": INT64_MAX},
                    {"partition_index": 1, "start_offset": 0},
                ],
            },
            {"topic_name": "u", "partitions": []},
        ],
    }


def alter_offsets_reply(_: int) -> Sample:
    results = (g.ShareOffsetResult(0), g.ShareOffsetResult(1, FAILED, "stale"))
    message = g.AlterShareGroupOffsetsReply(
        topics=(g.AlteredShareOffsets(NAME, results, TOPIC_ID),)
    )
    partitions = [
        {"partition_index": 0, **NOTHING_WRONG},
        {"partition_index": 1, **WRONG},
    ]
    return message, {
        "throttle_time_ms": 0,
        **NOTHING_WRONG,
        "responses": [{"topic_name": NAME, "topic_id": TOPIC_ID, "partitions": partitions}],
    }


def delete_offsets(_: int) -> Sample:
    return g.DeleteShareGroupOffsetsRequest("g", (NAME, "u")), {
        "group_id": "g",
        "topics": [{"topic_name": NAME}, {"topic_name": "u"}],
    }


def delete_offsets_reply(_: int) -> Sample:
    topics = (
        g.DeletedShareOffsets(NAME, TOPIC_ID),
        g.DeletedShareOffsets("u", error=FAILED, error_message="stale"),
    )
    return g.DeleteShareGroupOffsetsReply(ErrorCode.NONE, None, topics), {
        "throttle_time_ms": 0,
        **NOTHING_WRONG,
        "responses": [
            {"topic_name": NAME, "topic_id": TOPIC_ID, **NOTHING_WRONG},
            {"topic_name": "u", "topic_id": bytes(16), **WRONG},
        ],
    }
