"""One row per API: what a client without any right asks, which error it gets in which field of the
reply, and what the audit log hears of it (docs/spec/security.md#4).

`names` makes the fields of the request (kio's names) about a topic, a group and a transactional id,
so that the same request can be made about those that exist and about others. `since`: from this
version on the row holds, in place of the one before. `by_id`: topics are named by id, so the
names in the request do not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

TOPIC, GROUP, CLUSTER, TXN = 29, 30, 31, 53
OTHERS = 55
"""OPERATION_NOT_ATTEMPTED."""


class Names(Struct, frozen=True):
    topic: str
    group: str
    txn: str
    topic_id: bytes


Fields = Callable[[Names], Mapping[str, Any]]


class Row(Struct, frozen=True):
    """`errors`: field of the reply -> code; all others are 0. `asked`: the audited questions, each
    answered with no, where T, G, X stand for the topic, the group and the transactional id of the
    request and C for the cluster."""

    api: str
    fields: Fields
    errors: Mapping[str, int]
    asked: tuple[str, ...] = ()
    since: int = 0
    by_id: bool = False


def _none(_: Names) -> Mapping[str, Any]:
    return {}


def _partitions(names: Names, **more: Any) -> list[dict[str, Any]]:
    """A topic, once with its only partition and once with one that it does not have."""
    return [{"name": names.topic, "topic": names.topic, "topic_id": names.topic_id, **more}]


def _commits(names: Names) -> list[dict[str, Any]]:
    partitions = [{"partition_index": number, "committed_offset": 1} for number in (0, 99)]
    return _partitions(names, partitions=partitions)


def _produce(names: Names) -> Mapping[str, Any]:
    data = [{"index": 0, "records": None}, {"index": 99, "records": None}]
    return {"acks": 7, "topic_data": _partitions(names, partition_data=data)}


def _fetch(names: Names) -> Mapping[str, Any]:
    partitions = [{"partition": 0}, {"partition": 99}]
    limits = {"max_wait": 60_000, "min_bytes": 1, "max_bytes": 1000, "session_epoch": -1}
    return {"replica_id": -1, "topics": _partitions(names, partitions=partitions), **limits}


def _list_offsets(names: Names) -> Mapping[str, Any]:
    partitions = [{"partition_index": number, "timestamp": -1} for number in (0, 99)]
    return {"replica_id": -1, "topics": _partitions(names, partitions=partitions)}


def _epochs(names: Names) -> Mapping[str, Any]:
    return {"topics": _partitions(names, partitions=[{"partition": 0}, {"partition": 99}])}


def _delete_records(names: Names) -> Mapping[str, Any]:
    return {"topics": _partitions(names, partitions=[{"partition_index": 0}])}


def _indexes(names: Names) -> Mapping[str, Any]:
    return {"topics": _partitions(names, partition_indexes=[0, 99])}


def _new_topic(names: Names) -> Mapping[str, Any]:
    return {"topics": [{"name": names.topic, "num_partitions": 1, "replication_factor": 1}]}


def _offset_fetch(names: Names) -> Mapping[str, Any]:
    asked = {"group_id": names.group, **_indexes(names)}
    return {**asked, "groups": [asked]}


def _find(key_type: int, key: Callable[[Names], str]) -> Fields:
    return lambda names: {
        "key": key(names),
        "key_type": key_type,
        "coordinator_keys": [key(names)],
    }


def _member(names: Names) -> Mapping[str, Any]:
    """The fields of requests by a member of a classic group."""
    member = {"member_id": "m", "group_instance_id": None}
    protocol = {"protocol_type": "consumer", "protocol_name": "range"}
    return {"group_id": names.group, "session_timeout": 1, "members": [member], **member,
            **protocol}  # fmt: skip


def _txn(names: Names) -> Mapping[str, Any]:
    return {"transactional_id": names.txn, "producer_id": 1, "group_id": names.group}


def _added(names: Names) -> Mapping[str, Any]:
    asked = {"transactional_id": names.txn, "topics": _partitions(names, partitions=[0, 99])}
    return {
        "v3_and_below_transactional_id": names.txn,
        "v3_and_below_topics": asked["topics"],
        "transactions": [asked],
    }


def _marker(names: Names) -> Mapping[str, Any]:
    topics = _indexes(names)["topics"]
    return {"markers": [{"producer_id": 1, "transaction_result": True, "topics": topics}]}


def _shared(names: Names) -> Mapping[str, Any]:
    fields = ("state_epoch", "leader_epoch", "start_offset", "delivery_complete_count")
    partitions = [
        {"partition": number, **dict.fromkeys(fields, 1), "state_batches": []} for number in (0, 99)
    ]
    topics = [{"topic_id": names.topic_id, "partitions": partitions}]
    return {"group_id": names.group, "topics": topics}


def _configs(resource_type: int, name: Callable[[Names], str]) -> Fields:
    def fields(names: Names) -> Mapping[str, Any]:
        configs = [{"name": "no.such.key", "value": "1", "config_operation": 0}]
        asked = {"resource_type": resource_type, "resource_name": name(names)}
        return {"resources": [{**asked, "configs": configs, "configuration_keys": None}]}

    return fields


def _acl(names: Names) -> Mapping[str, Any]:
    codes = {"resource_type": 2, "resource_pattern_type": 3, "operation": 3, "permission_type": 3}
    filters = {"resource_type_filter": 2, "pattern_type_filter": 3, "operation": 1,
               "permission_type": 1}  # fmt: skip
    creation = {"resource_name": names.topic, "principal": "User:a", "host": "*", **codes}
    return {"creations": [creation], "filters": [filters], **filters}


def _entity(_: Names) -> Mapping[str, Any]:
    entity = [{"entity_type": "user", "entity_name": "a"}]
    ops = [{"key": "producer_byte_rate", "value": 1.0, "remove": False}]
    return {"entries": [{"entity": entity, "ops": ops}], "components": [], "strict": False}


def _scram(_: Names) -> Mapping[str, Any]:
    upsertion = {"name": "a", "mechanism": 1, "iterations": 4096, "salt": b"s",
                 "salted_password": bytes(32)}  # fmt: skip
    return {"users": None, "deletions": [], "upsertions": [upsertion]}


def _beat(names: Names) -> Mapping[str, Any]:
    return {
        "group_id": names.group,
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": 1000,
        "subscribed_topic_names": [names.topic],
        "topic_partitions": [],
    }


def _share_topics(names: Names) -> list[dict[str, Any]]:
    """In requests about share groups a topic has a name or an id, and its partitions have several
    shapes."""
    partitions = [{"partition_index": number, "partition": number} for number in (0, 99)]
    return _partitions(names, topic_name=names.topic, partitions=partitions)


def _share(names: Names) -> Mapping[str, Any]:
    return {"group_id": names.group, "member_id": "m", "topics": _share_topics(names)}


def _topic(names: Names) -> str:
    return names.topic


def _group(names: Names) -> str:
    return names.group


def _groups(names: Names) -> Mapping[str, Any]:
    return {name: [names.group] for name in ("groups", "groups_names", "group_ids")}


def _broker(_: Names) -> str:
    return "0"


ROWS = (
    # Records
    Row("Produce", _produce, {"topics.partitions.error": TOPIC}, ("WRITE T",)),
    Row("Produce", _produce, {"topics.partitions.error": TOPIC}, ("WRITE T",), 13, True),
    Row("Fetch", _fetch, {"topics.partitions.error": TOPIC}, ("READ T",)),
    Row("Fetch", _fetch, {"topics.partitions.error": TOPIC}, ("READ T",), 13, True),
    Row("ListOffsets", _list_offsets, {"topics.partitions.error": TOPIC}, ("DESCRIBE T",)),
    Row("OffsetForLeaderEpoch", _epochs, {"topics.partitions.error": TOPIC}, ("DESCRIBE T",)),
    Row("DeleteRecords", _delete_records, {"topics.partitions.error": TOPIC}, ("DELETE T",)),
    Row("DescribeProducers", _indexes, {"topics.partitions.error": TOPIC}, ("READ T",)),
    # Topics and nodes
    Row(
        "Metadata",
        lambda names: {
            "topics": [{"name": names.topic}],
            "allow_auto_topic_creation": True,
            "include_cluster_authorized_operations": True,
            "include_topic_authorized_operations": True,
        },
        {"topics.error": TOPIC},
        ("DESCRIBE T",),
    ),
    Row(
        "DescribeTopicPartitions",
        lambda names: {"topics": [{"name": names.topic}], "response_partition_limit": 10},
        {"topics.error": TOPIC},
        ("DESCRIBE T",),
    ),
    Row(
        "DescribeCluster",
        lambda _: {"include_cluster_authorized_operations": True, "endpoint_type": 1},
        {},
    ),
    Row("ApiVersions", _none, {}),
    Row("CreateTopics", _new_topic, {"topics.error": TOPIC}, ("CREATE T",)),
    Row(
        "DeleteTopics",
        lambda names: {
            "topic_names": [names.topic],
            "topics": [{"name": names.topic}],
            "timeout": 10_000,
        },
        {"topics.error": TOPIC},
        ("DESCRIBE T",),
    ),
    Row(
        "CreatePartitions",
        lambda names: {"topics": [{"name": names.topic, "count": 1, "assignments": None}]},
        {"results.error": TOPIC},
        ("ALTER T",),
    ),
    # Configs
    Row("DescribeConfigs", _configs(2, _topic), {"results.error": TOPIC}, ("DESCRIBE_CONFIGS T",)),
    Row("AlterConfigs", _configs(32, _group), {"results.error": GROUP}, ("ALTER_CONFIGS G",)),
    Row(
        "IncrementalAlterConfigs",
        _configs(4, _broker),
        {"results.error": CLUSTER},
        ("ALTER_CONFIGS C",),
    ),
    Row("ListConfigResources", _none, {"error": CLUSTER}, ("DESCRIBE_CONFIGS C",)),
    # Groups
    Row("FindCoordinator", _find(0, _group), {"coordinators.error": GROUP}, ("DESCRIBE G",)),
    Row("JoinGroup", _member, {"error": GROUP}, ("READ G",)),
    Row("SyncGroup", _member, {"error": GROUP}, ("READ G",)),
    Row("Heartbeat", _member, {"error": GROUP}, ("READ G",)),
    Row("LeaveGroup", _member, {"error": GROUP}, ("READ G",)),
    Row("DescribeGroups", _groups, {"groups.error": GROUP}, ("DESCRIBE G",)),
    Row("ListGroups", _none, {}),
    Row("DeleteGroups", _groups, {"results.error": GROUP}, ("DELETE G",)),
    Row("ConsumerGroupHeartbeat", _beat, {"error": GROUP}, ("READ G",)),
    Row("ConsumerGroupDescribe", _groups, {"groups.error": GROUP}, ("DESCRIBE G",)),
    Row(
        "OffsetCommit",
        lambda names: {"group_id": names.group, "topics": _commits(names)},
        {"topics.partitions.error": GROUP},
        ("READ G",),
    ),
    Row(
        "OffsetFetch",
        _offset_fetch,
        {"groups.topics.partitions.error": GROUP},
        ("DESCRIBE G",),
    ),
    Row("OffsetFetch", _offset_fetch, {"groups.error": GROUP}, ("DESCRIBE G",), 2),
    Row(
        "OffsetDelete",
        lambda names: {"group_id": names.group, "topics": _commits(names)},
        {"error": GROUP},
        ("DELETE G",),
    ),
    # Share groups
    Row("ShareGroupHeartbeat", _beat, {"error": GROUP}, ("READ G",)),
    Row("ShareGroupDescribe", _groups, {"groups.error": GROUP}, ("DESCRIBE G",)),
    Row("ShareFetch", _share, {"error": GROUP}, ("READ G",)),
    Row("ShareAcknowledge", _share, {"error": GROUP}, ("READ G",)),
    *(
        Row(
            f"{name}ShareGroupState{more}",
            _share,
            {"topics.partitions.error": CLUSTER},
            ("CLUSTER_ACTION C",),
        )
        for name, more in (
            ("Initialize", ""),
            ("Read", ""),
            ("Write", ""),
            ("Delete", ""),
            ("Read", "Summary"),
        )
    ),
    Row(
        "DescribeShareGroupOffsets",
        lambda names: {"groups": [{"group_id": names.group, "topics": None}]},
        {"groups.error": GROUP},
        ("DESCRIBE G",),
    ),
    Row("AlterShareGroupOffsets", _share, {"error": GROUP}, ("READ G",)),
    Row("DeleteShareGroupOffsets", _share, {"error": GROUP}, ("DELETE G",)),
    # Transactions
    Row("InitProducerId", _txn, {"error": TXN}, ("WRITE X",)),
    Row("AddPartitionsToTxn", _added, {"transactions.topics.partitions": TXN}, ("WRITE X",)),
    Row(
        "AddPartitionsToTxn",
        _added,
        {"error": CLUSTER, "transactions.topics.partitions": CLUSTER},
        ("CLUSTER_ACTION C",),
        4,
    ),
    Row("AddOffsetsToTxn", _txn, {"error": TXN}, ("WRITE X",)),
    Row("EndTxn", _txn, {"error": TXN}, ("WRITE X",)),
    Row(
        "TxnOffsetCommit",
        lambda names: {**_txn(names), "topics": _commits(names)},
        {"topics.partitions.error": TXN},
        ("WRITE X",),
    ),
    Row("WriteTxnMarkers", _marker, {"markers.topics.partitions": CLUSTER}, ("CLUSTER_ACTION C",)),
    *[
        Row(api, _shared, {"topics.partitions.error": CLUSTER}, ("CLUSTER_ACTION C",), by_id=True)
        for api in (
            "InitializeShareGroupState",
            "ReadShareGroupState",
            "WriteShareGroupState",
            "DeleteShareGroupState",
            "ReadShareGroupStateSummary",
        )
    ],
    Row(
        "DescribeTransactions",
        lambda names: {"transactional_ids": [names.txn]},
        {"transactions.error": TXN},
        ("DESCRIBE X",),
    ),
    Row("ListTransactions", lambda _: {"duration_filter": -1}, {}),
    # Replicas and the controller
    Row("ElectLeaders", lambda _: {"topic_partitions": None}, {"error": CLUSTER}, ("ALTER C",)),
    Row("AlterPartitionReassignments", _none, {"error": CLUSTER}, ("ALTER C",)),
    Row(
        "ListPartitionReassignments",
        lambda _: {"topics": None},
        {"error": CLUSTER},
        ("DESCRIBE C",),
    ),
    Row("DescribeLogDirs", lambda _: {"topics": None}, {"error": CLUSTER}, ("DESCRIBE C",)),
    Row(
        "AlterReplicaLogDirs",
        lambda names: {"dirs": [{"path": "/", "topics": _partitions(names, partitions=[0, 99])}]},
        {"topics": CLUSTER},
        ("ALTER C",),
    ),
    Row("DescribeQuorum", _none, {"error": CLUSTER}, ("DESCRIBE C",)),
    Row("UpdateFeatures", _none, {"error": CLUSTER}, ("ALTER C",)),
    # ACLs, users, quotas
    Row("DescribeAcls", _acl, {"error": CLUSTER}, ("DESCRIBE C",)),
    Row("CreateAcls", _acl, {"results.error": CLUSTER}, ("ALTER C",)),
    Row("DeleteAcls", _acl, {"results.error": CLUSTER}, ("ALTER C",)),
    Row("DescribeClientQuotas", _entity, {"error": CLUSTER}, ("DESCRIBE_CONFIGS C",)),
    Row("AlterClientQuotas", _entity, {"entries.error": CLUSTER}, ("ALTER_CONFIGS C",)),
    Row("DescribeUserScramCredentials", _scram, {"error": CLUSTER}, ("DESCRIBE C",)),
    Row("AlterUserScramCredentials", _scram, {"results.error": CLUSTER}, ("ALTER C",)),
    # Nobody needs a right for these: 34, 64 and the rest are about other things.
    Row("SaslHandshake", lambda _: {"mechanism": "PLAIN"}, {"error": 34}),
    Row("SaslAuthenticate", lambda _: {"auth_bytes": b"x"}, {"error": 34}),
    Row("CreateDelegationToken", _none, {"error": 61}),
    Row("RenewDelegationToken", lambda _: {"hmac": b"x"}, {"error": 61}),
    Row("ExpireDelegationToken", lambda _: {"hmac": b"x"}, {"error": 61}),
    Row("DescribeDelegationToken", lambda _: {"owners": None}, {"error": 61}),
    Row("GetTelemetrySubscriptions", _none, {}),
    Row("PushTelemetry", _none, {"error": 42}),
)
