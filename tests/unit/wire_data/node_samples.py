"""Requests and replies about replicas, the controller and telemetry, as in `data_samples`."""

from __future__ import annotations

from typing import Any

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import quorum as q
from groupd.protocol.messages import replicas as r
from groupd.protocol.messages import telemetry as t
from groupd.protocol.messages.cluster import Node
from tests.unit.wire_data.data_samples import (
    INT32_MAX,
    INT64_MAX,
    NAME,
    TOPIC_ID,
    Sample,
    since,
)

ASKED = ((NAME, (0, INT32_MAX)), ("t", ()))
OUTCOMES = (
    r.TopicOutcomes(
        NAME,
        (
            r.PartitionOutcome(0),
            r.PartitionOutcome(7, ErrorCode.ELECTION_NOT_NEEDED, "no nëed"),
        ),
    ),
    r.TopicOutcomes("t", ()),
)


def outcome_fields(index: str) -> list[dict[str, Any]]:
    return [
        {index: 0, "error_code": 0, "error_message": None},
        {index: 7, "error_code": 84, "error_message": "no nëed"},
    ]


def topics_asked(name: str, partitions: str) -> list[dict[str, Any]]:
    return [{name: topic, partitions: numbers} for topic, numbers in ASKED]


def describe_log_dirs(_: int) -> Sample:
    fields = {"topics": topics_asked("topic", "partitions")}
    return r.DescribeLogDirsRequest(ASKED), fields


def describe_log_dirs_all(_: int) -> Sample:
    return r.DescribeLogDirsRequest(None), {"topics": None}


def describe_log_dirs_reply(version: int) -> Sample:
    code = since(version, 3, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.NONE)
    message = r.DescribeLogDirsReply(
        code,
        (
            r.LogDir("/a", ((NAME, ((0, 5), (INT32_MAX, INT64_MAX))),), total_bytes=9),
            r.LogDir("/b", error=ErrorCode.KAFKA_STORAGE_ERROR),
        ),
    )
    partitions = [
        {"partition_index": number, "partition_size": size, "offset_lag": 0, "is_future_key": False}
        for number, size in ((0, 5), (INT32_MAX, INT64_MAX))
    ]
    volume = {"usable_bytes": -1, "is_cordoned": False}
    first = {"error_code": 0, "log_dir": "/a", "topics": [{"name": NAME, "partitions": partitions}]}
    second = {"error_code": 56, "log_dir": "/b", "topics": []}
    return message, {
        "throttle_time_ms": 0,
        "error_code": code,
        "results": [
            first | volume | {"total_bytes": 9},
            second | volume | {"total_bytes": -1},
        ],
    }


def alter_replica_log_dirs(_: int) -> Sample:
    dirs = [
        {"path": "/a", "topics": topics_asked("name", "partitions")},
        {"path": "", "topics": []},
    ]
    return r.AlterReplicaLogDirsRequest((("/a", ASKED), ("", ()))), {"dirs": dirs}


def alter_replica_log_dirs_reply(_: int) -> Sample:
    message = r.AlterReplicaLogDirsReply(
        ((NAME, ((0, ErrorCode.NONE), (3, ErrorCode.LOG_DIR_NOT_FOUND))), ("t", ()))
    )
    partitions = [
        {"partition_index": 0, "error_code": 0},
        {"partition_index": 3, "error_code": 57},
    ]
    return message, {
        "throttle_time_ms": 0,
        "results": [
            {"topic_name": NAME, "partitions": partitions},
            {"topic_name": "t", "partitions": []},
        ],
    }


def elect_leaders(version: int) -> Sample:
    message = r.ElectLeadersRequest(since(version, 1, 1, 0), ASKED, 5)
    return message, {
        "election_type": 1,
        "topic_partitions": topics_asked("topic", "partitions"),
        "timeout_ms": 5,
    }


def elect_leaders_all(version: int) -> Sample:
    message = r.ElectLeadersRequest(since(version, 1, 1, 0), None, 5)
    return message, {"election_type": 1, "topic_partitions": None, "timeout_ms": 5}


def elect_leaders_reply(version: int) -> Sample:
    code = since(version, 1, ErrorCode.INVALID_REQUEST, ErrorCode.NONE)
    return r.ElectLeadersReply(code, OUTCOMES), {
        "throttle_time_ms": 0,
        "error_code": code,
        "replica_election_results": [
            {"topic": NAME, "partition_result": outcome_fields("partition_id")},
            {"topic": "t", "partition_result": []},
        ],
    }


def alter_partition_reassignments(version: int) -> Sample:
    message = r.AlterPartitionReassignmentsRequest(
        (r.ReassignedTopic(NAME, ((0, (1, 2)), (1, None), (2, ()))), r.ReassignedTopic("t", ())),
        since(version, 1, False, True),
        7,
    )
    partitions = [
        {"partition_index": 0, "replicas": (1, 2)},
        {"partition_index": 1, "replicas": None},
        {"partition_index": 2, "replicas": ()},
    ]
    return message, {
        "timeout_ms": 7,
        "allow_replication_factor_change": False,
        "topics": [{"name": NAME, "partitions": partitions}, {"name": "t", "partitions": []}],
    }


def alter_partition_reassignments_reply(version: int) -> Sample:
    allowed = since(version, 1, False, True)
    message = r.AlterPartitionReassignmentsReply(
        allowed, ErrorCode.INVALID_REQUEST, "why", OUTCOMES
    )
    return message, {
        "throttle_time_ms": 0,
        "allow_replication_factor_change": allowed,
        "error_code": 42,
        "error_message": "why",
        "responses": [
            {"name": NAME, "partitions": outcome_fields("partition_index")},
            {"name": "t", "partitions": []},
        ],
    }


