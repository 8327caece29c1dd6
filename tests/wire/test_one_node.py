"""What concerns replicas, leaders and controllers, as one node answers it, over TCP.

Holds for a real broker too (GROUPD_PEER=kafka), but for what says so.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from groupd.protocol.errors import ErrorCode
from tests.support.admin import create_topics, produce
from tests.support.peer import Peer, peer_kind
from tests.support.process import wait_until
from tests.support.wire_client import WireClient

NOBODY = 7
QUORUM_TOPIC = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]


@pytest.fixture
def here(client: WireClient) -> int:
    """The id of the broker."""
    found: int = client.call("Metadata", 12, topics=[])["brokers"][0]["node_id"]
    return found


@pytest.fixture
def topic(peer: Peer) -> str:
    """A topic with one partition."""
    name = uuid.uuid4().hex
    create_topics(peer.bootstrap, {name: 1})
    return name


def shown_dirs(client: WireClient, version: int, topics: Any) -> tuple[str, dict[str, Any]]:
    """(path, partition -> size by topic) of the one log directory."""
    reply = client.call("DescribeLogDirs", version, topics=topics)
    (found,) = reply["results"]
    assert found["error_code"] == 0
    sizes = {
        entry["name"]: {
            part["partition_index"]: part["partition_size"] for part in entry["partitions"]
        }
        for entry in found["topics"]
    }
    return found["log_dir"], sizes


@pytest.mark.parametrize("version", range(1, 5))
def test_log_dirs(client: WireClient, peer: Peer, topic: str, version: int) -> None:
    asked = [{"topic": topic, "partitions": [0, 9]}, {"topic": "nowhere", "partitions": [0]}]
    empty = {topic: {0: 0}}
    wait_until(lambda: shown_dirs(client, version, asked)[1] == empty, 10, "the log is there")
    produce(peer.bootstrap, {topic: 1}, 10)
    _, sizes = shown_dirs(client, version, asked)
    assert sizes[topic][0] > 0
    _, sizes_of_all = shown_dirs(client, version, None)
    assert sizes_of_all[topic] == sizes[topic]
    assert shown_dirs(client, version, [])[1] == {}


def test_replicas_stay_in_their_log_dir(client: WireClient, topic: str) -> None:
    asked = [{"topic": topic, "partitions": [0]}]
    wait_until(lambda: topic in shown_dirs(client, 4, asked)[1], 10, "the log is there")
    path, _ = shown_dirs(client, 4, [])

    def alter(path: str) -> dict[str, list[tuple[int, int]]]:
        topics = [{"name": topic, "partitions": [0, 9]}, {"name": "nowhere", "partitions": [0]}]
        reply = client.call("AlterReplicaLogDirs", 2, dirs=[{"path": path, "topics": topics}])
        return {
            found["topic_name"]: sorted(
                (part["partition_index"], part["error_code"]) for part in found["partitions"]
            )
            for found in reply["results"]
        }

    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(path) == {topic: [(0, 0), (9, unknown)], "nowhere": [(0, unknown)]}
    missing = ErrorCode.LOG_DIR_NOT_FOUND
    assert alter("/elsewhere") == {topic: [(0, missing), (9, missing)], "nowhere": [(0, missing)]}


@pytest.mark.parametrize("version", range(3))
def test_no_election_is_needed(client: WireClient, topic: str, version: int) -> None:
    asked = [{"topic": topic, "partitions": [0, 9]}, {"topic": "nowhere", "partitions": [0]}]
    fields = {"topic_partitions": asked, "timeout": 5000}
    if version:
        fields["election_type"] = 1
    reply = client.call("ElectLeaders", version, **fields)
    found = {
        (entry["topic"], part["partition_id"]): (part["error_code"], part["error_message"])
        for entry in reply["replica_election_results"]
        for part in entry["partition_result"]
    }
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == {
        (topic, 0): (
            ErrorCode.ELECTION_NOT_NEEDED,
            "Leader election not needed for topic partition.",
        ),
        (topic, 9): (unknown, f"No such partition as {topic}-9"),
        ("nowhere", 0): (unknown, "No such topic as nowhere"),
    }


def test_elections_of_all_partitions_and_of_an_unknown_type(client: WireClient, topic: str) -> None:
    reply = client.call("ElectLeaders", 2, election_type=0, topic_partitions=None, timeout=5000)
    assert reply["error_code"] == 0
    shown = {
        found["topic"]: found["partition_result"] for found in reply["replica_election_results"]
    }
    assert shown[topic] == []
    asked = [{"topic": topic, "partitions": [0]}]
    reply = client.call("ElectLeaders", 2, election_type=5, topic_partitions=asked, timeout=5000)
    assert reply["error_code"] == ErrorCode.INVALID_REQUEST
    (part,) = reply["replica_election_results"][0]["partition_result"]
    assert part["error_message"] == "Unknown election type 5"


def reassign(
    client: WireClient, name: str, partition: int, replicas: list[int] | None, **fields: Any
) -> tuple[int, str | None]:
    partitions = [{"partition_index": partition, "replicas": replicas}]
    reply = client.call(
        "AlterPartitionReassignments",
        1,
        timeout=5000,
        topics=[{"name": name, "partitions": partitions}],
        **{"allow_replication_factor_change": True, **fields},
    )
    assert reply["error_code"] == 0
    (found,) = reply["responses"][0]["partitions"]
    return found["error_code"], found["error_message"]


def test_reassignments(client: WireClient, here: int, topic: str) -> None:
    assert reassign(client, topic, 0, [here]) == (0, None)
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(client, topic, 0, [here, NOBODY]) == (
        code,
        (
            f"The manual partition assignment includes broker {NOBODY}, but no such broker is "
            "registered."
        ),
    )
    text = "The manual partition assignment includes an empty replica list."
    assert reassign(client, topic, 0, []) == (code, text)
    assert reassign(client, topic, 0, None) == (ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, None)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert reassign(client, topic, 9, [here]) == (
        unknown,
        f"Unable to find partition {topic}:9.",
    )
    text = "Unable to find a topic named nowhere."
    assert reassign(client, "nowhere", 0, [here]) == (unknown, text)
    for asked in (None, [{"name": topic, "partition_indexes": [0]}]):
        reply = client.call("ListPartitionReassignments", 0, timeout=5000, topics=asked)
        assert (reply["error_code"], reply["topics"]) == (0, [])


@pytest.mark.parametrize("version", range(3))
def test_the_quorum_is_this_node(client: WireClient, here: int, version: int) -> None:
    reply = client.call("DescribeQuorum", version, topics=QUORUM_TOPIC)
    (found,) = reply["topics"][0]["partitions"]
    assert (reply["error_code"], found["error_code"], found["leader_id"]) == (0, 0, here)
    (voter,) = found["current_voters"]
    assert voter["replica_id"] == here
    assert voter["log_end_offset"] >= found["high_watermark"] > 0
    assert found["observers"] == []
    if version == 2:
        (node,) = reply["nodes"]
        assert node["node_id"] == here
        assert node["listeners"][0]["port"] > 0


def test_there_is_one_quorum_only(client: WireClient) -> None:
    asked = [{"topic_name": "other", "partitions": [{"partition_index": 0}]}]
    reply = client.call("DescribeQuorum", 2, topics=asked)
    (found,) = reply["topics"][0]["partitions"]
    text = "This server does not host this topic-partition."
    assert (found["error_code"], found["error_message"]) == (3, text)


UPDATES = {
    ("group.version", 9, 1): "group.version. Local controller {node} only supports versions 0-1",
    ("no.such", 1, 1): "no.such. Local controller {node} does not support this feature.",
    ("group.version", -1, 2): "group.version. A feature version cannot be less than 0.",
    ("group.version", 1, 7): (
        "group.version. The controller does not support the given upgrade type."
    ),
    ("group.version", 0, 1): (
        "group.version. Can't downgrade the version of this feature without setting the upgrade "
        "type to either safe or unsafe downgrade."
    ),
    ("transaction.version", 9, 2): (
        "transaction.version. Local controller {node} only supports versions 0-2"
    ),
}


def update(
    client: WireClient, version: int, feature: str, level: int, kind: int
) -> tuple[int, str | None]:
    one = {"feature": feature, "max_version_level": level}
    one |= {"upgrade_type": kind} if version else {"allow_downgrade": kind != 1}
    fields = {"timeout": 5000, "feature_updates": [one]}
    reply = client.call("UpdateFeatures", version, **fields)
    return reply["error_code"], reply["error_message"]


@pytest.mark.parametrize("asked", UPDATES, ids=str)
def test_updates_of_features_that_are_refused(
    client: WireClient, here: int, asked: tuple[str, int, int]
) -> None:
    text = UPDATES[asked].replace("{node}", str(here))
    assert update(client, 2, *asked) == (
        ErrorCode.INVALID_UPDATE_VERSION,
        (
            "The update failed for all features since the following feature had an error: Invalid "
            f"update version {asked[1]} for feature {text}"
        ),
    )


@pytest.mark.parametrize("version", range(3))
def test_features_stay_at_their_level(client: WireClient, version: int) -> None:
    assert update(client, version, "group.version", 1, 1) == (0, None)
    assert update(client, version, "transaction.version", 2, 1) == (0, None)
    if peer_kind() == "kafka":
        return  # It can take a level back, which would change what the other tests see.
    code, message = update(client, version, "group.version", 0, 3)
    assert code == ErrorCode.INVALID_UPDATE_VERSION
    assert message is not None
    assert message.endswith(
        "the setting groupd.group.version of this broker, which is read at its start."
    )
