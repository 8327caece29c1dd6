"""Who has which rights, and what they ask of Kafka and of groupd alike.

Topics foo and bar exist, nope does not, and "b@d" never can. Group grp has offsets of foo and bar,
group oth of foo; txn is a transactional id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.unit.security.denied_rows import Fields, Names

CLUSTER = "kafka-cluster"
UNKNOWN_ID = b"unknown id......"
GHOST = 99
"""A partition that no topic has."""

USERS: Mapping[str, tuple[str, ...]] = {
    "nobody": (),
    "reader": ("READ TOPIC foo",),
    "describer": ("DESCRIBE TOPIC foo",),
    "undescribed": ("READ TOPIC foo", "!DESCRIBE TOPIC foo"),
    "configurer": ("ALTER_CONFIGS TOPIC foo",),
    "creator": ("CREATE TOPIC foo", "CREATE TOPIC made"),
    "asker": ("DESCRIBE TOPIC nope", "DESCRIBE TOPIC b@d"),
    "all_creator": (f"CREATE CLUSTER {CLUSTER}",),
    "writer": ("WRITE TOPIC foo",),
    "no_writer": ("!WRITE TOPIC *", "WRITE TOPIC foo"),
    "idempotent": (f"IDEMPOTENT_WRITE CLUSTER {CLUSTER}",),
    "deleter": ("DELETE TOPIC foo",),
    "all_deleter": (f"DELETE CLUSTER {CLUSTER}",),
    "alterer": ("ALTER TOPIC foo",),
    "inspector": ("DESCRIBE_CONFIGS TOPIC foo", "DESCRIBE_CONFIGS GROUP grp"),
    "all_inspector": (f"DESCRIBE_CONFIGS CLUSTER {CLUSTER}",),
    "member": ("READ GROUP grp", "READ TOPIC foo"),
    "groups": ("READ GROUP grp", "READ GROUP new", "DESCRIBE GROUP oth"),
    "group_deleter": ("DELETE GROUP grp", "DELETE GROUP nope", "READ TOPIC foo"),
    "group_owner": ("ALL GROUP grp",),
    "consumer": ("READ GROUP g2", "DESCRIBE GROUP g2", "DESCRIBE TOPIC foo"),
    "transactor": ("WRITE TRANSACTIONAL_ID txn", "WRITE TOPIC foo"),
    "transactions": ("DESCRIBE TRANSACTIONAL_ID txn",),
    "cluster": (f"DESCRIBE CLUSTER {CLUSTER}",),
    "broker": (f"CLUSTER_ACTION CLUSTER {CLUSTER}",),
    "operator": (f"ALTER CLUSTER {CLUSTER}",),
    "owner": (f"ALL CLUSTER {CLUSTER}",),
}
"""User -> what it may do; with "!", what it may not do."""

Case = tuple[str, str, int, Fields]
"""User, API, version, fields of the request."""


def ask(users: str, api: str, versions: Iterable[int], fields: Any) -> Iterator[Case]:
    """The cases of these users. `fields`: of the request, or a function that makes them."""
    for user in users.split():
        for version in versions:
            yield user, api, version, fields if callable(fields) else lambda _: fields


def named(*names: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, "topic": name, **more} for name in names]


def by_id(names: Names, **more: Any) -> list[dict[str, Any]]:
    return [{"topic_id": topic_id, **more} for topic_id in (names.topic_id, UNKNOWN_ID)]


THREE = ("foo", "bar", "nope")
EVERYBODY = " ".join(USERS)
WITH_BITS = {"include_topic_authorized_operations": True,
             "include_cluster_authorized_operations": True}  # fmt: skip
NEW_TOPIC = {"num_partitions": 1, "replication_factor": 1}


def about_topics() -> Iterator[Case]:
    no_creation = {"allow_auto_topic_creation": False, **WITH_BITS}
    four = {"topics": named(*THREE, "b@d"), **no_creation}
    yield from ask(EVERYBODY, "Metadata", (1, 8, 12), four)
    yield from ask("reader cluster owner", "Metadata", (8, 10), {"topics": [], **no_creation})
    yield from ask("nobody describer reader", "Metadata", (12, 13), lambda names: {
        "topics": by_id(names, name=None), **no_creation})  # fmt: skip
    every = {"topics": None, "allow_auto_topic_creation": True}
    yield from ask("nobody describer", "Metadata", (1, 12), every)
    creating = {"topics": named("nope", "b@d"), "allow_auto_topic_creation": True, **WITH_BITS}
    yield from ask("asker describer", "Metadata", (4, 9, 12), creating)
    partitions = {"topics": named(*THREE), "response_partition_limit": 100}
    yield from ask(EVERYBODY, "DescribeTopicPartitions", (0,), partitions)
    cluster = {"include_cluster_authorized_operations": True, "endpoint_type": 1}
    yield from ask(EVERYBODY, "DescribeCluster", (0, 1), cluster)

    def create(*names: str) -> Mapping[str, Any]:
        topics = named(*names, **NEW_TOPIC)
        return {"topics": topics, "timeout": 10_000, "validate_only": True}

    many = create("foo", "made", "bar", "b@d", "foo", "foo")
    yield from ask("creator all_creator nobody", "CreateTopics", (2, 5), many)

    def delete(*names: str) -> Mapping[str, Any]:
        return {"topic_names": names, "topics": named(*names), "timeout": 10_000}

    yield from ask("describer nobody", "DeleteTopics", (1, 5, 6), delete(*THREE))
    yield from ask("deleter all_deleter", "DeleteTopics", (6,), delete("nope", "bar?", "bar?"))
    yield from ask("describer nobody broker", "DeleteTopics", (6,), lambda names: {
        "topics": by_id(names, name=None), "timeout": 10_000})  # fmt: skip
    yield from ask("describer nobody", "DeleteTopics", (6,), lambda names: {
        "topics": [*named("foo"), *by_id(names, name=None)[:1]], "timeout": 10_000})  # fmt: skip
    grown = {"topics": named(*THREE, count=3, assignments=None), "timeout": 10_000,
             "validate_only": True}  # fmt: skip
    yield from ask("alterer describer operator", "CreatePartitions", (0, 3), grown)


def about_records() -> Iterator[Case]:
    data = {"partition_data": [{"index": GHOST, "records": None}]}
    produce = {"acks": 1, "timeout": 1000}
    yield from ask("reader writer", "Produce", (3, 8, 12),
                   {**produce, "topic_data": named(*THREE, "", **data)})  # fmt: skip
    yield from ask("nobody writer reader", "Produce", (13,), lambda names: {
        **produce, "topic_data": by_id(names, **data)})  # fmt: skip
    limits = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1000, "session_epoch": -1}
    some = {"partitions": [{"partition": number, "fetch_offset": 0, "partition_max_bytes": 1000}
                           for number in (0, GHOST)]}  # fmt: skip
    fetch = {"replica_id": -1, **limits}
    yield from ask("reader describer undescribed", "Fetch", (4, 12),
                   {**fetch, "topics": named(*THREE, "", **some)})  # fmt: skip
    yield from ask("reader nobody", "Fetch", (13, 16), lambda names: {
        **fetch, "topics": by_id(names, partitions=some["partitions"][1:])})  # fmt: skip
    replica = {**fetch, "replica_id": 5, "topics": named("nope", "", **some)}
    yield from ask("reader broker", "Fetch", (4, 12), replica)
    times = {"partitions": [{"partition_index": n, "timestamp": -1} for n in (0, GHOST)]}
    offsets = {"replica_id": -1, "topics": named(*THREE, **times)}
    yield from ask("describer reader writer creator", "ListOffsets", (1, 7), offsets)
    epochs = {"partitions": [{"partition": n, "leader_epoch": 0} for n in (0, GHOST)]}
    ends = {"replica_id": -2, "topics": named(*THREE, **epochs)}
    yield from ask("describer broker nobody", "OffsetForLeaderEpoch", (2, 4), ends)
    deleted = {"topics": named(*THREE, partitions=[{"partition_index": GHOST}]), "timeout": 1000}
    yield from ask("reader deleter describer", "DeleteRecords", (0, 2), deleted)
    producers = {"topics": named(*THREE, "b@d", partition_indexes=[0])}
    yield from ask("reader describer", "DescribeProducers", (0,), producers)


def about_configs() -> Iterator[Case]:
    def resources(*wanted: tuple[int, str]) -> Mapping[str, Any]:
        config = {"name": "retention.ms", "value": "45000", "config_operation": 0}
        group = {**config, "name": "consumer.session.timeout.ms"}
        asked = [
            {"resource_type": kind, "resource_name": name, "configuration_keys": ["retention.ms"],
             "configs": [config if kind == 2 else group]}
            for kind, name in wanted
        ]  # fmt: skip
        return {"resources": asked, "validate_only": True}

    topics = tuple((2, name) for name in THREE)
    readers = "inspector configurer all_inspector nobody"
    described = resources(*topics, (32, "grp"), (16, "clients"))
    yield from ask(readers, "DescribeConfigs", (1, 4), described)
    yield from ask("nobody inspector", "DescribeConfigs", (4,), resources((2, "foo"), (99, "x")))
    yield from ask("nobody", "DescribeConfigs", (4,), resources((8, "1"), (4, "1")))
    altered = resources(*topics, (32, "grp"))
    users = "configurer inspector operator nobody"
    yield from ask(users, "IncrementalAlterConfigs", (0, 1), altered)
    yield from ask(users, "AlterConfigs", (1, 2), altered)
    for user in ("nobody", "all_inspector"):
        yield from ask(user, "ListConfigResources", (1,), {"resource_types": [99]})


def about_groups() -> Iterator[Case]:
    seekers = "member groups transactor transactions broker nobody"
    for key_type, keys in ((0, ["grp", "oth"]), (1, ["txn", "tno"])):
        wanted = {"key": keys[0], "key_type": key_type, "coordinator_keys": keys}
        yield from ask(seekers, "FindCoordinator", (1, 3, 4, 6), wanted)
    shared = {"key": "a:b:0", "key_type": 2, "coordinator_keys": ["a:b:0", "a:b:1"]}
    yield from ask("nobody", "FindCoordinator", (1, 5, 6), shared)
    users = "groups group_owner cluster nobody member"
    described = {"groups": ["grp", "nope", "oth"], "include_authorized_operations": True}
    yield from ask(users, "DescribeGroups", (0, 4, 5, 6), described)
    yield from ask(users, "ListGroups", (0, 5), {})
    deleted = {"groups_names": ["oth", "nope", "oth"]}
    yield from ask("group_deleter nobody", "DeleteGroups", (0, 2), deleted)
    commits = {"partitions": [{"partition_index": n, "committed_offset": 1} for n in (0, GHOST)]}
    group = {"group_id": "grp", "generation_id_or_member_epoch": -1}
    yield from ask("member groups reader", "OffsetCommit", (2, 8, 9),
                   {**group, "topics": named(*THREE, **commits)})  # fmt: skip
    yield from ask("member groups reader", "OffsetCommit", (10,), lambda names: {
        **group, "topics": by_id(names, **commits)})  # fmt: skip

    def offsets(topics: list[dict[str, Any]] | None) -> Mapping[str, Any]:
        member = {"topics": topics, "member_id": None, "member_epoch": -1}
        groups = [{"group_id": name, **member} for name in ("grp", "oth")]
        return {"group_id": "grp", "topics": topics, "groups": groups}

    users = "member groups group_owner nobody"
    asked = offsets(named(*THREE, partition_indexes=[0]))
    yield from ask(users, "OffsetFetch", (1, 2, 7, 8, 9), asked)
    yield from ask(users, "OffsetFetch", (2, 7, 8, 9), offsets(None))
    yield from ask(users, "OffsetFetch", (10,),
                   lambda names: offsets(by_id(names, partition_indexes=[0])))  # fmt: skip
    gone = {"group_id": "grp", "topics": named("bar", partitions=[{"partition_index": 0}])}
    yield from ask("group_deleter group_owner nobody", "OffsetDelete", (0,), gone)
    joining = {"group_id": "g2", "member_id": "m" * 22, "rebalance_timeout": 10_000,
               "topic_partitions": []}  # fmt: skip
    for topics in (["foo", "bar"], ["nope"]):
        beat = {**joining, "subscribed_topic_names": topics}
        yield from ask("consumer groups", "ConsumerGroupHeartbeat", (0, 1), beat)
    groups = {"group_ids": ["g2", "oth", "nope"], "include_authorized_operations": True}
    yield from ask("consumer groups", "ConsumerGroupDescribe", (0, 1), groups)


def about_transactions() -> Iterator[Case]:
    init = {"transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1}
    plain = {"transactional_id": None, **init}
    users = "nobody writer no_writer idempotent reader owner"
    yield from ask(users, "InitProducerId", (0, 5), plain)
    yield from ask("transactor nobody", "InitProducerId", (0, 5),
                   {"transactional_id": "tno", **init})  # fmt: skip

    def add(*names: str) -> Mapping[str, Any]:
        topics = named(*names, partitions=[0])
        asked = {"transactional_id": "txn", "producer_id": 5, "topics": topics}
        old = {f"v3_and_below_{key}": value for key, value in asked.items()}
        return {**old, "transactions": [asked]}

    users = "transactor transactions"
    yield from ask(users, "AddPartitionsToTxn", (0, 3), add(*THREE, "__consumer_offsets"))
    yield from ask(users, "AddPartitionsToTxn", (4, 5), add("foo", "bar"))
    txn = {"transactional_id": "txn", "producer_id": 5, "group_id": "grp", "generation_id": -1}
    yield from ask("transactor member", "AddOffsetsToTxn", (0, 4), txn)
    commits = [{"partition_index": 0, "committed_offset": 1}]
    yield from ask("transactor member", "TxnOffsetCommit", (0, 3, 5),
                   {**txn, "topics": named("foo", "bar", partitions=commits)})  # fmt: skip
    yield from ask("broker operator cluster", "WriteTxnMarkers", (1, 2), {"markers": []})
    yield from ask(users, "DescribeTransactions", (0,), {"transactional_ids": ["tno"]})
    yield from ask("transactions nobody", "ListTransactions", (0, 1), {"duration_filter": -1})


def cases() -> list[Case]:
    return [
        *about_topics(),
        *about_records(),
        *about_configs(),
        *about_groups(),
        *about_transactions(),
    ]
