"""Requests: kio writes an entity, we decode it, both must say the same in every field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.registry import Api
from tests.unit.wire.kio_oracle import (
    NEWER_THAN_KIO,
    assert_matches,
    plain,
    request_entities,
    to_bytes,
)

Plain = dict[str, Any]


def _topic(topic: Any, name: str, partitions: list[Any]) -> Plain:
    return {"name": topic.name, "topic_id": topic.topic_id, name: partitions}


def _api_versions(m: Any) -> Plain:
    return {
        "client_software_name": m.client_software_name,
        "client_software_version": m.client_software_version,
    }


def _find_coordinator(m: Any) -> Plain:
    return {"key": m.keys[0] if m.keys else "", "key_type": m.key_type, "coordinator_keys": m.keys}


def _join_group(m: Any) -> Plain:
    return {
        "group_id": m.group_id,
        "session_timeout": m.session_timeout_ms,
        "rebalance_timeout": m.rebalance_timeout_ms,
        "member_id": m.member_id,
        "group_instance_id": m.group_instance_id,
        "protocol_type": m.protocol_type,
        "protocols": [{"name": p.name, "metadata": p.metadata} for p in m.protocols],
        "reason": m.reason,
    }


def _sync_group(m: Any) -> Plain:
    return {
        "group_id": m.group_id,
        "generation_id": m.generation_id,
        "member_id": m.member_id,
        "group_instance_id": m.group_instance_id,
        "protocol_type": m.protocol_type,
        "protocol_name": m.protocol_name,
        "assignments": [
            {"member_id": a.member_id, "assignment": a.assignment} for a in m.assignments
        ],
    }


def _heartbeat(m: Any) -> Plain:
    return {
        "group_id": m.group_id,
        "generation_id": m.generation_id,
        "member_id": m.member_id,
        "group_instance_id": m.group_instance_id,
    }


def _leave_group(m: Any) -> Plain:
    return {
        "group_id": m.group_id,
        "member_id": m.members[0].member_id if m.members else "",
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.group_instance_id,
                "reason": member.reason,
            }
            for member in m.members
        ],
    }


def _consumer_group_heartbeat(m: Any) -> Plain:
    topics = m.topic_partitions
    return {
        "group_id": m.group_id,
        "member_id": m.member_id,
        "member_epoch": m.member_epoch,
        "instance_id": m.instance_id,
        "rack_id": m.rack_id,
        "rebalance_timeout": m.rebalance_timeout_ms,
        "subscribed_topic_names": m.subscribed_topic_names,
        "subscribed_topic_regex": m.subscribed_topic_regex,
        "server_assignor": m.server_assignor,
        "topic_partitions": None
        if topics is None
        else [{"topic_id": t.topic_id, "partitions": list(t.partitions)} for t in topics],
    }


def _consumer_group_describe(m: Any) -> Plain:
    return {
        "group_ids": m.group_ids,
        "include_authorized_operations": m.include_authorized_operations,
    }


def _offset_commit(m: Any) -> Plain:
    return {
        "group_id": m.group_id,
        "generation_id_or_member_epoch": m.generation_or_epoch,
        "member_id": m.member_id,
        "group_instance_id": m.group_instance_id,
        "retention_time": m.retention_time_ms,
        "topics": [
            _topic(
                topic,
                "partitions",
                [
                    {
                        "partition_index": p.partition,
                        "committed_offset": p.offset,
                        "committed_leader_epoch": p.leader_epoch,
                        "committed_metadata": p.metadata,
                    }
                    for p in topic.partitions
                ],
            )
            for topic in m.topics
        ],
    }


def _offset_fetch(m: Any) -> Plain:
    groups = [
        {
            "group_id": group.group_id,
            "member_id": group.member_id,
            "member_epoch": group.member_epoch,
            "topics": None
            if group.topics is None
            else [_topic(t, "partition_indexes", list(t.partitions)) for t in group.topics],
        }
        for group in m.groups
    ]
    stable = any(group.require_stable for group in m.groups)
    assert all(group.require_stable == stable for group in m.groups)
    first: Plain = groups[0] if groups else {}
    return {
        "groups": groups,
        "group_id": first.get("group_id"),
        "topics": first.get("topics"),
        "require_stable": stable,
    }


def _offset_delete(m: Any) -> Plain:
    return {
        "group_id": m.group_id,
        "topics": [
            _topic(t, "partitions", [{"partition_index": p} for p in t.partitions])
            for t in m.topics
        ],
    }


def _list_groups(m: Any) -> Plain:
    return {"states_filter": m.states_filter, "types_filter": m.types_filter}


def _describe_groups(m: Any) -> Plain:
    return {
        "groups": m.groups,
        "include_authorized_operations": m.include_authorized_operations,
    }


def _delete_groups(m: Any) -> Plain:
    return {"groups_names": m.group_ids}


DESCRIPTIONS: dict[int, Callable[[Any], Plain]] = {
    8: _offset_commit,
    9: _offset_fetch,
    10: _find_coordinator,
    11: _join_group,
    12: _heartbeat,
    13: _leave_group,
    14: _sync_group,
    15: _describe_groups,
    16: _list_groups,
    18: _api_versions,
    42: _delete_groups,
    47: _offset_delete,
    68: _consumer_group_heartbeat,
    69: _consumer_group_describe,
}

# What a decoded message holds for a field that the version does not have.
DEFAULTS: Plain = {
    "client_software_name": "",
    "client_software_version": "",
    "key_type": 0,
    "group_instance_id": None,
    "reason": None,
    "protocol_type": None,
    "protocol_name": None,
    "subscribed_topic_regex": None,
    "retention_time": -1,
    "committed_leader_epoch": -1,
    "member_epoch": -1,
    "require_stable": False,
    "include_authorized_operations": False,
    "states_filter": [],
    "types_filter": [],
}

CASES = [
    pytest.param(API_BY_KEY[key], version, id=f"{API_BY_KEY[key].name}-v{version}")
    for key in DESCRIPTIONS
    for version in range(API_BY_KEY[key].min_version, API_BY_KEY[key].max_version + 1)
    if (key, version) not in NEWER_THAN_KIO
]


def defaults_of(api: Api, version: int) -> Plain:
    defaults = dict(DEFAULTS)
    if api.name in {"OffsetCommit", "OffsetFetch"}:
        defaults |= {"name": ""} if version >= 10 else {"topic_id": NO_TOPIC_ID}
    if api.name == "OffsetFetch" and version == 8:
        defaults["member_id"] = None
    return defaults


@pytest.mark.parametrize(("api", "version"), CASES)
@settings(max_examples=15, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_request_decodes_to_what_kio_wrote(api: Api, version: int, data: st.DataObject) -> None:
    entity = data.draw(request_entities(api.name, version))
    body = to_bytes(entity)
    # A header's worth of bytes in front, and bytes after the body, which Kafka tolerates.
    request = api.decode(b"head" + body + b"\x00\xff", 4, version)
    described = DESCRIPTIONS[api.key](request)
    if api.name == "JoinGroup" and version == 0:
        assert described.pop("rebalance_timeout") == described["session_timeout"]
    expected = plain(entity)
    if api.name == "OffsetFetch" and not request.groups:
        # The groups carry the flag; without one there is nothing to be stable.
        del expected["require_stable"]
    assert_matches(
        expected, {k: _listed(v) for k, v in described.items()}, defaults_of(api, version)
    )
    assert type(request) is api.request_type
    if request_is_kept(api, request):
        assert api.encode_request(request, version) == body
    hash(request)


def request_is_kept(api: Api, request: Any) -> bool:
    """Whether the request has all that kio wrote: the flag of OffsetFetch is kept in its groups."""
    return api.name != "OffsetFetch" or bool(request.groups)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) and value else value if value != () else []
