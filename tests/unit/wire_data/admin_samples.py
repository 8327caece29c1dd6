"""Requests and replies of the topic, configuration and cluster APIs, as in `data_samples`."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages import cluster as c
from groupd.protocol.messages import topics as m
from tests.unit.wire_data.config_samples import VALUES, config_fields
from tests.unit.wire_data.data_samples import (
    INT32_MAX,
    INT32_MIN,
    NAME,
    TOPIC_ID,
    Sample,
    since,
)


def create_topics(_: int) -> Sample:
    message = m.CreateTopicsRequest(
        topics=(
            m.NewTopic(NAME, 12, 3, (), (("cleanup.policy", "compact"), ("x", None))),
            m.NewTopic("by-hand", assignments=((0, (1, 2)), (1, ()))),
        ),
        timeout_ms=INT32_MIN,
        validate_only=True,
    )
    first = {
        "name": NAME,
        "num_partitions": 12,
        "replication_factor": 3,
        "assignments": [],
        "configs": [
            {"name": "cleanup.policy", "value": "compact"},
            {"name": "x", "value": None},
        ],
    }
    second = {
        "name": "by-hand",
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": [
            {"partition_index": 0, "broker_ids": (1, 2)},
            {"partition_index": 1, "broker_ids": ()},
        ],
        "configs": [],
    }
    return message, {"topics": [first, second], "timeout_ms": INT32_MIN, "validate_only": True}


def create_topics_reply(_: int) -> Sample:
    message = m.CreateTopicsReply(
        (
            m.CreatedTopic(NAME, TOPIC_ID, partitions=12, replication_factor=1, configs=VALUES),
            m.CreatedTopic("old", error=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="it is"),
            m.CreatedTopic("hidden", config_error=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        )
    )
    common = {
        "topic_id": NO_TOPIC_ID,
        "error_code": 0,
        "error_message": None,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }
    topics = [
        common
        | {
            "name": NAME,
            "topic_id": TOPIC_ID,
            "num_partitions": 12,
            "replication_factor": 1,
            "configs": config_fields(),
        },
        common | {"name": "old", "error_code": 36, "error_message": "it is"},
        common | {"name": "hidden", "topic_config_error_code": 29},
    ]
    return message, {"throttle_time_ms": 0, "topics": topics}


def delete_topics(version: int) -> Sample:
    by_id = since(version, 6, ((None, TOPIC_ID),), ())
    message = m.DeleteTopicsRequest(((NAME, NO_TOPIC_ID), *by_id), INT32_MAX)
    return message, {
        "topic_names": (NAME,),
        "topics": [
            {"name": NAME, "topic_id": NO_TOPIC_ID},
            {"name": None, "topic_id": TOPIC_ID},
        ],
        "timeout_ms": INT32_MAX,
    }


def delete_topics_reply(version: int) -> Sample:
    by_id = m.DeletedTopic(None, TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID, "no such id")
    message = m.DeleteTopicsReply(
        (m.DeletedTopic(NAME, TOPIC_ID), *since(version, 6, (by_id,), ()))
    )
    responses = [
        {"name": NAME, "topic_id": TOPIC_ID, "error_code": 0, "error_message": None},
        {"name": None, "topic_id": TOPIC_ID, "error_code": 100, "error_message": "no such id"},
    ]
    return message, {"throttle_time_ms": 0, "responses": responses[: since(version, 6, 2, 1)]}


def create_partitions(_: int) -> Sample:
    message = m.CreatePartitionsRequest(
        (
            m.GrownTopic(NAME, INT32_MAX),
            m.GrownTopic("t", 4, ((1, 2), ())),
            m.GrownTopic("u", 1, ()),
        ),
        0,
        True,
    )
    topics = [
        {"name": NAME, "count": INT32_MAX, "assignments": None},
        {"name": "t", "count": 4, "assignments": [{"broker_ids": (1, 2)}, {"broker_ids": ()}]},
        {"name": "u", "count": 1, "assignments": []},
    ]
    return message, {"topics": topics, "timeout_ms": 0, "validate_only": True}


def create_partitions_reply(_: int) -> Sample:
    message = m.CreatePartitionsReply(
        (
            m.CreatePartitionsResult(NAME),
            m.CreatePartitionsResult("t", ErrorCode.INVALID_PARTITIONS, "fewer"),
        )
    )
    results = [
        {"name": NAME, "error_code": 0, "error_message": None},
        {"name": "t", "error_code": 37, "error_message": "fewer"},
    ]
    return message, {"throttle_time_ms": 0, "results": results}


def metadata(version: int) -> Sample:
    by_id = since(version, 10, ((None, TOPIC_ID),), ())
    message = c.MetadataRequest(
        topics=((NAME, NO_TOPIC_ID), *by_id),
        allow_auto_topic_creation=since(version, 4, False, True),
        include_cluster_authorized_operations=8 <= version <= 10,
        include_topic_authorized_operations=version >= 8,
    )
    topics = [
        {"topic_id": NO_TOPIC_ID, "name": NAME},
        {"topic_id": TOPIC_ID, "name": None},
    ]
    return message, {
        "topics": topics[: since(version, 10, 2, 1)],
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
    }


def metadata_all(version: int) -> Sample:
    """All topics: null, but before v1 an empty array."""
    return c.MetadataRequest(None), {
        "topics": None if version >= 1 else [],
        "allow_auto_topic_creation": True,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }


def metadata_none(version: int) -> Sample:
    """No topics, only the nodes: from v1 an empty array; v0 cannot ask that."""
    message, values = metadata_all(version)
    return (c.MetadataRequest(()), values | {"topics": []}) if version >= 1 else (message, values)


def metadata_reply(version: int) -> Sample:
    partitions = (
        c.PartitionRun(0, 1, 1, 5, (1, 2), (1,)),
        c.PartitionRun(1, 2, -1, -1, (3,), (3,), ErrorCode.LEADER_NOT_AVAILABLE, (3,)),
    )
    unknown = c.TopicInfo(None, TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_ID)
    message = c.MetadataReply(
        nodes=(c.Node(1, "127.0.0.1", 9092), c.Node(INT32_MAX, "hôst", 65535, "r")),
        cluster_id="cluster",
        controller_id=1,
        topics=(
            c.TopicInfo(NAME, TOPIC_ID, ErrorCode.NONE, True, partitions, 0b1000),
            *since(version, 12, (unknown,), ()),
        ),
        cluster_authorized_operations=7,
        error=ErrorCode.REBOOTSTRAP_REQUIRED,
    )
    first = {
        "error_code": 0,
        "name": NAME,
        "topic_id": TOPIC_ID,
        "is_internal": True,
        "partitions": partition_fields(),
        "topic_authorized_operations": 0b1000,
    }
    second = {
        "error_code": 100,
        "name": None,
        "topic_id": TOPIC_ID,
        "is_internal": False,
        "partitions": [],
        "topic_authorized_operations": INT32_MIN,
    }
    return message, {
        "throttle_time_ms": 0,
        "brokers": [
            {"node_id": 1, "host": "127.0.0.1", "port": 9092, "rack": None},
            {"node_id": INT32_MAX, "host": "hôst", "port": 65535, "rack": "r"},
        ],
        "cluster_id": "cluster",
        "controller_id": 1,
        "topics": [first, second][: since(version, 12, 2, 1)],
        "cluster_authorized_operations": 7,
        "error_code": 129,
    }


def metadata_reply_empty(_: int) -> Sample:
    return c.MetadataReply((), None, -1, ()), {
        "throttle_time_ms": 0,
        "brokers": [],
        "cluster_id": None,
        "controller_id": -1,
        "topics": [],
        "cluster_authorized_operations": INT32_MIN,
        "error_code": 0,
    }


def partition_fields() -> list[dict[str, object]]:
    empty = {"offline_replicas": (), "eligible_leader_replicas": (), "last_known_elr": ()}
    gone = empty | {"offline_replicas": (3,)}
    first = {"error_code": 0, "partition_index": 0, "leader_id": 1, "leader_epoch": 5}
    second = {"error_code": 5, "partition_index": 1, "leader_id": -1, "leader_epoch": -1}
    return [
        first | {"replica_nodes": (1, 2), "isr_nodes": (1,)} | empty,
        second | {"replica_nodes": (3,), "isr_nodes": (3,)} | gone,
    ]


def describe_cluster(version: int) -> Sample:
    message = c.DescribeClusterRequest(
        True, since(version, 1, 2, 1), since(version, 2, True, False)
    )
    return message, {
        "include_cluster_authorized_operations": True,
        "endpoint_type": 2,
        "include_fenced_brokers": True,
    }


def describe_cluster_reply(_: int) -> Sample:
    nodes = (c.Node(1, "h", 9092, "r"), c.Node(2, "h", 9093))
    message = c.DescribeClusterReply(ErrorCode.NONE, None, 1, "cluster", 2, nodes, 15)
    brokers = [
        {"broker_id": 1, "host": "h", "port": 9092, "rack": "r", "is_fenced": False},
        {"broker_id": 2, "host": "h", "port": 9093, "rack": None, "is_fenced": False},
    ]
    return message, {
        "throttle_time_ms": 0,
        "error_code": 0,
        "error_message": None,
        "endpoint_type": 1,
        "cluster_id": "cluster",
        "controller_id": 2,
        "brokers": brokers,
        "cluster_authorized_operations": 15,
    }


def describe_topic_partitions(_: int) -> Sample:
    message = c.DescribeTopicPartitionsRequest((NAME, "t"), 5, (NAME, 7))
    return message, {
        "topics": [{"name": NAME}, {"name": "t"}],
        "response_partition_limit": 5,
        "cursor": {"topic_name": NAME, "partition_index": 7},
    }


def describe_topic_partitions_start(_: int) -> Sample:
    message = c.DescribeTopicPartitionsRequest((), INT32_MAX, None)
    return message, {"topics": [], "response_partition_limit": INT32_MAX, "cursor": None}


def describe_topic_partitions_reply(version: int) -> Sample:
    inner, values = metadata_reply(13)
    message = c.DescribeTopicPartitionsReply(inner.topics, (NAME, 3))
    return message, {
        "throttle_time_ms": 0,
        "topics": values["topics"],
        "next_cursor": {"topic_name": NAME, "partition_index": 3},
    }


def describe_topic_partitions_reply_last(_: int) -> Sample:
    values = {"throttle_time_ms": 0, "topics": [], "next_cursor": None}
    return c.DescribeTopicPartitionsReply(()), values


def list_config_resources(version: int) -> Sample:
    types = since(version, 1, (32, 2), (16,))
    return m.ListConfigResourcesRequest(types), {"resource_types": (32, 2)}


def list_config_resources_all(version: int) -> Sample:
    types = since(version, 1, (), (16,))
    return m.ListConfigResourcesRequest(types), {"resource_types": ()}


def list_config_resources_reply(_: int) -> Sample:
    message = m.ListConfigResourcesReply(ErrorCode.NONE, ((32, "g"), (2, "t")))
    resources = [
        {"resource_name": "g", "resource_type": 32},
        {"resource_name": "t", "resource_type": 2},
    ]
    return message, {"throttle_time_ms": 0, "error_code": 0, "config_resources": resources}
