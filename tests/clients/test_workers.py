"""Clients of a daemon with workers: groups of both protocols live through the end of their worker,
admin clients see the groups of all of them, and exactly-once holds across processes.

The other client tests run on it too: GROUPD_WORKERS=2.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from groupd.coordinator.core.partitioning import partition_for
from tests.clients.conftest import GroupMaker, TopicMaker
from tests.clients.exactly_once import Topology
from tests.clients.group import BY_NAME, SETTLE_S, Flavour
from tests.clients.test_restart import RECOVER_S
from tests.support.admin import REQUEST_TIMEOUT_S, committed, end_offsets, produce
from tests.support.daemon import Daemon, worker_pids
from tests.support.peer import FAST_SETTINGS, running
from tests.support.process import wait_until
from tests.support.raw_member import admin_json
from tests.support.wire_client import WireClient

WORKERS, SHARDS = 2, 50
PARTITIONS, RECORDS = 4, 800
SESSION_MS, TRANSACTION_MS = 3_000, 5_000
WAIT_S = 120.0
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
FLAVOURS = [
    BY_NAME[name]
    for name in (
        "confluent-consumer-uniform",
        "confluent-classic-cooperative-sticky",
        "java-consumer-uniform",
        "java-classic-range",
        "aiokafka-classic-range",
        "kafka_python-classic-range",
        "franz-consumer-uniform",
    )
]

pytestmark = pytest.mark.skipif(
    os.environ.get("GROUPD_PEER", "groupd") != "groupd", reason="workers are groupd's"
)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(
        Daemon(
            tmp_path_factory.mktemp("peer"), settings={**FAST_SETTINGS, **SETTINGS}, workers=WORKERS
        )
    ) as made:
        yield made


def node_of(group: str) -> int:
    return partition_for(group, SHARDS) % WORKERS + 1


def kill_worker_of(peer: Daemon, group: str) -> None:
    os.kill(worker_pids(peer.pid)[node_of(group)], signal.SIGKILL)


@pytest.mark.crash
@pytest.mark.parametrize("flavour", FLAVOURS, ids=lambda flavour: flavour.name)
def test_a_live_group_goes_on_after_its_worker_was_killed(
    peer: Daemon, topics: TopicMaker, make_group: GroupMaker, flavour: Flavour
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
    kill_worker_of(peer, group.group_id)
    writer.join(90)
    assert not writer.is_alive(), "producers go to the main process, which lives"
    ends = end_offsets(peer.bootstrap, counts)
    everything = {(topic, part, at) for (topic, part), end in ends.items() for at in range(end)}
    group.wait_seen(everything, RECOVER_S)
    group.wait_committed(ends, RECOVER_S)
    again = {place for place in group.twice() if place[2] < acknowledged.get(place[:2], 0)}
    assert again == set(), "what was acknowledged as committed does not come again"
    group.stop(process)
    assert committed(peer.bootstrap, group.group_id, counts) == ends


@pytest.mark.crash
@pytest.mark.timeout(600)
@pytest.mark.parametrize("client", ["confluent", "java"])
def test_exactly_once_across_main_process_and_workers(
    peer: Daemon, topics: TopicMaker, unique: str, tmp_path: Path, client: str
) -> None:
    """Records and decisions are the main process's, offsets a worker's, which dies twice."""
    source, target = topics({"in": PARTITIONS, "out": PARTITIONS})
    topology = Topology(
        peer.bootstrap,
        tmp_path,
        f"eos-{unique}",
        source,
        target,
        PARTITIONS,
        session_timeout_ms=SESSION_MS,
        transaction_timeout_ms=TRANSACTION_MS,
    )
    try:
        topology.feeder.feed(RECORDS)
        for number in range(2):
            topology.start(client, "consumer", f"x{number}-{unique}", "")
        topology.wait_written(RECORDS // 4, WAIT_S)
        kill_worker_of(peer, f"eos-{unique}")
        topology.wait_written(RECORDS // 2, WAIT_S)
        topology.feeder.feed(RECORDS)
        topology.wait_written(RECORDS, WAIT_S)
        kill_worker_of(peer, f"eos-{unique}")
        topology.finish(WAIT_S)
    finally:
        topology.close()


def test_admin_clients_see_the_groups_of_all_workers(peer: Daemon, unique: str) -> None:
    names = [f"listed-{unique}-{number}" for number in range(8)]
    assert {node_of(name) for name in names} == {1, 2}
    members = []
    for name in names:
        members.append(WireClient(peer.host, peer.port + node_of(name)))
        joined = members[-1].call(
            "ConsumerGroupHeartbeat",
            0,
            group_id=name,
            member_id="m",
            member_epoch=0,
            rebalance_timeout=60_000,
            subscribed_topic_names=["t"],
            topic_partitions=(),
        )
        assert joined["error_code"] == 0
    client = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    listed = client.list_consumer_groups(request_timeout=REQUEST_TIMEOUT_S).result()
    assert listed.errors == []
    assert {found.group_id for found in listed.valid} >= set(names)
    described = client.describe_consumer_groups(names, request_timeout=REQUEST_TIMEOUT_S)
    for name in names:
        found = described[name].result()
        assert found.coordinator.id == node_of(name)
        assert len(found.members) == 1
    for name, member in zip(names, members, strict=True):
        left = member.call(
            "ConsumerGroupHeartbeat", 0, group_id=name, member_id="m", member_epoch=-1
        )
        assert left["error_code"] == 0
        member.close()
    deleted = client.delete_consumer_groups(names, request_timeout=REQUEST_TIMEOUT_S)
    for name in names:
        deleted[name].result()
    assert not {group["group_id"] for group in admin_json(peer, "/groups")} & set(names)


def test_configs_of_a_group_reach_its_worker(peer: Daemon, topics: TopicMaker, unique: str) -> None:
    counts = topics({"t": 1})
    client = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    for name in (f"tuned-{unique}-{number}" for number in range(4)):
        entry = ConfigEntry(
            "consumer.heartbeat.interval.ms",
            "1234",
            incremental_operation=AlterConfigOpType.SET,
        )
        resource = ConfigResource(ResourceType.GROUP, name, incremental_configs=[entry])
        for future in client.incremental_alter_configs([resource]).values():
            future.result()
        with WireClient(peer.host, peer.port + node_of(name)) as member:
            joined = member.call(
                "ConsumerGroupHeartbeat",
                0,
                group_id=name,
                member_id="m",
                member_epoch=0,
                rebalance_timeout=60_000,
                subscribed_topic_names=sorted(counts),
                topic_partitions=(),
            )
        assert joined["error_code"] == 0
        assert joined["heartbeat_interval"] == 1234
