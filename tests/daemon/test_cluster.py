"""Nodes of a cluster as processes over one PostgreSQL: their ids, addresses and pages, and what
becomes of their units when they come, stop, die or are drained."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from groupd.protocol.messages import NO_TOPIC_ID
from tests.support.admin import create_topics
from tests.support.cluster import ClusterOfDaemons
from tests.support.daemon import ROOT, Daemon, refused
from tests.support.metrics import total
from tests.support.peer import FAST_SETTINGS
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.wire_client import WireClient


@pytest.fixture
def cluster(tmp_path: Path, postgres: PostgresServer) -> Iterator[ClusterOfDaemons]:
    """Three started nodes."""
    url = postgres.url(postgres.emptied_database())
    settings = {**FAST_SETTINGS, "groupd.lag.interval.ms": "500"}
    nodes = ClusterOfDaemons(tmp_path, url, settings=settings, topics={"orders": 6})
    try:
        nodes.start()
        yield nodes
    finally:
        nodes.close()


def owned(cluster: ClusterOfDaemons, daemon: Daemon | None = None) -> Counter[int | None]:
    """How many units each node has, as a node sees it."""
    return Counter(unit["owner"] for unit in cluster.page(daemon)["units"])


def groupd(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "groupd", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        check=False,
    )


def post(daemon: Daemon, path: str) -> tuple[int, str]:
    request = urllib.request.Request(
        daemon.admin_url + path, method="POST", headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def other_consoles(daemon: Daemon) -> dict[int, str]:
    """To which other nodes the list of groups of this one leads."""
    with urllib.request.urlopen(f"{daemon.admin_url}/live/groups", timeout=10) as answer:
        assert answer.readline() == b"event: snapshot\n"
        data = json.loads(answer.readline().removeprefix(b"data: "))
    return {one["node"]: one["admin"] for one in data["other_nodes"]}


def test_nodes_share_what_there_is_and_hand_it_over(cluster: ClusterOfDaemons) -> None:
    first, second, third = cluster.daemons
    ids = {cluster.node_id(daemon): daemon for daemon in cluster.daemons}
    assert sorted(ids) == [0, 1, 2], "the first node is 0, which tools expect to be there"
    shares = owned(cluster)
    assert max(shares.values()) - min(shares.values()) <= 1
    assert set(shares) == set(ids)
    units = shares.total()
    others = {number: one.admin_url for number, one in ids.items() if one is not first}
    assert other_consoles(first) == others

    # One is killed: the others have its units once its lease is over.
    third_id = cluster.node_id(third)
    third.kill()
    wait_until(lambda: owned(cluster)[third_id] == 0, 10, "the others to take over", cluster.logs)
    cluster.settled()
    assert owned(cluster).total() == units

    # It comes back under its old id, and gets its share again.
    third.restart()
    cluster.settled()
    assert cluster.node_id(third) == third_id
    shares = owned(cluster)
    assert max(shares.values()) - min(shares.values()) <= 1

    # One stops in order: it has given everything up before it is gone.
    second.stop()
    assert cluster.node_id(first) in owned(cluster)
    cluster.settled()
    assert len(cluster.page()["nodes"]) == 2

    cluster.stop()
    for daemon in cluster.daemons:
        assert "Traceback" not in (daemon.directory / "groupd.log").read_text()


def test_a_node_is_drained_and_serves_again(cluster: ClusterOfDaemons) -> None:
    node = cluster.daemons[1]
    node_id = cluster.node_id(node)
    admin = ["--admin", node.admin_url.removeprefix("http://")]
    drained = groupd("cluster", "drain", str(node_id), "--wait", *admin)
    assert (drained.returncode, drained.stdout) == (0, f"node {node_id}: drains\n"), drained
    assert owned(cluster)[node_id] == 0
    described = groupd("cluster", "describe", *admin)
    assert described.returncode == 0, described
    (row,) = [
        line for line in described.stdout.splitlines() if line.strip().startswith(f"{node_id} ")
    ]
    assert row.split()[1] == "draining"
    assert row.split()[4:7] == ["0", "0", "0"]

    resumed = groupd("cluster", "resume", str(node_id), *admin)
    assert resumed.stdout == f"node {node_id}: serves its share\n"
    wait_until(lambda: owned(cluster)[node_id] > 0, 10, "its share", cluster.logs)
    cluster.settled()
    cluster.stop()


def partitions_of(daemon: Daemon, topic: str) -> dict[int, dict[str, Any]]:
    """A topic's partitions by number, as a node tells of them; without those that it knows no
    leader of yet."""
    topics = [{"topic_id": NO_TOPIC_ID, "name": topic}]
    with WireClient(daemon.host, daemon.port) as client:
        reply = client.call("Metadata", 12, topics=topics, allow_auto_topic_creation=False)
    (found,) = reply["topics"]
    known = [one for one in found["partitions"] if one["error_code"] == 0]
    return {one["partition_index"]: one for one in known}


def epochs_of(cluster: ClusterOfDaemons, topic: str, count: int) -> list[int]:
    """The leader epochs of a topic, once all nodes say the same."""

    def seen() -> list[list[tuple[int, int]]]:
        by_node = [partitions_of(daemon, topic) for daemon in cluster.daemons]
        return [
            [(one[at]["leader_id"], one[at]["leader_epoch"]) for at in sorted(one)]
            for one in by_node
        ]

    def agreed() -> bool:
        first, *others = seen()
        return len(first) == count and all(first == one for one in others)

    wait_until(agreed, 20, "nodes that agree on leaders", cluster.logs)
    return [epoch for _, epoch in seen()[0]]


def moved(cluster: ClusterOfDaemons, node: int) -> None:
    """Everything of a node goes to the others, and its share comes back."""
    daemon = cluster.daemons[0]
    assert post(daemon, f"/cluster/drain?node={node}")[0] == 200
    wait_until(lambda: owned(cluster)[node] == 0, 20, "a drained node", cluster.logs)
    cluster.settled()
    assert post(daemon, f"/cluster/resume?node={node}")[0] == 200
    wait_until(lambda: owned(cluster)[node] > 0, 20, "its share", cluster.logs)
    cluster.settled()


def test_leader_epochs_of_a_topic_begin_at_0_and_only_rise(cluster: ClusterOfDaemons) -> None:
    for node in (0, 1, 2):
        moved(cluster, node)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def create() -> None:
        # So that each bucket has a partition.
        create_topics(cluster.bootstrap, {"new": 64})

    create()
    epochs = epochs_of(cluster, "new", 64)
    assert epochs == [0] * 64, "although their units have moved before"
    leader_id = partitions_of(cluster.daemons[0], "new")[0]["leader_id"]
    (leader,) = [one for one in cluster.daemons if cluster.node_id(one) == leader_id]
    with WireClient(leader.host, leader.port) as client:
        for epoch, error in ((0, 0), (1, 75), (-1, 0)):
            asked = {"partition": 0, "current_leader_epoch": epoch, "fetch_offset": 0}
            fetched = client.call(
                "Fetch", 12, max_wait=0, topics=[{"topic": "new", "partitions": [asked]}]
            )
            (answer,) = fetched["responses"][0]["partitions"]
            assert answer["error_code"] == error

    moved(cluster, 1)
    later = epochs_of(cluster, "new", 64)
    assert all(now >= before for now, before in zip(later, epochs, strict=True))
    assert 0 < sum(now > 0 for now in later) < 64, "those that have moved, and no others"
    (grown,) = admin.create_partitions([NewPartitions("new", 70)]).values()
    grown.result()
    assert epochs_of(cluster, "new", 70) == [*later, *[0] * 6]

    (gone,) = admin.delete_topics(["new"]).values()
    gone.result()
    create()
    assert epochs_of(cluster, "new", 64) == [0] * 64
    cluster.stop()
    # They go on where they were in another life of the processes.
    cluster.restart()
    assert all(epoch > 0 for epoch in epochs_of(cluster, "new", 64))
    cluster.stop()


def test_replicas_that_are_named_by_hand(cluster: ClusterOfDaemons) -> None:
    """What Kafka's own tests and librdkafka's do on three brokers."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})

    def outcome(futures: Mapping[str, Any]) -> tuple[int, str]:
        (future,) = futures.values()
        try:
            future.result()
        except KafkaException as error:
            return error.args[0].code(), error.args[0].str()
        return 0, ""

    three, two = [[0, 1, 2], [1, 2, 0]], [[2, 0], [0, 1]]
    stranger = (
        39,
        "The manual partition assignment includes broker 7, but no such broker is registered.",
    )
    assert outcome(admin.create_topics([NewTopic("three", 2, replica_assignment=three)])) == (0, "")
    assert outcome(admin.create_topics([NewTopic("two", 2, replica_assignment=two)])) == (0, "")
    refused = admin.create_topics([NewTopic("no", 1, replica_assignment=[[0, 7]])])
    assert outcome(refused) == stranger
    grown = [NewPartitions("three", 4, replica_assignment=three)]
    assert outcome(admin.create_partitions(grown)) == (0, "")
    grown = [NewPartitions("two", 3, replica_assignment=[[1, 7]])]
    assert outcome(admin.create_partitions(grown)) == stranger
    many = [NewTopic("many", num_partitions=3, replication_factor=3)]
    assert outcome(admin.create_topics(many)) == (0, "")
    for topic, count in (("three", 4), ("two", 2), ("many", 3)):
        assert epochs_of(cluster, topic, count) == [0] * count
        for daemon in cluster.daemons:
            for one in partitions_of(daemon, topic).values():
                here = [one["leader_id"]]
                assert (one["replica_nodes"], one["isr_nodes"]) == (here, here)
    cluster.stop()


