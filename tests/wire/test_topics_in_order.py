"""A request sees what those before it on its connection have done, though none was waited for:
topics and configs. Kafka answers when its controller has written them and its broker hears of them
a moment later, so these tests are for groupd only."""

from __future__ import annotations

import pytest

from tests.support.wire_client import WireClient
from tests.support.wire_requests import create_topic, metadata, produce, produced

ROUNDS = 20
UNKNOWN_TOPIC = 3


@pytest.mark.parametrize("node", ["leader", "coordinator"])
def test_topics_that_are_made_grown_and_deleted(
    request: pytest.FixtureRequest, name: str, node: str
) -> None:
    """In a cluster another node may be asked for these than the one that coordinates the group."""
    asked: WireClient = request.getfixturevalue(node)
    for number in range(ROUNDS):
        topic = f"{name}-{number}"
        grow = {"name": topic, "count": 3}
        replies = asked.pipeline(
            [
                create_topic(topic),
                metadata(topic),
                ("CreatePartitions", 3, {"topics": [grow], "timeout": 10_000}),
                metadata(topic),
                ("DeleteTopics", 5, {"topic_names": [topic], "timeout": 10_000}),
                metadata(topic),
            ]
        )
        shown = [
            (reply["topics"][0]["error_code"], len(reply["topics"][0]["partitions"]))
            for reply in replies[1::2]
        ]
        assert shown == [(0, 1), (0, 3), (UNKNOWN_TOPIC, 0)]


def test_a_topic_can_be_written_and_committed_right_behind_its_creation(
    leader: WireClient, coordinator: WireClient, name: str
) -> None:
    for number in range(ROUNDS):
        topic = f"{name}-{number}"
        _, made = leader.pipeline([create_topic(topic), produce(topic)])
        assert produced(made) == 0
        topic = f"{name}-{number}-b"
        topics = [{"name": topic, "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
        fields = {"group_id": name, "generation_id_or_member_epoch": -1, "topics": topics}
        _, committed = coordinator.pipeline([create_topic(topic), ("OffsetCommit", 8, fields)])
        assert committed["topics"][0]["partitions"][0]["error_code"] == 0


@pytest.mark.parametrize("kind", [2, 32])
def test_changed_configs_are_described(coordinator: WireClient, name: str, kind: int) -> None:
    key = {2: "retention.ms", 32: "consumer.session.timeout.ms"}[kind]
    resource = {"resource_type": kind, "resource_name": name}
    for value in range(50_000, 50_000 + ROUNDS):
        change = {"name": key, "config_operation": 0, "value": str(value)}
        changed, described = coordinator.pipeline(
            [
                ("IncrementalAlterConfigs", 1, {"resources": [{**resource, "configs": [change]}],
                                                "validate_only": False}),
                ("DescribeConfigs", 4, {"resources": [{**resource, "configuration_keys": [key]}],
                                        "include_synonyms": False,
                                        "include_documentation": False}),
            ]
        )  # fmt: skip
        assert changed["responses"][0]["error_code"] == 0
        assert described["results"][0]["configs"][0]["value"] == str(value)
