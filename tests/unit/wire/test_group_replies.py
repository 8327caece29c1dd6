"""Replies: we encode, kio decodes all of it, both must say the same in every field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import (
    HeartbeatReply,
    JoinGroupMember,
    JoinGroupReply,
    LeaveGroupReply,
    LeftMember,
    SyncGroupReply,
)
from groupd.protocol.messages.cluster import ApiRange, ApiVersionsReply, Feature
from groupd.protocol.messages.consumer_group import (
    ConsumerGroupDescribeReply,
    ConsumerGroupHeartbeatReply,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    NamedTopicPartitions,
    TopicPartitions,
)
from groupd.protocol.messages.groups import (
    DeletedGroup,
    DeleteGroupsReply,
    DescribedGroup,
    DescribedMember,
    DescribeGroupsReply,
    FindCoordinatorReply,
    FoundCoordinator,
    ListedGroup,
    ListGroupsReply,
)
from groupd.protocol.messages.offsets import (
    FetchedGroup,
    FetchedOffset,
    FetchedTopic,
    OffsetCommitReply,
    OffsetDeleteReply,
    OffsetFetchReply,
    PartitionError,
    TopicErrors,
)
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.registry import Api
from tests.unit.wire.kio_oracle import NEWER_THAN_KIO, assert_matches, read_response

Plain = dict[str, Any]

# kio 0.6 does not know the newest code.
ERRORS = st.sampled_from([code for code in ErrorCode if code != ErrorCode.GROUP_DELETION_FAILED])
TEXT = st.one_of(st.text(max_size=12), st.text(min_size=130, max_size=140))
NULLABLE_TEXT = st.none() | TEXT
BYTES = st.binary(max_size=200)
INT8 = st.integers(-(2**7), 2**7 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TOPIC_ID = st.binary(min_size=16, max_size=16)


def several(item: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.lists(item, max_size=most).map(tuple)


PARTITIONS = several(INT32, 150)
TOPIC_ERRORS = several(
    st.builds(TopicErrors, TEXT, several(st.builds(PartitionError, INT32, ERRORS)), TOPIC_ID)
)
FETCHED_TOPICS = several(
    st.builds(
        FetchedTopic,
        TEXT,
        several(st.builds(FetchedOffset, INT32, INT64, INT32, TEXT | st.just(""), ERRORS)),
        TOPIC_ID,
    )
)
FETCHED_GROUP = st.builds(FetchedGroup, TEXT, FETCHED_TOPICS, st.just(ErrorCode.NONE) | ERRORS)
ASSIGNMENT = several(st.builds(NamedTopicPartitions, TOPIC_ID, TEXT, PARTITIONS))
FOUND = st.builds(FoundCoordinator, TEXT, INT32, TEXT, INT32, ERRORS, NULLABLE_TEXT)


def replies(api: Api, version: int) -> st.SearchStrategy[Any]:
    match api.name:
        case "ApiVersions":
            # 0 and -1 mean "absent", so they have to come up often.
            feature = st.builds(Feature, TEXT, st.just(0) | INT16, st.just(0) | INT16, INT16)
            return st.builds(
                ApiVersionsReply,
                ERRORS,
                several(st.builds(ApiRange, INT16, INT16, INT16)),
                several(feature),
                st.just(-1) | INT64,
            )
        case "FindCoordinator":
            found = several(FOUND) if version >= 4 else st.tuples(FOUND)
            return st.builds(FindCoordinatorReply, found)
        case "OffsetFetch":
            groups = several(FETCHED_GROUP) if version >= 8 else st.tuples(FETCHED_GROUP)
            return st.builds(OffsetFetchReply, groups)
        case "LeaveGroup":
            member = st.builds(LeftMember, TEXT, NULLABLE_TEXT, ERRORS)
            return st.builds(LeaveGroupReply, st.just(ErrorCode.NONE) | ERRORS, several(member))
        case _:
            return SAME_FOR_ALL_VERSIONS[api.name]


SAME_FOR_ALL_VERSIONS: dict[str, st.SearchStrategy[Any]] = {
    "Heartbeat": st.builds(HeartbeatReply, ERRORS),
    "SyncGroup": st.builds(SyncGroupReply, ERRORS, NULLABLE_TEXT, NULLABLE_TEXT, BYTES),
    "JoinGroup": st.builds(
        JoinGroupReply,
        ERRORS,
        INT32,
        NULLABLE_TEXT,
        NULLABLE_TEXT,
        TEXT,
        st.booleans(),
        TEXT,
        several(st.builds(JoinGroupMember, TEXT, NULLABLE_TEXT, BYTES)),
    ),
    "OffsetCommit": st.builds(OffsetCommitReply, TOPIC_ERRORS),
    "OffsetDelete": st.builds(OffsetDeleteReply, ERRORS, TOPIC_ERRORS),
    "ListGroups": st.builds(
        ListGroupsReply, ERRORS, several(st.builds(ListedGroup, TEXT, TEXT, TEXT, TEXT))
    ),
    "DeleteGroups": st.builds(
        DeleteGroupsReply, several(st.builds(DeletedGroup, TEXT, ERRORS, NULLABLE_TEXT))
    ),
    "DescribeGroups": st.builds(
        DescribeGroupsReply,
        several(
            st.builds(
                DescribedGroup,
                TEXT,
                ERRORS,
                NULLABLE_TEXT,
                TEXT,
                TEXT,
                TEXT,
                several(
                    st.builds(DescribedMember, TEXT, NULLABLE_TEXT, TEXT, TEXT, BYTES, BYTES), 2
                ),
                INT32,
            ),
            2,
        ),
    ),
    "ConsumerGroupHeartbeat": st.builds(
        ConsumerGroupHeartbeatReply,
        ERRORS,
        NULLABLE_TEXT,
        NULLABLE_TEXT,
        INT32,
        INT32,
        st.none() | several(st.builds(TopicPartitions, TOPIC_ID, PARTITIONS)),
    ),
    "ConsumerGroupDescribe": st.builds(
        ConsumerGroupDescribeReply,
        several(
            st.builds(
                DescribedConsumerGroup,
                TEXT,
                ERRORS,
                NULLABLE_TEXT,
                TEXT,
                INT32,
                INT32,
                TEXT,
                several(
                    st.builds(
                        DescribedConsumerMember,
                        TEXT,
                        NULLABLE_TEXT,
                        NULLABLE_TEXT,
                        INT32,
                        TEXT,
                        TEXT,
                        several(TEXT),
                        NULLABLE_TEXT,
                        ASSIGNMENT,
                        ASSIGNMENT,
                        INT8,
                    ),
                    2,
                ),
                INT32,
            ),
            2,
        ),
    ),
}

# Where kio's name of a field is not ours.
KIO_NAMES = {
    "error": "error_code",
    "heartbeat_interval_ms": "heartbeat_interval",
    "features_epoch": "finalized_features_epoch",
}
KIO_NAMES_IN: dict[type, dict[str, str]] = {
    DescribedGroup: {"state": "group_state"},
    DescribedConsumerGroup: {"state": "group_state"},
    ListedGroup: {"state": "group_state"},
    DescribedMember: {"metadata": "member_metadata", "assignment": "member_assignment"},
    PartitionError: {"partition": "partition_index"},
    FetchedOffset: {
        "partition": "partition_index",
        "offset": "committed_offset",
        "leader_epoch": "committed_leader_epoch",
    },
}


def described(value: Any) -> Any:
    """A reply with kio's field names, all versions at once."""
    if isinstance(value, tuple):
        return [described(item) for item in value]
    if not isinstance(value, Struct):
        return value
    names = KIO_NAMES | KIO_NAMES_IN.get(type(value), {})
    plain = {
        names.get(name, name): described(getattr(value, name)) for name in value.__struct_fields__
    }
    if isinstance(value, DescribedConsumerMember):
        for name in ("assignment", "target_assignment"):
            plain[name] = {"topic_partitions": plain[name]}
    return plain


