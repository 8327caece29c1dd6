"""CreateTopics and CreatePartitions over TCP: what a one-node Kafka refuses, codes and texts.

Holds for a real broker too (GROUPD_PEER=kafka).
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from groupd.protocol.errors import ErrorCode
from tests.support.peer import peer_kind
from tests.support.wire_client import WireClient

NOBODY = 7
"""The id of a broker that does not exist."""

HERE = -1
"""Stands for the id of the broker that is asked."""

BY_HAND = "A manual partition assignment was specified, but {} was not set to -1."
NO_BROKER = "The manual partition assignment includes broker {}, but no such broker is registered."


@pytest.fixture
def here(client: WireClient) -> int:
    """The id of the broker."""
    found: int = client.call("Metadata", 12, topics=[])["brokers"][0]["node_id"]
    return found


def replicas_of(asked: list[int], here: int) -> list[int]:
    return [here if node == HERE else node for node in asked]


def create(client: WireClient, *topics: dict[str, Any], **fields: Any) -> list[tuple[Any, ...]]:
    """(name, code, message) per entry of the reply."""
    defaults = {"num_partitions": -1, "replication_factor": -1, "assignments": [], "configs": []}
    asked = [{**defaults, **topic} for topic in topics]
    reply = client.call("CreateTopics", 7, topics=asked, timeout=30_000, **fields)
    return [
        (found["name"], found["error_code"], found["error_message"]) for found in reply["topics"]
    ]


ASSIGNMENTS: dict[str, tuple[list[tuple[int, list[int]]], str]] = {
    "a broker that does not exist": ([(0, [NOBODY])], NO_BROKER.format(NOBODY)),
    "one that exists and one that does not": ([(0, [HERE, NOBODY])], NO_BROKER.format(NOBODY)),
    "no replicas": (
        [(0, [])],
        "The manual partition assignment includes an empty replica list.",
    ),
    "a broker twice": (
        [(0, [HERE, HERE])],
        "The manual partition assignment includes the broker {here} more than once.",
    ),
    "a partition twice": (
        [(0, [HERE]), (0, [HERE])],
        "Found multiple manual partition assignments for partition 0",
    ),
    "a gap": (
        [(0, [HERE]), (2, [HERE])],
        "partitions should be a consecutive 0-based integer sequence",
    ),
    "not from 0": (
        [(1, [HERE])],
        "partitions should be a consecutive 0-based integer sequence",
    ),
    "empty replicas after others": (
        [(0, [HERE]), (1, [])],
        "The manual partition assignment includes an empty replica list.",
    ),
}


@pytest.mark.parametrize("validate_only", [False, True])
@pytest.mark.parametrize("case", ASSIGNMENTS)
def test_manual_assignments_of_a_new_topic_that_are_refused(
    client: WireClient, here: int, case: str, validate_only: bool
) -> None:
    given, text = ASSIGNMENTS[case]
    assignments = [
        {"partition_index": partition, "broker_ids": replicas_of(replicas, here)}
        for partition, replicas in given
    ]
    name = uuid.uuid4().hex
    (found,) = create(
        client, {"name": name, "assignments": assignments}, validate_only=validate_only
    )
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert found == (name, code, text.replace("{here}", str(here)))


def test_manual_assignments_go_without_numbers(client: WireClient, here: int) -> None:
    name = uuid.uuid4().hex
    assignments = [{"partition_index": 0, "broker_ids": [here]}]
    both = {"name": name, "assignments": assignments, "num_partitions": 1}
    assert create(client, both) == [
        (
            name,
            ErrorCode.INVALID_REQUEST,
            BY_HAND.format("numPartitions"),
        )
    ]
    assert create(client, {**both, "num_partitions": -1, "replication_factor": 1}) == [
        (
            name,
            ErrorCode.INVALID_REQUEST,
            BY_HAND.format("replication factor"),
        )
    ]
    assert create(client, {**both, "num_partitions": -1}) == [(name, 0, None)]


NAMES = {
    "": "the empty string is not allowed",
    ".": "'.' is not allowed",
    "..": "'..' is not allowed",
    "x" * 250: f"the length of '{'x' * 250}' is longer than the max allowed length 249",
    "a b": (
        "'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    ),
    "ä": "'ä' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
}


@pytest.mark.parametrize("name", NAMES)
def test_illegal_names(client: WireClient, name: str) -> None:
    text = f"Topic name is invalid: {NAMES[name]}"
    found = create(client, {"name": name, "num_partitions": 1, "replication_factor": 1})
    assert found == [(name, ErrorCode.INVALID_TOPIC_EXCEPTION, text)]


def test_names_that_only_differ_in_dot_and_underscore_collide(client: WireClient) -> None:
    stem = uuid.uuid4().hex
    longest = f"{stem}.{'y' * (248 - len(stem))}"
    assert len(longest) == 249
    one = {"num_partitions": 1, "replication_factor": 1}
    assert create(client, {"name": longest, **one}) == [(longest, 0, None)]
    other = longest.replace(".", "_")
    assert create(client, {"name": other, **one}) == [
        (
            other,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{other}' collides with existing topic: {longest}",
        )
    ]


def test_the_metadata_topic_cannot_be_created(client: WireClient) -> None:
    name = f"x{uuid.uuid4().hex}"
    one = {"num_partitions": 1, "replication_factor": 1}
    found = create(client, {"name": "__cluster_metadata", **one}, {"name": name, **one})
    assert sorted(found) == [
        (
            "__cluster_metadata",
            ErrorCode.INVALID_REQUEST,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (name, 0, None),
    ]


def test_more_partitions_than_a_request_may_make_fail_all_of_it(client: WireClient) -> None:
    names = [uuid.uuid4().hex for _ in range(3)]
    counts = [5000, 5000, 1]
    asked = [
        {"name": name, "num_partitions": count, "replication_factor": 1}
        for name, count in zip(names, counts, strict=True)
    ]
    text = "Excessively large number of partitions per request."
    found = create(client, *asked)
    assert sorted(found) == sorted((name, ErrorCode.POLICY_VIOLATION, text) for name in names)


def test_configs_without_a_value_are_named(client: WireClient) -> None:
    name = uuid.uuid4().hex
    configs = [{"name": "retention.ms", "value": None}, {"name": "segment.ms", "value": None}]
    asked = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": configs}
    text = "Null value not supported for topic configs: retention.ms,segment.ms"
    assert create(client, asked) == [(name, ErrorCode.INVALID_CONFIG, text)]


def grow(
    client: WireClient, name: str, count: int, replicas: list[list[int]] | None
) -> tuple[int, str | None]:
    assignments = None if replicas is None else [{"broker_ids": one} for one in replicas]
    asked = [{"name": name, "count": count, "assignments": assignments}]
    (found,) = client.call("CreatePartitions", 3, topics=asked, timeout=30_000)["results"]
    return found["error_code"], found["error_message"]


GROWTHS: dict[str, tuple[list[list[int]], str]] = {
    "a broker that does not exist": ([[HERE], [NOBODY]], NO_BROKER.format(NOBODY)),
    "too few": (
        [[HERE]],
        "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
    ),
    "too many": (
        [[HERE], [HERE], [HERE]],
        "Attempted to add 2 additional partition(s), but only 3 assignment(s) were specified.",
    ),
    "no replicas": (
        [[HERE], []],
        "The manual partition assignment includes an empty replica list.",
    ),
    "a broker twice": (
        [[HERE], [HERE, HERE]],
        "The manual partition assignment includes the broker {here} more than once.",
    ),
}


@pytest.mark.parametrize("case", GROWTHS)
def test_manual_assignments_of_new_partitions_that_are_refused(
    client: WireClient, here: int, case: str
) -> None:
    replicas, text = GROWTHS[case]
    name = uuid.uuid4().hex
    create(client, {"name": name, "num_partitions": 1, "replication_factor": 1})
    found = grow(client, name, 3, [replicas_of(one, here) for one in replicas])
    assert found == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, text.replace("{here}", str(here)))
    assert grow(client, name, 3, [[here], [here]]) == (0, None)


def test_a_topic_never_shrinks(client: WireClient) -> None:
    name = uuid.uuid4().hex
    create(client, {"name": name, "num_partitions": 2, "replication_factor": 1})
    assert grow(client, name, 2, None) == (
        ErrorCode.INVALID_PARTITIONS,
        "Topic already has 2 partition(s).",
    )
    for fewer in (1, 0, -1):
        assert grow(client, name, fewer, None) == (
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name} currently has 2 partition(s); {fewer} would not be an increase.",
        )
    assert grow(client, f"{name}-x", 2, None) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)


def test_the_logs_of_the_coordinators_are_topics_that_exist(client: WireClient) -> None:
    """Kafka makes them where they do not exist yet; here they always do."""
    names = ("__consumer_offsets", "__transaction_state")
    asked = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    codes = {0, ErrorCode.TOPIC_ALREADY_EXISTS} if peer_kind() == "kafka" else {36}
    assert {code for _, code, _ in create(client, *asked)} <= codes
    code = ErrorCode.TOPIC_ALREADY_EXISTS
    wanted = [(name, code, f"Topic '{name}' already exists.") for name in names]
    assert create(client, *asked) == wanted
    assert create(client, *asked, validate_only=True) == wanted
    metadata = [{"topic_id": bytes(16), "name": name} for name in names]
    for found in client.call("Metadata", 12, topics=metadata)["topics"]:
        assert (found["error_code"], found["is_internal"]) == (0, True), found["name"]
    name = "__cluster_metadata"
    text = f"Creation of internal topic {name} is prohibited."
    assert create(client, {"name": name}) == [(name, ErrorCode.INVALID_REQUEST, text)]
