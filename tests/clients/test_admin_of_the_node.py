"""Replicas, leaders, controllers, features and AlterConfigs from Python's admin clients.

Java's Admin makes the same requests in `test_kafka_node_tools`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from kafka import TopicPartition as PyTopicPartition
from kafka.admin import KafkaAdminClient

from tests.clients.conftest import TopicMaker
from tests.clients.group import SETTLE_S
from tests.support.admin import broker_ids, leader
from tests.support.peer import Peer
from tests.support.process import wait_until

TIMEOUT_S = 20.0


@pytest.fixture
def kafka_python(peer: Peer) -> Iterator[Any]:
    made = KafkaAdminClient(bootstrap_servers=peer.bootstrap)
    yield made
    made.close()


@pytest.fixture
def confluent(peer: Peer) -> AdminClient:
    return AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})


def test_kafka_python_describes_the_nodes(
    kafka_python: Any, topics: TopicMaker, peer: Peer
) -> None:
    (topic,) = topics({"described": 1})
    nodes, holders = broker_ids(peer.bootstrap), []
    brokers = kafka_python.describe_log_dirs()
    assert sorted(broker["broker"] for broker in brokers) == nodes
    for broker in brokers:
        (log_dir,) = broker["log_dirs"]
        if topic in {found["name"] for found in log_dir["topics"]}:
            holders.append(broker["broker"])
    assert holders == [leader(peer.bootstrap, topic)]
    (metadata,) = kafka_python.describe_metadata_quorum()["topics"]
    assert metadata["partitions"][0]["leader_id"] in nodes
    assert kafka_python.describe_features()["group.version"]["finalized"] == (1, 1)
    assert kafka_python.update_features({"group.version": 1}) == {"group.version": "OK"}


def test_kafka_python_reassigns_to_where_it_is(
    kafka_python: Any, topics: TopicMaker, peer: Peer
) -> None:
    (topic,) = topics({"reassigned": 1})
    node = leader(peer.bootstrap, topic)
    place = PyTopicPartition(topic, 0)
    assert kafka_python.alter_partition_reassignments({place: [node]}) == {place: None}
    assert kafka_python.list_partition_reassignments() == {}


def test_librdkafka_is_told_that_no_election_is_needed(
    confluent: AdminClient, topics: TopicMaker
) -> None:
    (topic,) = topics({"elected": 1})
    place = TopicPartition(topic, 0)
    for kind in (ElectionType.PREFERRED, ElectionType.UNCLEAN):
        ((_, error),) = confluent.elect_leaders(kind, [place]).result(TIMEOUT_S).items()
        assert error.name() == "ELECTION_NOT_NEEDED"


def shown(confluent: AdminClient, topic: str) -> dict[str, tuple[str, int, list[str]]]:
    """Config -> (value, source, names of its synonyms)."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    found = confluent.describe_configs([resource])[resource].result(TIMEOUT_S)
    return {
        name: (entry.value, entry.source, list(entry.synonyms)) for name, entry in found.items()
    }


def test_librdkafka_replaces_configs_and_sees_synonyms(
    confluent: AdminClient, topics: TopicMaker
) -> None:
    (topic,) = topics({"replaced": 1})
    for configs in ({"retention.ms": "5"}, {"segment.ms": "7000"}):
        resource = ConfigResource(ResourceType.TOPIC, topic, set_config=configs)
        with pytest.warns(DeprecationWarning, match="alter_configs"):
            confluent.alter_configs([resource])[resource].result(TIMEOUT_S)
    wait_until(
        lambda: shown(confluent, topic)["segment.ms"][0] == "7000", SETTLE_S, "the new configs"
    )
    now = shown(confluent, topic)
    assert now["segment.ms"] == ("7000", 1, ["segment.ms"])
    assert now["retention.ms"][:2] == ("604800000", 5)
    assert now["max.message.bytes"] == ("1048588", 5, ["message.max.bytes"])


def test_aiokafka_replaces_configs(peer: Peer, confluent: AdminClient, topics: TopicMaker) -> None:
    (topic,) = topics({"replaced": 1})

    async def alter() -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=peer.bootstrap)
        await admin.start()
        try:
            resource = AioConfigResource(AioConfigResourceType.TOPIC, topic, {"retention.ms": "9"})
            return await admin.alter_configs([resource])
        finally:
            await admin.close()

    (reply,) = asyncio.run(alter())
    assert reply.resources[0][:2] == (0, None)
    wait_until(
        lambda: shown(confluent, topic)["retention.ms"][:2] == ("9", 1), SETTLE_S, "the new value"
    )
