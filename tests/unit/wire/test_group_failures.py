"""Where the error of a whole request stands in each reply."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupReply,
    LeaveGroupRequest,
    LeavingMember,
    LeftMember,
    SyncGroupRequest,
)
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from groupd.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    ListGroupsRequest,
)
from groupd.protocol.messages.offsets import (
    CommitPartition,
    FetchTopic,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    commit_topic,
)
from groupd.protocol.wire.apis import API_BY_KEY
from tests.unit.wire.kio_oracle import read_response

CODE = ErrorCode.NOT_COORDINATOR
TOPIC_ID = bytes(range(16))


def failed(key: int, request: Any, version: int, message: str | None = "why") -> dict[str, Any]:
    api = API_BY_KEY[key]
    reply = api.failure(request, CODE, message)
    return read_response(api.name, version, api.encode(reply, version))


@pytest.mark.parametrize(
    ("key", "request_", "version"),
    [
        (11, JoinGroupRequest("g", 1, 1, "m", "consumer", ()), 9),
        (12, HeartbeatRequest("g", 1, "m"), 4),
        (13, LeaveGroupRequest("g", (LeavingMember("m"),)), 0),
        (13, LeaveGroupRequest("g", (LeavingMember("m"),)), 5),
        (14, SyncGroupRequest("g", 1, "m"), 5),
        (16, ListGroupsRequest(), 5),
        (47, OffsetDeleteRequest("g", ()), 0),
        (68, ConsumerGroupHeartbeatRequest("g", "m", 1), 1),
    ],
)
def test_error_at_the_top(key: int, request_: Any, version: int) -> None:
    assert failed(key, request_, version)["error_code"] == CODE


def test_join_group_failure_has_the_defaults_of_an_error() -> None:
    for version in range(10):
        reply = failed(11, JoinGroupRequest("g", 1, 1, "m", "consumer", ()), version)
        assert (reply["generation_id"], reply["leader"], reply["member_id"]) == (-1, "", "")
        assert reply["protocol_name"] == ("" if version < 7 else None)
        assert reply["members"] == []


def test_consumer_group_heartbeat_failure_sets_code_and_message_only() -> None:
    assert failed(68, ConsumerGroupHeartbeatRequest("g", "m", 1), 1) == {
        "throttle_time": 0,
        "error_code": CODE,
        "error_message": "why",
        "member_id": None,
        "member_epoch": 0,
        "heartbeat_interval": 0,
        "assignment": None,
    }


@pytest.mark.parametrize(
    ("key", "request_", "version", "field"),
    [
        (15, DescribeGroupsRequest(("a", "b")), 6, "groups"),
        (42, DeleteGroupsRequest(("a", "b")), 2, "results"),
        (69, ConsumerGroupDescribeRequest(("a", "b")), 1, "groups"),
    ],
)
def test_error_on_every_group(key: int, request_: Any, version: int, field: str) -> None:
    results = failed(key, request_, version)[field]
    assert [(r["group_id"], r["error_code"]) for r in results] == [("a", CODE), ("b", CODE)]
    assert all(r.get("error_message", "why") == "why" for r in results)


def test_find_coordinator_failure_on_every_key_or_at_the_top() -> None:
    batch = failed(10, FindCoordinatorRequest(("a", "b")), 4)
    assert [
        (c["key"], c["node_id"], c["port"], c["error_code"]) for c in batch["coordinators"]
    ] == [
        ("a", -1, -1, CODE),
        ("b", -1, -1, CODE),
    ]
    for version in range(4):
        single = failed(10, FindCoordinatorRequest(("a",)), version)
        assert (single["error_code"], single["node_id"], single["host"]) == (CODE, -1, "")


@pytest.mark.parametrize("version", range(2, 11))
def test_offset_commit_failure_on_every_partition(version: int) -> None:
    partitions = (CommitPartition(0, 5), CommitPartition(3, 6))
    request = OffsetCommitRequest("g", (commit_topic("t", partitions, TOPIC_ID),))
    (topic,) = failed(8, request, version)["topics"]
    assert topic.get("name", "t") == "t"
    assert topic.get("topic_id", TOPIC_ID) == TOPIC_ID
    assert topic["partitions"] == [
        {"partition_index": 0, "error_code": CODE},
        {"partition_index": 3, "error_code": CODE},
    ]


FETCH = OffsetFetchRequest((OffsetFetchGroup("g", (FetchTopic("t", (0, 3), TOPIC_ID),)),))


def test_offset_fetch_v1_failure_on_every_partition() -> None:
    (topic,) = failed(9, FETCH, 1)["topics"]
    assert topic["name"] == "t"
    assert topic["partitions"] == [
        {"partition_index": p, "committed_offset": -1, "metadata": "", "error_code": CODE}
        for p in (0, 3)
    ]


@pytest.mark.parametrize("version", range(2, 8))
def test_offset_fetch_v2_to_v7_failure_at_the_top_without_topics(version: int) -> None:
    reply = failed(9, FETCH, version)
    assert (reply["error_code"], reply["topics"]) == (CODE, [])


@pytest.mark.parametrize("version", range(8, 11))
def test_offset_fetch_v8_failure_on_the_group_without_topics(version: int) -> None:
    request = OffsetFetchRequest((*FETCH.groups, OffsetFetchGroup("all", None)))
    assert failed(9, request, version)["groups"] == [
        {"group_id": "g", "topics": [], "error_code": CODE},
        {"group_id": "all", "topics": [], "error_code": CODE},
    ]


def test_leave_group_before_v3_lifts_the_only_members_error() -> None:
    api = API_BY_KEY[13]
    reply = LeaveGroupReply(members=(LeftMember("m", None, ErrorCode.UNKNOWN_MEMBER_ID),))
    for version in range(3):
        plain = read_response(api.name, version, api.encode(reply, version))
        assert plain["error_code"] == ErrorCode.UNKNOWN_MEMBER_ID
    assert read_response(api.name, 3, api.encode(reply, 3))["error_code"] == ErrorCode.NONE
