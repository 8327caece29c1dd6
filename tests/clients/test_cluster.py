"""Real clients of a cluster of three nodes over one PostgreSQL: they go on while nodes are
restarted in order and by kill -9; what is changed through one node is seen on the next at once;
transactions go across nodes that know each other by SASL.

The other client tests run on a cluster too: GROUPD_PEER=cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tests.clients.conftest import GroupMaker, TopicMaker
from tests.clients.exactly_once import Topology
from tests.clients.group import BY_NAME, SETTLE_S, Flavour
from tests.clients.load import Load
from tests.support.admin import create_topics, end_offsets, produce
from tests.support.cluster import ClusterOfDaemons
from tests.support.daemon import Daemon
from tests.support.peer import FAST_SETTINGS, peer_kind
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.raw_member import admin_json
from tests.support.wire_client import WireClient, coordinator_of

PARTITIONS, RECORDS = 6, 800
WAIT_S = 120.0
SETTINGS = {
    **FAST_SETTINGS,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
ROLLED = [
    BY_NAME[name]
    for name in ("confluent-consumer-uniform", "java-consumer-uniform", "franz-consumer-uniform")
]
KILLED = [
    BY_NAME[name]
    for name in (
        "confluent-classic-cooperative-sticky",
        "java-consumer-uniform",
        "aiokafka-classic-range",
        "franz-consumer-uniform",
    )
]

pytestmark = pytest.mark.skipif(peer_kind() == "kafka", reason="about groupd's own cluster")


@pytest.fixture(scope="module")
def nodes(
    tmp_path_factory: pytest.TempPathFactory, postgres: PostgresServer
) -> Iterator[ClusterOfDaemons]:
    url = postgres.url(postgres.new_database())
    made = ClusterOfDaemons(tmp_path_factory.mktemp("cluster"), url, settings=SETTINGS)
    try:
        made.start()
        yield made
        made.stop()
    finally:
        made.close()


@pytest.fixture
def peer(nodes: ClusterOfDaemons) -> ClusterOfDaemons:
    """All nodes run and are settled, whatever a test before has done."""
    for daemon in nodes.daemons:
        if not daemon.process.running:
            daemon.restart()
    nodes.settled()
    return nodes


def owner_of(peer: ClusterOfDaemons, group: str) -> Daemon:
    """The node that serves a group."""
    running = next(daemon for daemon in peer.daemons if daemon.process.running)
    _, port = coordinator_of(running.bootstrap, group)
    (owner,) = [daemon for daemon in peer.daemons if daemon.port == port]
    return owner


def epoch_of(peer: ClusterOfDaemons, group: str) -> int:
    return int(admin_json(owner_of(peer, group), f"/groups/{group}")["group_epoch"])


@pytest.mark.crash
@pytest.mark.timeout(600)
@pytest.mark.parametrize("flavour", ROLLED, ids=lambda flavour: flavour.name)
def test_a_rolling_restart_of_all_nodes_rebalances_nobody(
    peer: ClusterOfDaemons, topics: TopicMaker, make_group: GroupMaker, flavour: Flavour
) -> None:
    (topic,) = counts = topics({"rolled": PARTITIONS})
    group = make_group(flavour)
    process = group.spawn(counts, members=3, commit="each")
    group.wait_covered(counts, [0, 1, 2])
    epoch = epoch_of(peer, group.group_id)
    load = Load(peer.bootstrap, topic, PARTITIONS)
    try:
        wait_until(lambda: group.acknowledged, SETTLE_S, "a first commit", group.describe)
        for daemon in peer.daemons:
            daemon.stop()
            daemon.process.close()
            daemon.start()
            peer.settled()
    finally:
        load.stop()
    group.wait_seen(load.written)
    assert epoch_of(peer, group.group_id) == epoch, "no rebalance"
    assert group.losses() == []
    group.stop(process)
    assert group.errors == []


@pytest.mark.crash
@pytest.mark.timeout(600)
@pytest.mark.parametrize("flavour", KILLED, ids=lambda flavour: flavour.name)
def test_a_group_goes_on_when_its_node_is_killed(
    peer: ClusterOfDaemons, topics: TopicMaker, make_group: GroupMaker, flavour: Flavour
) -> None:
    counts = topics({"a": 2, "b": 4})
    group = make_group(flavour)
    process = group.spawn(counts, members=2, commit="each")
    group.wait_covered(counts, [0, 1])
    produce(peer.bootstrap, counts, 1500)
    writer = threading.Thread(target=produce, args=(peer.bootstrap, counts, 1500))
    writer.start()
    wait_until(lambda: group.acknowledged, SETTLE_S, "a first commit", group.describe)

    acknowledged = dict(group.acknowledged)
    killed = owner_of(peer, group.group_id)
    dead = peer.node_id(killed)
    killed.kill()
    writer.join(WAIT_S)
    assert not writer.is_alive()
    # librdkafka asks the leader for the end of a partition that it has heard of first.
    peer.taken_over(dead)
    ends = end_offsets(peer.bootstrap, counts)
    everything = {(topic, part, at) for (topic, part), end in ends.items() for at in range(end)}
    group.wait_seen(everything, WAIT_S)
    group.wait_committed(ends, WAIT_S)
    again = {place for place in group.twice() if place[2] < acknowledged.get(place[:2], 0)}
    assert again == set(), "what was acknowledged as committed does not come again"
    assert owner_of(peer, group.group_id) is not killed
    group.stop(process)
    killed.restart()
    peer.settled()


@pytest.mark.crash
@pytest.mark.timeout(600)
@pytest.mark.parametrize("client", ["confluent", "java", "franz"])
def test_exactly_once_while_nodes_are_killed_and_restarted(
    peer: ClusterOfDaemons, topics: TopicMaker, unique: str, tmp_path: Path, client: str
) -> None:
    source, target = topics({"in": PARTITIONS, "out": PARTITIONS})
    topology = Topology(
        peer.bootstrap,
        tmp_path,
        f"eos-{unique}",
        source,
        target,
        PARTITIONS,
        session_timeout_ms=3_000,
        transaction_timeout_ms=5_000,
    )
    try:
        topology.feeder.feed(RECORDS)
        for number in range(2):
            topology.start(client, "consumer", f"x{number}-{unique}", "")
        topology.wait_written(RECORDS // 4, WAIT_S)
        owner_of(peer, f"eos-{unique}").restart()
        topology.wait_written(RECORDS // 2, WAIT_S)
        topology.feeder.feed(RECORDS)
        stopped = owner_of(peer, f"eos-{unique}")
        stopped.stop()
        stopped.process.close()
        stopped.start()
        topology.wait_written(RECORDS, WAIT_S)
        topology.finish(WAIT_S)
    finally:
        topology.close()


def test_a_change_through_one_node_is_seen_on_the_next_at_once(
    peer: ClusterOfDaemons, unique: str
) -> None:
    clients = [WireClient("127.0.0.1", daemon.port) for daemon in peer.daemons]
    for number in range(6):
        here, there = clients[number % 3], clients[(number + 1) % 3]
        name = f"seen-{unique}-{number}"
        made = here.call(
            "CreateTopics",
            7,
            topics=[
                {
                    "name": name,
                    "num_partitions": 12,
                    "replication_factor": 1,
                    "assignments": [],
                    "configs": [],
                }
            ],
            timeout_ms=5000,
            validate_only=False,
        )
        assert made["topics"][0]["error_code"] == 0
        (topic,) = _metadata(there, name)["topics"]
        assert topic["error_code"] == 0, "a node that answers knows it"
        leaders = {partition["leader_id"] for partition in topic["partitions"]}
        assert len(leaders) == 3, "led by all nodes"
        gone = there.call(
            "DeleteTopics",
            6,
            topics=[{"name": name, "topic_id": bytes(16)}],
            timeout_ms=5000,
        )
        assert gone["responses"][0]["error_code"] == 0
        (topic,) = _metadata(here, name)["topics"]
        assert topic["error_code"] == 3, "and that it is gone"
    for client in clients:
        client.close()


def _metadata(client: WireClient, name: str) -> Any:
    return client.call(
        "Metadata",
        12,
        topics=[{"topic_id": bytes(16), "name": name}],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


SECURED = {
    "listeners": "CLIENTS://127.0.0.1:0,NODES://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,NODES:SASL_PLAINTEXT",
    "inter.broker.listener.name": "NODES",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.enabled.mechanisms": "PLAIN",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:node;User:admin",
    "listener.name.nodes.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="node" password="node-secret" user_node="node-secret";'
    ),
    "listener.name.clients.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'user_admin="admin-secret" user_app="app-secret";'
    ),
}


def test_nodes_that_log_in_to_each_other(
    tmp_path: Path, postgres: PostgresServer, unique: str
) -> None:
    url = postgres.url(postgres.new_database())
    nodes = ClusterOfDaemons(tmp_path, url, settings={**SETTINGS, **SECURED})
    try:
        nodes.start()
        servers = ",".join(f"127.0.0.1:{daemon.ports['kafka']}" for daemon in nodes.daemons)
        login = {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": "admin-secret",
            "log_level": 0,
        }
        admin = AdminClient(login)
        create_topics(servers, {"t": 12}, login)
        # A transaction over partitions of all nodes, and ids whose coordinators are on all nodes.
        for number in range(6):
            producer = Producer({**login, "transactional.id": f"{unique}-{number}"})
            producer.init_transactions(30)
            producer.begin_transaction()
            for partition in range(12):
                producer.produce("t", value=b"x", partition=partition)
            producer.commit_transaction(30)
        consumer = Consumer(
            {
                **login,
                "group.id": f"g-{unique}",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe(["t"])
        values: list[bytes] = []

        def all_read() -> bool:
            values.extend(
                message.value() for message in consumer.consume(100, 0.5) if not message.error()
            )
            return len(values) >= 6 * 12

        wait_until(all_read, WAIT_S, "all committed records", lambda: f"{len(values)} records")
        consumer.close()
        # Somebody without rights is told so by every node.
        stranger = {**login, "sasl.username": "app", "sasl.password": "app-secret"}
        assert admin.list_topics(timeout=10).topics
        refused = Producer({**stranger, "transactional.id": f"{unique}-stranger"})
        with pytest.raises(KafkaException, match=r"(?i)transactional.id authorization"):
            refused.init_transactions(10)
        nodes.stop()
        for daemon in nodes.daemons:
            assert "Traceback" not in (daemon.directory / "groupd.log").read_text()
    finally:
        nodes.close()
