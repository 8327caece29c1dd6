"""Each API in each version against kio: requests it writes, replies it reads."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from groupd.protocol.errors import ErrorCode
from tests.unit.wire_data.cases import CASES, VERSIONED, VERSIONED_IDS, Case
from tests.unit.wire_data.data_samples import fetch_full
from tests.unit.wire_data.oracle import check_reply, read_reply, request_bytes

REPLY_LISTS = (
    "topics",
    "responses",
    "results",
    "markers",
    "replica_election_results",
    "filter_results",
)
REQUEST_LISTS = ("topics", "resources", "markers", "creations", "filters")
ERROR_OF_THE_WHOLE = {
    "alter_user_scram_credentials",  # by user, who may be in both lists
    "alter_replica_log_dirs",  # by directory in the request, by topic in the reply
    "describe_log_dirs",
    "describe_quorum",
    "list_partition_reassignments",
    "update_features",
    "describe_client_quotas",
    "share_fetch",
    "share_acknowledge",
    "alter_share_group_offsets",
    "delete_share_group_offsets",
}
"""Failures that do not name every item of the request."""

WITHOUT_ROOM = {("describe_log_dirs", 1), ("describe_log_dirs", 2)}
"""Replies that have no place for an error: nothing is described."""
UNREADABLE = {"create_delegation_token", "renew_delegation_token", "expire_delegation_token"}
"""Their replies tell times of -1, which kio refuses: see `test_bytes`."""

NOT_ALL_KEPT = {fetch_full}
"""Requests with fields that only replicas send, which are skipped."""

PARTITIONED = {"produce", "fetch", "list_offsets", "offset_for_leader_epoch", "delete_records"}

versioned = pytest.mark.parametrize(("case", "version"), VERSIONED, ids=VERSIONED_IDS)


@versioned
def test_decodes_what_kio_writes(case: Case, version: int) -> None:
    for sample in case.requests:
        message, values = sample(version)
        body = request_bytes(case.name, version, values)
        assert case.api.decode(body, 0, version) == message, sample.__name__
        # The body is found after a header, and bytes behind it are no part of it.
        assert case.api.decode(b"head" + body + b"tail", 4, version) == message


@versioned
def test_kio_reads_what_is_encoded(case: Case, version: int) -> None:
    for sample in case.replies:
        message, values = sample(version)
        check_reply(case.name, version, bytes(case.api.encode(message, version)), values)


@versioned
def test_requests_are_written_as_kio_writes_them(case: Case, version: int) -> None:
    for sample in case.requests:
        message, values = sample(version)
        body = bytes(case.api.encode_request(message, version))
        assert case.api.decode(body, 0, version) == message
        if sample not in NOT_ALL_KEPT:
            assert body == request_bytes(case.name, version, values), sample.__name__


@versioned
def test_replies_are_read_in_full(case: Case, version: int) -> None:
    """What is read from the bytes that kio agrees with gives the same bytes again."""
    for sample in case.replies:
        message, _ = sample(version)
        body = bytes(case.api.encode(message, version))
        found = case.api.decode_reply(b"head" + body + b"tail", 4, version)
        assert type(found) is type(message)
        assert case.api.encode(found, version) == body, sample.__name__


@versioned
def test_replies_say_how_long_the_client_is_to_wait(case: Case, version: int) -> None:
    for sample in case.replies:
        message, values = sample(version)
        body = bytes(case.api.encode(message, version, 1234))
        if "throttle_time_ms" in values:
            values = {**values, "throttle_time_ms": 1234}
        check_reply(case.name, version, body, values)


@versioned
def test_flexible_versions_are_kafkas(case: Case, version: int) -> None:
    module = import_module(f"kio.schema.{case.name}.v{version}.request")
    flags = {item.__flexible__ for item in vars(module).values() if hasattr(item, "__flexible__")}
    assert flags == {case.api.flexible(version)}


@pytest.mark.parametrize(
    ("case", "version"),
    [
        (case, version)
        for case, version in VERSIONED
        if (case.name, version) not in WITHOUT_ROOM and case.name not in UNREADABLE
    ],
)
def test_failure_carries_the_code_everywhere(case: Case, version: int) -> None:
    request, _ = case.requests[0](version)
    reply = case.api.failure(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "not you")
    text = repr(read_reply(case.name, version, bytes(case.api.encode(reply, version))))
    codes = text.count("error_code=<ErrorCode.")
    assert codes == text.count("error_code=<ErrorCode.cluster_authorization_failed: 31>") > 0
    assert text.count("error_message='not you'") == text.count("error_message=")


@pytest.mark.parametrize(
    ("case", "version"),
    [
        (case, version)
        for case, version in VERSIONED
        if case.name not in ERROR_OF_THE_WHOLE | UNREADABLE
    ],
)
def test_failure_names_every_item_of_the_request(case: Case, version: int) -> None:
    request, _ = case.requests[0](version)
    asked = next((getattr(request, name) for name in REQUEST_LISTS if hasattr(request, name)), ())
    reply = case.api.failure(request, ErrorCode.INVALID_REQUEST, None)
    entity = read_reply(case.name, version, bytes(case.api.encode(reply, version)))
    answered: tuple[Any, ...] = next(
        (value for key in REPLY_LISTS if (value := getattr(entity, key, None)) is not None), ()
    )
    assert len(answered) == len(asked)
    if case.name in PARTITIONED:
        partitions = "partition_responses" if case.name == "produce" else "partitions"
        assert [len(getattr(item, partitions)) for item in answered] == [
            len(item.partitions) for item in asked
        ]


def test_keys_and_ranges() -> None:
    """The ranges of Kafka 4.x, as asked of this broker; Produce 0-2 for librdkafka's sake."""
    assert {case.name: (case.api.key, *_range(case)) for case in CASES} == {
        "produce": (0, 0, 13),
        "fetch": (1, 4, 18),
        "list_offsets": (2, 1, 11),
        "metadata": (3, 0, 13),
        "create_topics": (19, 2, 7),
        "delete_topics": (20, 1, 6),
        "delete_records": (21, 0, 2),
        "init_producer_id": (22, 0, 5),
        "offset_for_leader_epoch": (23, 2, 4),
        "add_partitions_to_txn": (24, 0, 5),
        "add_offsets_to_txn": (25, 0, 4),
        "end_txn": (26, 0, 5),
        "sasl_handshake": (17, 0, 1),
        "sasl_authenticate": (36, 0, 2),
        "create_delegation_token": (38, 1, 3),
        "renew_delegation_token": (39, 1, 2),
        "expire_delegation_token": (40, 1, 2),
        "describe_delegation_token": (41, 1, 3),
        "describe_user_scram_credentials": (50, 0, 0),
        "alter_user_scram_credentials": (51, 0, 0),
        "write_txn_markers": (27, 1, 2),
        "txn_offset_commit": (28, 0, 6),
        "describe_acls": (29, 1, 3),
        "create_acls": (30, 1, 3),
        "delete_acls": (31, 1, 3),
        "describe_configs": (32, 1, 4),
        "alter_configs": (33, 0, 2),
        "alter_replica_log_dirs": (34, 1, 2),
        "describe_log_dirs": (35, 1, 5),
        "create_partitions": (37, 0, 3),
        "elect_leaders": (43, 0, 2),
        "incremental_alter_configs": (44, 0, 1),
        "alter_partition_reassignments": (45, 0, 1),
        "list_partition_reassignments": (46, 0, 0),
        "describe_client_quotas": (48, 0, 1),
        "alter_client_quotas": (49, 0, 1),
        "describe_quorum": (55, 0, 2),
        "update_features": (57, 0, 2),
        "describe_cluster": (60, 0, 2),
        "describe_producers": (61, 0, 0),
        "describe_transactions": (65, 0, 0),
        "list_transactions": (66, 0, 2),
        "get_telemetry_subscriptions": (71, 0, 0),
        "push_telemetry": (72, 0, 0),
        "list_config_resources": (74, 0, 1),
        "describe_topic_partitions": (75, 0, 0),
        "share_group_heartbeat": (76, 1, 1),
        "share_group_describe": (77, 1, 1),
        "share_fetch": (78, 1, 2),
        "share_acknowledge": (79, 1, 2),
        "initialize_share_group_state": (83, 0, 0),
        "read_share_group_state": (84, 0, 0),
        "write_share_group_state": (85, 0, 1),
        "delete_share_group_state": (86, 0, 0),
        "read_share_group_state_summary": (87, 0, 1),
        "describe_share_group_offsets": (90, 0, 1),
        "alter_share_group_offsets": (91, 0, 0),
        "delete_share_group_offsets": (92, 0, 0),
    }
    for case in CASES:
        assert (
            case.api.key
            == import_module(f"kio.schema.{case.name}.v{case.versions[-1]}.request")
            .__dict__[case.api.name + "Request"]
            .__api_key__
        )


def _range(case: Case) -> tuple[int, int]:
    return case.api.min_version, case.api.max_version