def list_partition_reassignments(_: int) -> Sample:
    fields = {"timeout_ms": 7, "topics": topics_asked("name", "partition_indexes")}
    return r.ListPartitionReassignmentsRequest(ASKED, 7), fields


def list_partition_reassignments_all(_: int) -> Sample:
    fields = {"timeout_ms": 7, "topics": None}
    return r.ListPartitionReassignmentsRequest(None, 7), fields


def list_partition_reassignments_reply(_: int) -> Sample:
    return r.ListPartitionReassignmentsReply(ErrorCode.INVALID_REQUEST, "why"), {
        "throttle_time_ms": 0,
        "error_code": 42,
        "error_message": "why",
        "topics": [],
    }


def describe_quorum(_: int) -> Sample:
    topics = [
        {
            "topic_name": name,
            "partitions": [{"partition_index": number} for number in partitions],
        }
        for name, partitions in ASKED
    ]
    return q.DescribeQuorumRequest(ASKED), {"topics": topics}


def describe_quorum_reply(version: int) -> Sample:
    voter = q.QuorumReplica(3, TOPIC_ID, 99, *since(version, 1, (5, 6), (-1, -1)))
    bad = q.QuorumPartition(1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, since(version, 2, "who", None))
    message = q.DescribeQuorumReply(
        ErrorCode.NONE,
        None,
        ((NAME, (q.QuorumPartition(0, ErrorCode.NONE, None, 3, 4, 98, (voter,)), bad)),),
        since(version, 2, (Node(3, "høst", 65535),), ()),
    )
    replica = {
        "replica_id": 3,
        "replica_directory_id": TOPIC_ID,
        "log_end_offset": 99,
        "last_fetch_timestamp": 5,
        "last_caught_up_timestamp": 6,
    }
    first = {
        "partition_index": 0,
        "error_code": 0,
        "error_message": None,
        "leader_id": 3,
        "leader_epoch": 4,
        "high_watermark": 98,
        "current_voters": [replica],
        "observers": [],
    }
    second = {
        "partition_index": 1,
        "error_code": 3,
        "error_message": "who",
        "leader_id": 0,
        "leader_epoch": 0,
        "high_watermark": 0,
        "current_voters": [],
        "observers": [],
    }
    listener = {"name": "PLAINTEXT", "host": "høst", "port": 65535}
    return message, {
        "error_code": 0,
        "error_message": None,
        "topics": [{"topic_name": NAME, "partitions": [first, second]}],
        "nodes": [{"node_id": 3, "listeners": [listener]}],
    }


def update_features(version: int) -> Sample:
    message = q.UpdateFeaturesRequest(
        (
            q.FeatureUpdate("group.version", 1, since(version, 1, 2, 3)),
            q.FeatureUpdate(NAME, -1, 1),
        ),
        since(version, 1, True, False),
        9,
    )
    updates = [
        {
            "feature": "group.version",
            "max_version_level": 1,
            "allow_downgrade": True,
            "upgrade_type": 2,
        },
        {
            "feature": NAME,
            "max_version_level": -1,
            "allow_downgrade": False,
            "upgrade_type": 1,
        },
    ]
    return message, {"timeout_ms": 9, "feature_updates": updates, "validate_only": True}


def update_features_reply(version: int) -> Sample:
    names = since(version, 2, (), ("group.version", NAME))
    message = q.UpdateFeaturesReply(ErrorCode.INVALID_UPDATE_VERSION, "why", names)
    results = [{"feature": name, "error_code": 0, "error_message": None} for name in names]
    return message, {
        "throttle_time_ms": 0,
        "error_code": 95,
        "error_message": "why",
        "results": results,
    }


def get_telemetry_subscriptions(_: int) -> Sample:
    return t.GetTelemetrySubscriptionsRequest(TOPIC_ID), {"client_instance_id": TOPIC_ID}


def get_telemetry_subscriptions_first(_: int) -> Sample:
    return t.GetTelemetrySubscriptionsRequest(t.NO_CLIENT), {"client_instance_id": bytes(16)}


def get_telemetry_subscriptions_reply(_: int) -> Sample:
    message = t.GetTelemetrySubscriptionsReply(
        ErrorCode.NONE, TOPIC_ID, -5, (4, 1), 60000, INT32_MAX, True, ("a.b", NAME)
    )
    return message, {
        "throttle_time_ms": 0,
        "error_code": 0,
        "client_instance_id": TOPIC_ID,
        "subscription_id": -5,
        "accepted_compression_types": (4, 1),
        "push_interval_ms": 60000,
        "telemetry_max_bytes": INT32_MAX,
        "delta_temporality": True,
        "requested_metrics": ("a.b", NAME),
    }


def push_telemetry(_: int) -> Sample:
    return t.PushTelemetryRequest(TOPIC_ID, 7, True, 4, b"\x00\xff"), {
        "client_instance_id": TOPIC_ID,
        "subscription_id": 7,
        "terminating": True,
        "compression_type": 4,
        "metrics": b"\x00\xff",
    }


def push_telemetry_reply(_: int) -> Sample:
    reply = t.PushTelemetryReply(ErrorCode.TELEMETRY_TOO_LARGE)
    return reply, {"throttle_time_ms": 0, "error_code": 118}
