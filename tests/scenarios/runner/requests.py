"""From a command to a request: API, version, fields as plain data (`kio_entities`).

`text=yes` also compares the text of an error, of ConsumerGroupHeartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from groupd.coordinator.core.partitioning import partition_for
from tests.scenarios.runner.backend import Names, Ticket
from tests.scenarios.runner.command import (
    Command,
    numbers_of,
    partitions_of,
    split,
    unquote,
)
from tests.scenarios.runner.payloads import make_bytes
from tests.support.kio_entities import Plain

GROUP_RESOURCE = 32
BY_ID_FROM = 10
"""OffsetCommit and OffsetFetch name topics by id from this version on."""

Made = tuple[str, int, Plain]


def make_ticket(command: Command, names: Names) -> Ticket:
    api, version, fields = VERBS[command.verb](command, names)
    asked = version if command.version is None else command.version
    with_text = command.options.get("text") == "yes"
    return Ticket(command.label, command.actor, api, asked, fields, with_text=with_text)


def _group(command: Command, names: Names) -> str:
    return names.out(command.text_of("group", "g") or "")


def _member_id(command: Command, names: Names) -> str | None:
    """`id=` gives an alias, or any text in quotes; otherwise the actor's."""
    given = command.options.get("id")
    if given is None:
        return names.member(command.actor)
    return unquote(given) if given[0] == '"' or given == "null" else names.member(given)


def _topic_partitions(names: Names, value: str | None) -> list[Plain] | None:
    if value is None or value == "null":
        return None
    wanted = partitions_of(value) if value != "[]" else {}
    return [
        {"topic_id": names.topic_id(topic), "partitions": numbers}
        for topic, numbers in wanted.items()
    ]


def _consumer_heartbeat(command: Command, names: Names) -> Made:
    epoch = command.number or 0
    joining = epoch == 0
    owned = command.options.get("owned", "[]" if joining else None)
    topics = command.list_of("names")
    regex = command.text_of("regex")
    return (
        "ConsumerGroupHeartbeat",
        1,
        {
            "group_id": _group(command, names),
            "member_id": _member_id(command, names),
            "member_epoch": epoch,
            "instance_id": command.text_of("instance"),
            "rack_id": command.text_of("rack"),
            "rebalance_timeout": command.int_of("timeout", 60_000 if joining else -1),
            "subscribed_topic_names": None if topics is None else [names.out(t) for t in topics],
            "subscribed_topic_regex": None if regex is None else names.regex_out(regex),
            "server_assignor": command.text_of("assignor"),
            "topic_partitions": _topic_partitions(names, owned),
        },
    )


def _consumer_describe(command: Command, names: Names) -> Made:
    groups = [names.out(unquote(word) or "") for word in command.words or ["g"]]
    asked = command.options.get("operations") == "yes"
    return (
        "ConsumerGroupDescribe",
        1,
        {"group_ids": groups, "include_authorized_operations": asked},
    )


def _share_heartbeat(command: Command, names: Names) -> Made:
    topics = command.list_of("names")
    fields = {
        "group_id": _group(command, names),
        "member_id": _member_id(command, names),
        "member_epoch": command.number or 0,
        "rack_id": command.text_of("rack"),
        "subscribed_topic_names": None if topics is None else [names.out(t) for t in topics],
    }
    return "ShareGroupHeartbeat", 1, fields


def _share_describe(command: Command, names: Names) -> Made:
    _, version, fields = _consumer_describe(command, names)
    return "ShareGroupDescribe", version, fields


def _share_offsets(command: Command, names: Names) -> Made:
    """`SHARE-OFFSETS {foo:0-2}`, or `none`, or nothing for all topics; `groups=[g,h]`."""
    topics: list[Plain] | None = None
    if command.words:
        wanted = {} if command.words[0] == "none" else partitions_of(command.words[0])
        topics = [{"topic_name": names.out(one), "partitions": its} for one, its in wanted.items()]
    groups = [
        {"group_id": names.out(group), "topics": topics}
        for group in command.list_of("groups") or [command.text_of("group", "g") or ""]
    ]
    return "DescribeShareGroupOffsets", 1, {"groups": groups}


def _share_alter(command: Command, names: Names) -> Made:
    """`SHARE-ALTER foo-0=40 bar-1=7`."""
    topics: dict[str, list[Plain]] = {}
    for word in command.words:
        place, _, offset = word.partition("=")
        topic, _, partition = place.rpartition("-")
        one = {"partition_index": int(partition), "start_offset": int(offset)}
        topics.setdefault(topic, []).append(one)
    asked = [{"topic_name": names.out(one), "partitions": its} for one, its in topics.items()]
    return "AlterShareGroupOffsets", 0, {"group_id": _group(command, names), "topics": asked}


def _share_delete(command: Command, names: Names) -> Made:
    """`SHARE-DELETE foo bar`."""
    topics = [{"topic_name": names.out(word)} for word in command.words]
    return "DeleteShareGroupOffsets", 0, {"group_id": _group(command, names), "topics": topics}


