"""Requests and replies of the logs' side of transactions, as in `data_samples`."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages import offsets as o
from groupd.protocol.messages import producers as m
from tests.unit.wire_data.data_samples import INT32_MAX, INT32_MIN, INT64_MAX, NAME, Sample, since


def write_txn_markers(version: int) -> Sample:
    topics = (m.MarkerTopic(NAME, (0, INT32_MAX)), m.MarkerTopic("u", ()))
    first = m.WritableMarker(INT64_MAX, 32767, True, topics, INT32_MAX, since(version, 2, 2, 0))
    message = m.WriteTxnMarkersRequest((first, m.WritableMarker(1, 0, False, (), -1)))
    return message, {
        "markers": [
            {
                "producer_id": INT64_MAX,
                "producer_epoch": 32767,
                "transaction_result": True,
                "topics": [
                    {"name": NAME, "partition_indexes": (0, INT32_MAX)},
                    {"name": "u", "partition_indexes": ()},
                ],
                "coordinator_epoch": INT32_MAX,
                "transaction_version": 2,
            },
            {
                "producer_id": 1,
                "producer_epoch": 0,
                "transaction_result": False,
                "topics": [],
                "coordinator_epoch": -1,
                "transaction_version": 0,
            },
        ]
    }


def write_txn_markers_reply(_: int) -> Sample:
    partitions = ((0, ErrorCode.NONE), (INT32_MAX, ErrorCode.TRANSACTION_COORDINATOR_FENCED))
    topics = (m.MarkedTopic(NAME, partitions), m.MarkedTopic("u", ()))
    message = m.WriteTxnMarkersReply((m.WrittenMarker(INT64_MAX, topics), m.WrittenMarker(1, ())))
    return message, {
        "markers": [
            {
                "producer_id": INT64_MAX,
                "topics": [
                    {
                        "name": NAME,
                        "partitions": [
                            {"partition_index": 0, "error_code": 0},
                            {"partition_index": INT32_MAX, "error_code": 52},
                        ],
                    },
                    {"name": "u", "partitions": []},
                ],
            },
            {"producer_id": 1, "topics": []},
        ]
    }


def describe_producers(_: int) -> Sample:
    topics = (
        m.DescribeProducersTopic(NAME, (0, INT32_MAX)),
        m.DescribeProducersTopic("u", ()),
    )
    return m.DescribeProducersRequest(topics), {
        "topics": [
            {"name": NAME, "partition_indexes": (0, INT32_MAX)},
            {"name": "u", "partition_indexes": ()},
        ]
    }


def describe_producers_reply(_: int) -> Sample:
    producer = m.ActiveProducer(INT64_MAX, 32767, 5, 1_700_000_000_000, INT32_MAX, 12)
    message = m.DescribeProducersReply(
        (
            m.DescribedProducersTopic(
                NAME,
                (
                    m.DescribedPartition(0, producers=(producer, m.ActiveProducer(1, 0))),
                    m.DescribedPartition(1, ErrorCode.INVALID_TOPIC_EXCEPTION, NAME),
                ),
            ),
        )
    )
    return message, {
        "throttle_time_ms": 0,
        "topics": [
            {
                "name": NAME,
                "partitions": [
                    {
                        "partition_index": 0,
                        "error_code": 0,
                        "error_message": None,
                        "active_producers": [
                            {
                                "producer_id": INT64_MAX,
                                "producer_epoch": 32767,
                                "last_sequence": 5,
                                "last_timestamp": 1_700_000_000_000,
                                "coordinator_epoch": INT32_MAX,
                                "current_txn_start_offset": 12,
                            },
                            {
                                "producer_id": 1,
                                "producer_epoch": 0,
                                "last_sequence": -1,
                                "last_timestamp": -1,
                                "coordinator_epoch": -1,
                                "current_txn_start_offset": -1,
                            },
                        ],
                    },
                    {
                        "partition_index": 1,
                        "error_code": 17,
                        "error_message": NAME,
                        "active_producers": [],
                    },
                ],
            }
        ],
    }


def txn_offset_commit(version: int) -> Sample:
    partitions = (
        o.CommitPartition(0, INT64_MAX, since(version, 2, INT32_MAX, -1), NAME),
        o.CommitPartition(INT32_MAX, -1, -1, None),
    )
    message = o.TxnOffsetCommitRequest(
        "tx",
        NAME,
        INT64_MAX,
        32767,
        (o.commit_topic(NAME, partitions, NO_TOPIC_ID), o.commit_topic("u", ())),
        since(version, 3, INT32_MIN, -1),
        since(version, 3, "member", ""),
        since(version, 3, "instance", None),
    )
    return message, {
        "transactional_id": "tx",
        "group_id": NAME,
        "producer_id": INT64_MAX,
        "producer_epoch": 32767,
        "generation_id": INT32_MIN,
        "generation_id_or_member_epoch": INT32_MIN,
        "member_id": "member",
        "group_instance_id": "instance",
        "topics": [
            {
                "name": NAME,
                "partitions": [
                    {
                        "partition_index": 0,
                        "committed_offset": INT64_MAX,
                        "committed_leader_epoch": INT32_MAX,
                        "committed_metadata": NAME,
                    },
                    {
                        "partition_index": INT32_MAX,
                        "committed_offset": -1,
                        "committed_leader_epoch": -1,
                        "committed_metadata": None,
                    },
                ],
            },
            {"name": "u", "partitions": []},
        ],
    }


def txn_offset_commit_reply(_: int) -> Sample:
    errors = (
        o.PartitionError(0, ErrorCode.NONE),
        o.PartitionError(INT32_MAX, ErrorCode.TRANSACTION_ABORTABLE),
    )
    message = o.TxnOffsetCommitReply((o.TopicErrors(NAME, errors), o.TopicErrors("u", ())))
    return message, {
        "throttle_time_ms": 0,
        "topics": [
            {
                "name": NAME,
                "partitions": [
                    {"partition_index": 0, "error_code": 0},
                    {"partition_index": INT32_MAX, "error_code": 120},
                ],
            },
            {"name": "u", "partitions": []},
        ],
    }
