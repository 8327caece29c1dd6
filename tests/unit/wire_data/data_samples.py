"""Requests and replies of the data APIs: (message expected for a version, Kafka's fields)."""

from __future__ import annotations

from typing import Any

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages import data as m
from groupd.protocol.messages.cluster import Node

TOPIC_ID = bytes(range(1, 17))
INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
NAME = "tøpic"

Sample = tuple[Any, dict[str, Any]]


def since(version: int, first: int, value: Any, default: Any) -> Any:
    return value if version >= first else default


def topic_key(version: int, ids_from: int, name: str = NAME) -> tuple[str, bytes]:
    return ("", TOPIC_ID) if version >= ids_from else (name, NO_TOPIC_ID)


def produce_full(version: int) -> Sample:
    records = b"\x00\xff" * 300
    message = m.ProduceRequest(
        topics=(
            m.ProduceTopic(
                *topic_key(version, 13),
                (
                    m.ProducePartition(0, records),
                    m.ProducePartition(INT32_MAX, None),
                    m.ProducePartition(-1, b""),
                ),
            ),
        ),
        acks=1,
        timeout_ms=1500,
        transactional_id="tx",
    )
    partitions = [
        {"index": 0, "records": records},
        {"index": INT32_MAX, "records": None},
        {"index": -1, "records": b""},
    ]
    topic = {"name": NAME, "topic_id": TOPIC_ID, "partition_data": partitions}
    return message, {
        "transactional_id": "tx",
        "acks": 1,
        "timeout_ms": 1500,
        "topic_data": [topic],
    }


def produce_bare(version: int) -> Sample:
    message = m.ProduceRequest((), acks=-1, timeout_ms=INT32_MIN, transactional_id=None)
    values = {"transactional_id": None, "acks": -1, "timeout_ms": INT32_MIN, "topic_data": []}
    return message, values


def produce_reply(version: int) -> Sample:
    nodes = (Node(1, "10.0.0.1", 9092, "a"), Node(2, "10.0.0.2", 9093))
    message = m.ProduceReply(
        topics=(
            m.ProducedTopic(
                NAME,
                TOPIC_ID,
                (
                    m.ProducedPartition(0, ErrorCode.NONE, 77, 1_700_000_000_123, 5),
                    m.ProducedPartition(
                        1,
                        ErrorCode.NOT_LEADER_OR_FOLLOWER,
                        error_message="moved",
                        current_leader=(2, 9),
                    ),
                ),
            ),
        ),
        node_endpoints=nodes,
    )
    first = {
        "index": 0,
        "error_code": 0,
        "base_offset": 77,
        "log_append_time_ms": 1_700_000_000_123,
        "log_start_offset": 5,
        "record_errors": [],
        "error_message": None,
    }
    second = {
        "index": 1,
        "error_code": 6,
        "base_offset": -1,
        "log_append_time_ms": -1,
        "log_start_offset": -1,
        "record_errors": [],
        "error_message": "moved",
        "current_leader": {"leader_id": 2, "leader_epoch": 9},
    }
    topic = {"name": NAME, "topic_id": TOPIC_ID, "partition_responses": [first, second]}
    endpoints = [
        {"node_id": 1, "host": "10.0.0.1", "port": 9092, "rack": "a"},
        {"node_id": 2, "host": "10.0.0.2", "port": 9093, "rack": None},
    ]
    return message, {"responses": [topic], "throttle_time_ms": 0, "node_endpoints": endpoints}


def produce_reply_empty(_: int) -> Sample:
    return m.ProduceReply(()), {"responses": [], "throttle_time_ms": 0}