def _join(command: Command, names: Names) -> Made:
    known = command.actor in names.members
    offered = []
    for item in command.list_of("protocols") or []:
        name, _, text = item.partition(":")
        offered.append({"name": name, "metadata": make_bytes(names, text)})
    member = _member_id(command, names) if known or "id" in command.options else ""
    return (
        "JoinGroup",
        9,
        {
            "group_id": _group(command, names),
            "session_timeout": command.int_of("session", 10_000),
            "rebalance_timeout": command.int_of("rebalance", 30_000),
            "member_id": member,
            "group_instance_id": command.text_of("instance"),
            "protocol_type": command.text_of("type", "consumer"),
            "protocols": offered,
        },
    )


def _sync(command: Command, names: Names) -> Made:
    assignments = []
    for item in command.list_of("assign") or []:
        alias, _, text = item.partition("=")
        assignments.append(
            {"member_id": names.member(alias), "assignment": make_bytes(names, text)}
        )
    return (
        "SyncGroup",
        5,
        {
            "group_id": _group(command, names),
            "generation_id": command.number,
            "member_id": _member_id(command, names),
            "group_instance_id": command.text_of("instance"),
            "protocol_type": command.text_of("type", "consumer"),
            "protocol_name": command.text_of("name", "range"),
            "assignments": assignments,
        },
    )


def _heartbeat(command: Command, names: Names) -> Made:
    return (
        "Heartbeat",
        4,
        {
            "group_id": _group(command, names),
            "generation_id": command.number,
            "member_id": _member_id(command, names),
            "group_instance_id": command.text_of("instance"),
        },
    )


def _leave(command: Command, names: Names) -> Made:
    """`members=[A,/i1,B/i2]`: an alias, an instance, or both; otherwise the actor."""
    members = []
    for item in command.list_of("members") or [command.actor]:
        alias, _, instance = item.partition("/")
        member = names.member(alias) if alias else ""
        members.append({"member_id": member, "group_instance_id": instance or None})
    group = _group(command, names)
    first = members[0]["member_id"]
    return "LeaveGroup", 5, {"group_id": group, "members": members, "member_id": first}


def _offsets(command: Command, names: Names, version: int) -> list[Plain]:
    """`foo-0=42` or `foo-0=42:metadata`; `:null` is null metadata."""
    topics: dict[str, list[Plain]] = {}
    for word in command.words:
        place, _, text = word.partition("=")
        topic, _, partition = place.rpartition("-")
        offset, colon, metadata = text.partition(":")
        topics.setdefault(topic, []).append(
            {
                "partition_index": int(partition),
                "committed_offset": int(offset),
                "committed_leader_epoch": -1,
                "committed_metadata": _metadata(metadata) if colon else "",
            }
        )
    return [_topic(names, topic, version, partitions=found) for topic, found in topics.items()]


def _metadata(text: str) -> str | None:
    """`4097x` is that many letters."""
    if text == "null":
        return None
    return "x" * int(text[:-1]) if text[:-1].isdigit() and text[-1] == "x" else text


def _topic(names: Names, topic: str, version: int, **fields: Any) -> Plain:
    if version >= BY_ID_FROM:
        return {"topic_id": names.topic_id(topic), **fields}
    return {"name": names.out(topic), **fields}


def _commit(command: Command, names: Names) -> Made:
    version = command.version or 9
    return (
        "OffsetCommit",
        version,
        {
            "group_id": _group(command, names),
            "generation_id_or_member_epoch": -1 if command.number is None else command.number,
            "member_id": _member_id(command, names),
            "group_instance_id": command.text_of("instance"),
            "retention_time": command.int_of("retention", -1),
            "topics": _offsets(command, names, version),
        },
    )


def _init_producer(command: Command, names: Names) -> Made:
    """The actor is its own transactional id."""
    fields = {
        "transactional_id": names.out(command.actor),
        "transaction_timeout": 60_000,
        "producer_id": -1,
        "producer_epoch": -1,
    }
    return "InitProducerId", 4, fields


def _add_offsets(command: Command, names: Names) -> Made:
    producer_id, epoch = names.producer(command.actor)
    fields = {
        "transactional_id": names.out(command.actor),
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "group_id": _group(command, names),
    }
    return "AddOffsetsToTxn", 3, fields


def _txn_commit(command: Command, names: Names) -> Made:
    """`id=` names the member, the actor is the producer; `epoch=` is another one than its own."""
    producer_id, epoch = names.producer(command.actor)
    version = 5 if command.version is None else command.version
    generation = -1 if command.number is None else command.number
    return (
        "TxnOffsetCommit",
        version,
        {
            "transactional_id": names.out(command.actor),
            "group_id": _group(command, names),
            "producer_id": producer_id,
            "producer_epoch": command.int_of("epoch", epoch),
            "generation_id": generation,
            "generation_id_or_member_epoch": generation,
            "member_id": _member_id(command, names) if "id" in command.options else "",
            "group_instance_id": command.text_of("instance"),
            "topics": _offsets(command, names, 0),
        },
    )