def _join_group(plain: Plain, version: int) -> None:
    if version < 7:
        plain["protocol_name"] = plain["protocol_name"] or ""


def _leave_group(plain: Plain, version: int) -> None:
    if version < 3 and plain["error_code"] == 0 and plain["members"]:
        plain["error_code"] = plain["members"][0]["error_code"]


def _find_coordinator(plain: Plain, version: int) -> None:
    if version < 4:
        plain.update(plain["coordinators"][0])


def _consumer_group_heartbeat(plain: Plain, _: int) -> None:
    if plain["assignment"] is not None:
        plain["assignment"] = {"topic_partitions": plain["assignment"]}


def _offset_fetch(plain: Plain, version: int) -> None:
    for group in plain["groups"]:
        if group["error_code"] and version >= 2:
            group["topics"] = []
    if version < 8:
        plain.update(plain["groups"][0])


def _api_versions(plain: Plain, version: int) -> None:
    features = plain["features"]
    plain["zk_migration_ready"] = False
    plain["supported_features"] = [f for f in features if version >= 4 or f["min_version"]]
    plain["finalized_features"] = [
        {"name": f["name"], "max_version_level": f["level"], "min_version_level": f["level"]}
        for f in features
        if f["level"]
    ]


ADJUST: dict[str, Callable[[Plain, int], None]] = {
    "JoinGroup": _join_group,
    "LeaveGroup": _leave_group,
    "FindCoordinator": _find_coordinator,
    "ConsumerGroupHeartbeat": _consumer_group_heartbeat,
    "OffsetFetch": _offset_fetch,
    "ApiVersions": _api_versions,
}

NAMES = {"ApiVersions", "FindCoordinator", "LeaveGroup", "OffsetFetch", *SAME_FOR_ALL_VERSIONS}
CASES = [
    pytest.param(api, version, id=f"{api.name}-v{version}")
    for api in API_BY_KEY.values()
    if api.name in NAMES
    for version in range(api.min_version, api.max_version + 1)
    if (api.key, version) not in NEWER_THAN_KIO
]


@pytest.mark.parametrize(("api", "version"), CASES)
@settings(max_examples=12, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_kio_reads_what_we_encode(api: Api, version: int, data: st.DataObject) -> None:
    reply = data.draw(replies(api, version))
    throttle_ms = data.draw(st.sampled_from((0, 1, 60_000)))
    actual = read_response(api.name, version, api.encode(reply, version, throttle_ms))
    expected = described(reply)
    ADJUST.get(api.name, lambda plain, version: None)(expected, version)
    # The field comes with v1, v2 or v3.
    expected["throttle_time"] = throttle_ms
    assert_matches(actual, expected, {})
    body = bytes(api.encode(reply, version))
    found = api.decode_reply(b"head" + body + b"tail", 4, version)
    assert type(found) is type(reply)
    if api.name == "ApiVersions" and version >= 3:
        # Levels are not kept.
        reply, found = [
            replace(one, features=tuple([replace(f, level=0) for f in one.features]))
            for one in (reply, found)
        ]
        body = bytes(api.encode(reply, version))
    assert api.encode(found, version) == body