def fetch_full(version: int) -> Sample:
    message = m.FetchRequest(
        topics=(
            m.FetchDataTopic(
                *topic_key(version, 13),
                (
                    m.FetchPartition(
                        partition=3,
                        fetch_offset=INT64_MAX,
                        partition_max_bytes=1 << 20,
                        current_leader_epoch=since(version, 9, 7, -1),
                        last_fetched_epoch=since(version, 12, 6, -1),
                        log_start_offset=since(version, 5, 11, -1),
                    ),
                    m.FetchPartition(INT32_MAX, INT64_MIN, INT32_MIN),
                ),
            ),
        ),
        max_wait_ms=INT32_MAX,
        min_bytes=2,
        max_bytes=3,
        isolation_level=m.READ_COMMITTED,
        session_id=since(version, 7, INT32_MAX, 0),
        session_epoch=since(version, 7, 4, -1),
        forgotten=since(
            version, 7, (m.ForgottenTopic(*topic_key(version, 13, "gone"), (1, INT32_MAX)),), ()
        ),
        rack_id=since(version, 11, "rack-ä", ""),
        replica_id=5,
    )
    first = {
        "partition": 3,
        "current_leader_epoch": 7,
        "fetch_offset": INT64_MAX,
        "last_fetched_epoch": 6,
        "log_start_offset": 11,
        "partition_max_bytes": 1 << 20,
        "replica_directory_id": TOPIC_ID,
        "high_watermark": 99,
    }
    second = {
        "partition": INT32_MAX,
        "current_leader_epoch": -1,
        "fetch_offset": INT64_MIN,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": INT32_MIN,
    }
    topic = {"topic": NAME, "topic_id": TOPIC_ID, "partitions": [first, second]}
    forgotten = {"topic": "gone", "topic_id": TOPIC_ID, "partitions": (1, INT32_MAX)}
    return message, {
        "cluster_id": "cluster",
        "replica_id": 5,
        "replica_state": {"replica_id": 5, "replica_epoch": 8},
        "max_wait_ms": INT32_MAX,
        "min_bytes": 2,
        "max_bytes": 3,
        "isolation_level": 1,
        "session_id": INT32_MAX,
        "session_epoch": 4,
        "topics": [topic],
        "forgotten_topics_data": [forgotten],
        "rack_id": "rack-ä",
    }


def fetch_bare(version: int) -> Sample:
    message = m.FetchRequest((), max_wait_ms=0, min_bytes=0, max_bytes=INT32_MIN)
    return message, {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 0,
        "max_bytes": INT32_MIN,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [],
        "forgotten_topics_data": [],
        "rack_id": "",
    }


def fetch_reply(version: int) -> Sample:
    records = b"\x00\x01\xfe\xff" * 5000
    message = m.FetchReply(
        error=ErrorCode.NONE,
        session_id=INT32_MAX,
        topics=(
            m.FetchedDataTopic(
                NAME,
                TOPIC_ID,
                (
                    m.FetchedPartition(
                        0,
                        high_watermark=INT64_MAX,
                        last_stable_offset=40,
                        log_start_offset=3,
                        aborted=((9, 30), (INT64_MAX, 31)),
                        records=memoryview(records),
                    ),
                    m.FetchedPartition(
                        1, ErrorCode.FENCED_LEADER_EPOCH, aborted=(), current_leader=(4, 12)
                    ),
                    m.FetchedPartition(2, diverging_epoch=(6, 1234)),
                    m.FetchedPartition(3, diverging_epoch=(0, 0), current_leader=(0, 0)),
                ),
            ),
        ),
        node_endpoints=(Node(4, "::1", 1, None),),
    )
    common = {
        "error_code": 0,
        "high_watermark": -1,
        "last_stable_offset": -1,
        "log_start_offset": -1,
        "aborted_transactions": None,
        "preferred_read_replica": -1,
        "records": b"",
    }
    partitions = [
        common
        | {
            "partition_index": 0,
            "high_watermark": INT64_MAX,
            "last_stable_offset": 40,
            "log_start_offset": 3,
            "aborted_transactions": [
                {"producer_id": 9, "first_offset": 30},
                {"producer_id": INT64_MAX, "first_offset": 31},
            ],
            "records": records,
        },
        common
        | {
            "partition_index": 1,
            "error_code": 74,
            "aborted_transactions": [],
            "current_leader": {"leader_id": 4, "leader_epoch": 12},
        },
        common | {"partition_index": 2, "diverging_epoch": {"epoch": 6, "end_offset": 1234}},
        common
        | {
            "partition_index": 3,
            "diverging_epoch": {"epoch": 0, "end_offset": 0},
            "current_leader": {"leader_id": 0, "leader_epoch": 0},
        },
    ]
    return message, {
        "throttle_time_ms": 0,
        "error_code": 0,
        "session_id": INT32_MAX,
        "responses": [{"topic": NAME, "topic_id": TOPIC_ID, "partitions": partitions}],
        "node_endpoints": [{"node_id": 4, "host": "::1", "port": 1, "rack": None}],
    }