def test_what_the_page_refuses(cluster: ClusterOfDaemons) -> None:
    daemon = cluster.daemons[0]
    assert post(daemon, "/cluster/drain?node=77") == (404, "there is no node 77\n")
    assert post(daemon, "/cluster/drain?node=x") == (400, "node: must be the id of a node\n")
    assert post(daemon, "/cluster/leave?node=1")[0] == 404
    assert groupd("cluster", "drain", "77", "--admin", daemon.admin_url[7:]).returncode != 0
    assert total(daemon.admin_url, "groupd_cluster_nodes") == 3


def test_a_node_that_stood_still_answers_nothing_and_begins_anew(cluster: ClusterOfDaemons) -> None:
    node = cluster.daemons[2]
    node_id = cluster.node_id(node)
    node.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: owned(cluster)[node_id] == 0, 10, "the others to take over", cluster.logs)
    node.process.send_signal(signal.SIGCONT)
    wait_until(lambda: owned(cluster)[node_id] > 0, 20, "the node to be back", cluster.logs)
    cluster.settled()
    assert "this node was fenced" in (node.directory / "groupd.log").read_text()
    cluster.stop()


def test_two_nodes_of_one_id(cluster: ClusterOfDaemons) -> None:
    ended = groupd(
        *("serve", "--cluster", "--store", cluster.store_url, "--set", "node.id=2"),
        *("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"),
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.splitlines()[-1] == "groupd: node.id=2: another node has it"


def test_command_lines_that_cannot_be(tmp_path: Path) -> None:
    line = refused(["--cluster"], tmp_path)
    assert "--cluster: a store in SQLite" in line
    assert "need --store postgresql" in line
    store = ["--store", "postgresql://u:p@127.0.0.1/x"]
    assert "--control: not with --cluster" in refused(["--cluster", *store, "--control"], tmp_path)
    line = refused(["--workers", "2", *store, "--record", "tape"], tmp_path)
    assert "--record: not with --workers" in line


@pytest.mark.parametrize("page", ["README.md", "docs/cluster.md"])
def test_the_five_lines_of_the_page(page: str, tmp_path: Path, postgres: PostgresServer) -> None:
    """Each node takes ports that are free, on the address towards the database, and an id of its
    own, in one directory."""
    found = BLOCK.search((ROOT / page).read_text())
    assert found is not None
    export, *serves, describe = found[1].splitlines()
    assert export.startswith(
        "export GROUPD_STORE=postgresql+asyncpg://groupd@127.0.0.1:5432/groupd"
    )
    assert serves == ["groupd serve --cluster &"] * 3
    url = postgres.url(postgres.emptied_database())
    nodes = [_Plain(tmp_path, number, url, line) for number, line in enumerate(serves)]
    try:
        for node in nodes:
            node.start()
        ids = {(tmp_path / "groupd-data" / name).read_text().split()[0] for name in FILES}
        assert ids == {"0", "1", "2"}
        wait_until(
            lambda: (
                "units without an owner: 0" in groupd(*describe.split()[1:], *at(nodes[0])).stdout
            ),
            20,
            "everything to be served",
        )
        rows = groupd(*describe.split()[1:], *at(nodes[0])).stdout.splitlines()[2:5]
        assert [row.split()[1] for row in rows] == ["live"] * 3
    finally:
        for node in nodes:
            node.close()


BLOCK = re.compile(r"<!-- cluster -->\n```sh\n(.*?)```\n", re.DOTALL)
FILES = ("node-id", "node-id-2", "node-id-3")


def at(node: Daemon) -> list[str]:
    return ["--admin", node.admin_url.removeprefix("http://")]


class _Plain(Daemon):
    """A node that has nothing but what stands in the line of a page, run in a directory."""

    def __init__(self, directory: Path, number: int, url: str, line: str) -> None:
        super().__init__(directory / f"log-{number}", env={"GROUPD_STORE": url})
        self._directory, self._line = directory, line

    def command(self) -> list[str]:
        program, *words = self._line.removesuffix("&").split()
        assert program == "groupd"
        code = "import os, runpy, sys; os.chdir(sys.argv[1]); del sys.argv[1]"
        run = f"{code}; runpy.run_module('groupd', run_name='__main__')"
        return [sys.executable, "-c", run, str(self._directory), *words]


def test_every_node_knows_the_lag_of_its_groups_on_partitions_of_others(
    cluster: ClusterOfDaemons,
) -> None:
    bootstrap = ",".join(daemon.bootstrap for daemon in cluster.daemons)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(600):
        producer.produce("orders", b"x", partition=number % 6)
    assert producer.flush(60) == 0
    groups = [f"group-{number}" for number in range(6)]
    for group in groups:
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
        consumer = Consumer(settings)
        offsets = [TopicPartition("orders", number, 40) for number in range(6)]
        consumer.commit(offsets=offsets, asynchronous=False)
        consumer.close()
    rows: dict[str, tuple[int | None, int]] = {}

    def known() -> bool:
        for at, daemon in enumerate(cluster.daemons):
            with urllib.request.urlopen(f"{daemon.admin_url}/groups", timeout=10) as answer:
                for row in json.load(answer):
                    rows[row["group_id"]] = (row["lag"], at)
        return [rows.get(group, (None, 0))[0] for group in groups] == [360] * 6

    wait_until(known, 30, "the lag of all groups", lambda: f"{rows}\n{cluster.logs()}")
    assert len({at for _, at in rows.values()}) > 1, "one node has all groups"
    # Its partitions, too, whoever leads them.
    url = f"{cluster.daemons[rows[groups[0]][1]].admin_url}/groups/{groups[0]}/offsets"
    with urllib.request.urlopen(url, timeout=10) as answer:
        shown = json.load(answer)["partitions"]
    assert [(row["end_offset"], row["lag"]) for row in shown] == [(100, 60)] * 6