def _marker(command: Command, names: Names) -> Made:
    """`p MARKER commit`: into the offsets partition of the group, as its coordinator would."""
    producer_id, epoch = names.producer(command.actor)
    partition = partition_for(_group(command, names), names.offsets_partitions)
    marker = {
        "producer_id": producer_id,
        "producer_epoch": command.int_of("epoch", epoch),
        "transaction_result": command.words[0] == "commit",
        "topics": [{"name": "__consumer_offsets", "partition_indexes": [partition]}],
        "coordinator_epoch": 0,
    }
    return "WriteTxnMarkers", 1, {"markers": [marker]}


def _fetch(command: Command, names: Names) -> Made:
    """`foo:0-2` or `{foo:0-2 bar:1}` or `all`; v8+ may ask for `groups=[g,h]`."""
    version = command.version or 9
    topics = None
    if command.words and command.words[0] != "all":
        wanted = partitions_of(command.words[0])
        topics = [
            _topic(names, topic, version, partition_indexes=numbers)
            for topic, numbers in wanted.items()
        ]
    stable = command.options.get("stable") == "yes"
    if version < 8:
        group = _group(command, names)
        return (
            "OffsetFetch",
            version,
            {"group_id": group, "topics": topics, "require_stable": stable},
        )
    member = _member_id(command, names) if command.actor or "id" in command.options else None
    groups = [
        {
            "group_id": names.out(group),
            "member_id": member,
            "member_epoch": -1 if command.number is None else command.number,
            "topics": topics,
        }
        for group in command.list_of("groups") or [command.text_of("group", "g") or ""]
    ]
    return "OffsetFetch", version, {"groups": groups, "require_stable": stable}


def _delete_offsets(command: Command, names: Names) -> Made:
    wanted = partitions_of(command.words[0])
    topics = [
        {"name": names.out(topic), "partitions": [{"partition_index": n} for n in numbers]}
        for topic, numbers in wanted.items()
    ]
    return "OffsetDelete", 0, {"group_id": _group(command, names), "topics": topics}


def _list(command: Command, _: Names) -> Made:
    return (
        "ListGroups",
        5,
        {
            "states_filter": command.list_of("states") or [],
            "types_filter": command.list_of("types") or [],
        },
    )


def _describe_classic(command: Command, names: Names) -> Made:
    groups = [names.out(unquote(word) or "") for word in command.words or ["g"]]
    asked = command.options.get("operations") == "yes"
    return "DescribeGroups", 6, {"groups": groups, "include_authorized_operations": asked}


def _delete_groups(command: Command, names: Names) -> Made:
    words = command.words or ["g"]
    return "DeleteGroups", 2, {"groups_names": [names.out(unquote(word) or "") for word in words]}


def _find_coordinator(command: Command, names: Names) -> Made:
    keys = [names.out(unquote(word) or "") for word in command.words]
    fields = {"coordinator_keys": keys, "key_type": command.int_of("type", 0)}
    return "FindCoordinator", 4, {**fields, "key": keys[0] if keys else ""}


def _group_config(command: Command, names: Names) -> Made:
    """`GROUP-CONFIG session=50000`: names without their `consumer.` and `.ms`."""
    configs = []
    for word in split(" ".join(command.words), " "):
        name, _, value = word.partition("=")
        configs.append({"name": name, "config_operation": 0, "value": value})
    resource = {
        "resource_type": GROUP_RESOURCE,
        "resource_name": _group(command, names),
        "configs": configs,
    }
    return "IncrementalAlterConfigs", 1, {"resources": [resource], "validate_only": False}


VERBS: Mapping[str, Callable[[Command, Names], Made]] = {
    "HB": _consumer_heartbeat,
    "DESCRIBE": _consumer_describe,
    "SHB": _share_heartbeat,
    "SHARE-DESCRIBE": _share_describe,
    "SHARE-OFFSETS": _share_offsets,
    "SHARE-ALTER": _share_alter,
    "SHARE-DELETE": _share_delete,
    "JOIN": _join,
    "SYNC": _sync,
    "BEAT": _heartbeat,
    "LEAVE": _leave,
    "COMMIT": _commit,
    "FETCH": _fetch,
    "PRODUCER": _init_producer,
    "ADD-OFFSETS": _add_offsets,
    "TXN-COMMIT": _txn_commit,
    "MARKER": _marker,
    "DELETE-OFFSETS": _delete_offsets,
    "LIST": _list,
    "DESCRIBE-CLASSIC": _describe_classic,
    "DELETE-GROUPS": _delete_groups,
    "FIND-COORDINATOR": _find_coordinator,
    "GROUP-CONFIG": _group_config,
}

__all__ = ["VERBS", "make_ticket", "numbers_of"]