def fetch_reply_error(_: int) -> Sample:
    message = m.FetchReply(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    values = {"throttle_time_ms": 0, "error_code": 70, "session_id": 0, "responses": []}
    return message, values


def list_offsets(version: int) -> Sample:
    partitions = (
        m.ListOffsetsPartition(0, INT64_MIN, since(version, 4, 3, -1)),
        m.ListOffsetsPartition(1, INT64_MAX, -1),
        m.ListOffsetsPartition(2, -3, -1),
    )
    message = m.ListOffsetsRequest(
        topics=(m.ListOffsetsTopic(NAME, partitions), m.ListOffsetsTopic("", ())),
        isolation_level=since(version, 2, 1, 0),
        replica_id=-1,
        timeout_ms=since(version, 10, INT32_MAX, 0),
    )
    listed = [
        {"partition_index": 0, "current_leader_epoch": 3, "timestamp": INT64_MIN},
        {"partition_index": 1, "current_leader_epoch": -1, "timestamp": INT64_MAX},
        {"partition_index": 2, "current_leader_epoch": -1, "timestamp": -3},
    ]
    return message, {
        "replica_id": -1,
        "isolation_level": 1,
        "topics": [{"name": NAME, "partitions": listed}, {"name": "", "partitions": []}],
        "timeout_ms": INT32_MAX,
    }


def list_offsets_reply(_: int) -> Sample:
    message = m.ListOffsetsReply(
        (
            m.ListedOffsetsTopic(
                NAME,
                (
                    m.ListedOffset(0, ErrorCode.NONE, INT64_MAX, INT64_MAX, 4),
                    m.ListedOffset(1, ErrorCode.UNKNOWN_SERVER_ERROR),
                ),
            ),
        )
    )
    found = {"timestamp": INT64_MAX, "offset": INT64_MAX, "leader_epoch": 4}
    missing = {"timestamp": -1, "offset": -1, "leader_epoch": -1}
    partitions = [
        {"partition_index": 0, "error_code": 0} | found,
        {"partition_index": 1, "error_code": -1} | missing,
    ]
    return message, {"throttle_time_ms": 0, "topics": [{"name": NAME, "partitions": partitions}]}


def offset_for_leader_epoch(version: int) -> Sample:
    message = m.OffsetForLeaderEpochRequest(
        topics=(m.LeaderEpochTopic(NAME, (m.LeaderEpochPartition(2, INT32_MAX, 5),)),),
        replica_id=since(version, 3, -1, -2),
    )
    partition = {"partition": 2, "current_leader_epoch": 5, "leader_epoch": INT32_MAX}
    return message, {"replica_id": -1, "topics": [{"topic": NAME, "partitions": [partition]}]}


def offset_for_leader_epoch_reply(_: int) -> Sample:
    items = (
        m.EpochEndOffset(2, ErrorCode.NONE, 5, INT64_MAX),
        m.EpochEndOffset(3, ErrorCode.UNKNOWN_LEADER_EPOCH),
    )
    message = m.OffsetForLeaderEpochReply((m.EpochEndTopic(NAME, items),))
    partitions = [
        {"error_code": 0, "partition": 2, "leader_epoch": 5, "end_offset": INT64_MAX},
        {"error_code": 75, "partition": 3, "leader_epoch": -1, "end_offset": -1},
    ]
    return message, {"throttle_time_ms": 0, "topics": [{"topic": NAME, "partitions": partitions}]}


def delete_records(_: int) -> Sample:
    topics = (m.DeleteRecordsTopic(NAME, ((0, -1), (1, INT64_MAX))),)
    partitions = [
        {"partition_index": 0, "offset": -1},
        {"partition_index": 1, "offset": INT64_MAX},
    ]
    values = {"topics": [{"name": NAME, "partitions": partitions}], "timeout_ms": -1}
    return m.DeleteRecordsRequest(topics, -1), values


def delete_records_reply(_: int) -> Sample:
    items = (
        m.DeletedRecords(0, INT64_MAX),
        m.DeletedRecords(1, error=ErrorCode.OFFSET_OUT_OF_RANGE),
    )
    partitions = [
        {"partition_index": 0, "low_watermark": INT64_MAX, "error_code": 0},
        {"partition_index": 1, "low_watermark": -1, "error_code": 1},
    ]
    values = {"throttle_time_ms": 0, "topics": [{"name": NAME, "partitions": partitions}]}
    return m.DeleteRecordsReply((m.DeletedRecordsTopic(NAME, items),)), values
