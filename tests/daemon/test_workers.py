"""`serve --workers`: the cluster that clients see, workers that die, a main process that dies, and
another number of workers on the same data."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from groupd.coordinator.core.partitioning import partition_for
from tests.support.daemon import ROOT, Daemon, worker_pids
from tests.support.kio_entities import Plain
from tests.support.peer import running
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.process import wait_until
from tests.support.wire_client import NoReply, WireClient
from tests.support.wire_requests import produce

NONE, NOT_LEADER, NOT_COORDINATOR = 0, 6, 16
SHARDS = 50
RESTART_S, RETRIES_S = 20.0, 120.0
GONE_S = 1.0
USAGE = 2

MakeDaemon = Callable[..., Daemon]


@pytest.fixture
def make_daemon(tmp_path: Path) -> Iterator[MakeDaemon]:
    made: list[Daemon] = []

    def make(workers: int = 2, **parts: Any) -> Daemon:
        directory = parts.pop("directory", tmp_path / f"daemon-{len(made)}")
        parts.setdefault("topics", {"orders": 4})
        made.append(Daemon(directory, workers=workers, **parts))
        made[-1].start()
        return made[-1]

    yield make
    for daemon in made:
        daemon.close()


@pytest.fixture
def own(make_daemon: MakeDaemon) -> Iterator[Daemon]:
    """A daemon that a test may break."""
    started = make_daemon()
    yield started
    if started.process.running:
        started.stop()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """The daemon of all tests that only ask."""
    with running(
        Daemon(tmp_path_factory.mktemp("workers"), workers=2, topics={"orders": 4})
    ) as made:
        yield made


# Asking -------------------------------------------------------------------------------------


def at_node(daemon: Daemon, node_id: int) -> WireClient:
    """A client at this node: workers listen above the main process."""
    return WireClient(daemon.host, daemon.port + node_id)


def node_of(daemon: Daemon, group: str) -> int:
    """The worker that must have the group."""
    return partition_for(group, SHARDS) % daemon.workers + 1


def group_at(daemon: Daemon, node_id: int, stem: str = "group") -> str:
    """A group id that belongs to this node."""
    return next(f"{stem}-{n}" for n in range(1000) if node_of(daemon, f"{stem}-{n}") == node_id)


def coordinator(client: WireClient, key: str, key_type: int = 0) -> Plain:
    reply = client.call("FindCoordinator", 4, coordinator_keys=[key], key_type=key_type)
    found: Plain = reply["coordinators"][0]
    return found


def commit(client: WireClient, group: str, offset: int) -> int:
    reply = client.call(
        "OffsetCommit",
        8,
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[
            {
                "name": "orders",
                "partitions": [{"partition_index": 0, "committed_offset": offset}],
            }
        ],
    )
    code: int = reply["topics"][0]["partitions"][0]["error_code"]
    return code


def fetched(client: WireClient, group: str) -> tuple[int, int]:
    """(error, offset)"""
    topics = [{"name": "orders", "partition_indexes": [0]}]
    reply = client.call("OffsetFetch", 8, groups=[{"group_id": group, "topics": topics}])
    found = reply["groups"][0]
    if found["error_code"]:
        return found["error_code"], -1
    return NONE, found["topics"][0]["partitions"][0]["committed_offset"]


def listed(client: WireClient) -> set[str]:
    reply = client.call("ListGroups", 4, states_filter=[])
    assert reply["error_code"] == NONE
    return {group["group_id"] for group in reply["groups"]}


def get(daemon: Daemon, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(daemon.admin_url + path, timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def ready(daemon: Daemon) -> bool:
    return get(daemon, "/readyz")[0] == 200


def not_ready(daemon: Daemon) -> str:
    """Why the daemon is not ready; "" once it is."""
    status, text = get(daemon, "/readyz")
    return "" if status == 200 else text


def wait_ready(daemon: Daemon) -> None:
    wait_until(lambda: ready(daemon), RESTART_S, "all workers", daemon.logs)


def metrics(daemon: Daemon) -> dict[str, float]:
    lines = get(daemon, "/metrics")[1].splitlines()
    samples = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in samples}


def alive(pid: int) -> bool:
    """Whether the process runs: a zombie that nobody has reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# The cluster that clients see -----------------------------------------------------------------


def test_every_node_tells_the_same_cluster(daemon: Daemon) -> None:
    seen = []
    for node_id in range(3):
        with at_node(daemon, node_id) as client:
            reply = client.call("Metadata", 12, topics=None, allow_auto_topic_creation=False)
            described = client.call("DescribeCluster", 1)
        reply.pop("throttle_time", None)
        seen.append((reply, sorted(one["broker_id"] for one in described["brokers"])))
    assert seen[0] == seen[1] == seen[2]
    reply, ids = seen[0]
    assert ids == [0, 1, 2]
    ports = {broker["node_id"]: broker["port"] for broker in reply["brokers"]}
    assert ports == {0: daemon.port, 1: daemon.port + 1, 2: daemon.port + 2}
    assert reply["controller_id"] == 0
    topics = {topic["name"]: topic["partitions"] for topic in reply["topics"]}
    assert {part["leader_id"] for part in topics["orders"]} == {0}
    leaders = {part["partition_index"]: part["leader_id"] for part in topics["__consumer_offsets"]}
    assert leaders == {number: number % 2 + 1 for number in range(SHARDS)}


def test_groups_are_found_at_their_worker_and_transactions_at_the_main_process(
    daemon: Daemon,
) -> None:
    for asked in range(3):
        with at_node(daemon, asked) as client:
            for node_id in (1, 2):
                found = coordinator(client, group_at(daemon, node_id))
                assert (found["error_code"], found["node_id"]) == (NONE, node_id)
                assert found["port"] == daemon.port + node_id
            assert coordinator(client, "tx", key_type=1)["node_id"] == 0


def test_a_group_is_served_at_its_worker_only(daemon: Daemon) -> None:
    groups = {node_id: group_at(daemon, node_id) for node_id in (1, 2)}
    for node_id, group in groups.items():
        for asked in range(3):
            with at_node(daemon, asked) as client:
                expected = NONE if asked == node_id else NOT_COORDINATOR
                assert commit(client, group, 7) == expected
    for node_id, group in groups.items():
        for asked in range(3):
            with at_node(daemon, asked) as client:
                right = asked == node_id
                assert fetched(client, group) == ((NONE, 7) if right else (NOT_COORDINATOR, -1))
                assert (group in listed(client)) == right
                reply = client.call("ConsumerGroupDescribe", 0, group_ids=list(groups.values()))
                codes = [found["error_code"] for found in reply["groups"]]
                assert codes.count(NOT_COORDINATOR) == (2 if asked == 0 else 1), "each by itself"


def test_topics_are_served_by_the_main_process_only(daemon: Daemon) -> None:
    places = [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    codes = []
    for node_id in range(3):
        with at_node(daemon, node_id) as client:
            reply = client.call("ListOffsets", 3, replica_id=-1, isolation_level=0, topics=places)
            codes.append(reply["topics"][0]["partitions"][0]["error_code"])
            given = client.call(
                "InitProducerId", 4, transactional_id=None, transaction_timeout=1000
            )
            assert given["error_code"] == NONE, "any node gives out producer ids"
            begun = client.call(
                "InitProducerId", 4, transactional_id="tx", transaction_timeout=1000
            )
            assert begun["error_code"] == (NONE if node_id == 0 else NOT_COORDINATOR)
    assert codes == [NONE, NOT_LEADER, NOT_LEADER]


@pytest.mark.parametrize("topic", ["orders", "nil", "__consumer_offsets"])
def test_se_68_a_refused_produce_without_a_reply_closes_the_connection(
    daemon: Daemon, topic: str
) -> None:
    """A worker closes it too, although it leads no topic. What came before it is answered."""
    name, version, fields = produce(topic, acks=0)
    with at_node(daemon, 1) as client:
        client.send("ApiVersions", 0, {})
        client.send(name, version, fields)
        assert client.receive()["error_code"] == NONE
        with pytest.raises((NoReply, ConnectionError)) as silence:
            client.receive()
        assert "within" not in str(silence.value)
    with at_node(daemon, 1) as client:
        reply = client.call(name, version, **(fields | {"acks": 1}))
        (partition,) = reply["responses"][0]["partition_responses"]
        assert partition["error_code"] == NOT_LEADER


def test_the_offsets_log_is_read_at_the_worker_that_writes_it(daemon: Daemon) -> None:
    group = group_at(daemon, 2)
    with at_node(daemon, 2) as client:
        assert commit(client, group, 7) == NONE
    number = partition_for(group, SHARDS)
    ends = {}
    for topic in ("__consumer_offsets", "__consumer_offsets_compacted"):
        places = [{"name": topic, "partitions": [{"partition_index": number, "timestamp": -1}]}]
        for node_id in range(3):
            with at_node(daemon, node_id) as client:
                reply = client.call(
                    "ListOffsets", 3, replica_id=-1, isolation_level=1, topics=places
                )
                found = reply["topics"][0]["partitions"][0]
                ends[topic, node_id] = (found["error_code"], found["offset"])
    ((error, end),) = {ends[topic, 2] for topic, _ in ends}
    assert (error, end > 0) == (NONE, True)
    assert {ends[topic, node] for topic, node in ends if node != 2} == {(NOT_LEADER, -1)}


def test_whoever_makes_a_topic_can_use_it_at_every_worker(daemon: Daemon) -> None:
    """The answer to its creation comes after the workers know it."""
    clients = [at_node(daemon, node_id) for node_id in range(3)]
    try:
        for number in range(30):
            name = f"new-{number}"
            topic = {
                "name": name,
                "num_partitions": 1,
                "replication_factor": 1,
                "assignments": [],
                "configs": [],
            }
            # Any node may be asked: it is forwarded.
            made = clients[number % 3].call("CreateTopics", 5, topics=[topic], timeout=5000)
            assert made["topics"][0]["error_code"] == NONE
            for node_id in (1, 2):
                reply = clients[node_id].call(
                    "OffsetCommit",
                    8,
                    group_id=group_at(daemon, node_id),
                    generation_id_or_member_epoch=-1,
                    member_id="",
                    topics=[
                        {
                            "name": name,
                            "partitions": [{"partition_index": 0, "committed_offset": 1}],
                        }
                    ],
                )
                assert reply["topics"][0]["partitions"][0]["error_code"] == NONE
    finally:
        for client in clients:
            client.close()


def test_broker_configs_by_any_id(daemon: Daemon) -> None:
    for name in ("0", "1", "2", "3"):
        with at_node(daemon, 1) as client:
            asked = [{"resource_type": 4, "resource_name": name, "configuration_keys": ["node.id"]}]
            (found,) = client.call("DescribeConfigs", 4, resources=asked)["results"]
        if name == "3":
            assert "expected 0 or 1 or 2" in found["error_message"]
        else:
            assert [config["value"] for config in found["configs"]] == [name]


# The admin port -------------------------------------------------------------------------------


def test_the_admin_port_speaks_for_all(daemon: Daemon) -> None:
    groups = {node_id: group_at(daemon, node_id) for node_id in (1, 2)}
    for node_id, group in groups.items():
        with at_node(daemon, node_id) as client:
            assert commit(client, group, 7) == NONE
    shown = json.loads(get(daemon, "/groups")[1])
    assert {group["group_id"] for group in shown} >= set(groups.values())
    assert shown == sorted(shown, key=lambda group: group["group_id"])
    for group in groups.values():
        status, body = get(daemon, f"/groups/{group}")
        assert (status, json.loads(body)["group_id"]) == (200, group)
        assert get(daemon, f"/groups/{group}/events")[0] == 200
    assert get(daemon, "/groups/nobody")[0] == 404
    assert get(daemon, "/healthz") == (200, "ok\n")
    assert get(daemon, "/readyz") == (200, "ready\n")


def test_metrics_of_all_nodes_on_one_page(daemon: Daemon) -> None:
    names = [
        f'kafka_server_group_coordinator_metrics_offset_commit_count{{node="{node}"}}'
        for node in range(3)
    ]
    before = metrics(daemon)
    with at_node(daemon, 2) as client:
        assert commit(client, group_at(daemon, 2), 7) == NONE
    found = metrics(daemon)
    assert [found[name] - before[name] for name in names] == [0, 0, 1]
    assert found['groupd_requests_total{api="OffsetCommit",node="2",version="8"}'] >= 1
    assert found['groupd_log_transactions_total{node="0"}'] >= 1
    shards = "kafka_server_group_coordinator_metrics_num_partitions"
    active = [found[f'{shards}{{node="{node}",state="active"}}'] for node in range(3)]
    assert active == [0, 25, 25]
    assert found['groupd_workers{node="0",state="serving"}'] == 2
    page = get(daemon, "/metrics")[1].splitlines()
    types = [line for line in page if line.startswith("# TYPE")]
    assert len(types) == len(set(types)), "each family once"


# Ends -----------------------------------------------------------------------------------------


@pytest.mark.crash
def test_a_worker_that_is_killed_comes_back_with_its_groups(own: Daemon) -> None:
    group, other = group_at(own, 1), group_at(own, 2)
    with at_node(own, 1) as client:
        assert commit(client, group, 41) == NONE
        pid = worker_pids(own.pid)[1]
        with at_node(own, 2) as lives:
            os.kill(pid, signal.SIGKILL)
            wait_until(lambda: not alive(pid), RESTART_S, "its end")
            with pytest.raises((NoReply, OSError)):
                commit(client, group, 41)
            assert commit(lives, other, 8) == NONE, "the other one goes on"
            codes = {coordinator(lives, group)["error_code"]}
            wait_until(
                lambda: codes.add(coordinator(lives, group)["error_code"]) or ready(own),
                RESTART_S,
                "the worker",
                own.logs,
            )
            assert codes == {NONE}, "it is named all the while"
            found = coordinator(lives, group)
    assert (found["node_id"], found["port"]) == (1, own.port + 1), "where it was"
    with at_node(own, 1) as client:
        assert fetched(client, group) == (NONE, 41)
        assert commit(client, group, 42) == NONE
    assert metrics(own)['groupd_worker_restarts_total{node="0",worker="1"}'] == 1
    assert "worker has ended" in own.logs()


@pytest.mark.crash
def test_a_worker_that_is_frozen_is_replaced(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(settings={"groupd.worker.timeout.ms": "1000"})
    group = group_at(daemon, 2)
    with at_node(daemon, 2) as client:
        assert commit(client, group, 1) == NONE
    pid = worker_pids(daemon.pid)[2]
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: not alive(pid), RESTART_S, "the end of the frozen one", daemon.logs)
    wait_ready(daemon)
    with at_node(daemon, 2) as client:
        assert fetched(client, group) == (NONE, 1)
    daemon.stop()


@pytest.mark.crash
def test_a_main_process_that_is_killed_takes_its_workers_along(own: Daemon) -> None:
    for node_id in (1, 2):
        group = group_at(own, node_id)
        with at_node(own, node_id) as client:
            assert commit(client, f"{group}", 10 + node_id) == NONE
    pids = list(worker_pids(own.pid).values())
    # One is stopped: it cannot even see the end of its channel.
    os.kill(pids[0], signal.SIGSTOP)
    own.kill()
    wait_until(lambda: not any(map(alive, pids)), GONE_S, "the end of the workers", own.logs)
    own.restart()
    for node_id in (1, 2):
        with at_node(own, node_id) as client:
            assert fetched(client, group_at(own, node_id)) == (NONE, 10 + node_id)


def test_a_stop_is_orderly_and_leaves_nobody(own: Daemon) -> None:
    """That holds too when the signal goes to all processes, as a terminal and a service manager do
    it."""
    pids = list(worker_pids(own.pid).values())
    acknowledged = dict.fromkeys((1, 2), 0)

    def load(node_id: int) -> None:
        group = group_at(own, node_id)
        try:
            with at_node(own, node_id) as client:
                while commit(client, group, acknowledged[node_id] + 1) == NONE:
                    acknowledged[node_id] += 1
        except (NoReply, OSError):
            return

    threads = [threading.Thread(target=load, args=(node_id,)) for node_id in (1, 2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: min(acknowledged.values()) > 20, 30, "commits", own.logs)
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
    own.stop()
    for thread in threads:
        thread.join(10)
    assert not any(map(alive, pids))
    assert "did not stop in order" not in own.logs()
    own.restart()
    for node_id, offset in acknowledged.items():
        with at_node(own, node_id) as client:
            error, found = fetched(client, group_at(own, node_id))
            assert (error, found >= offset) == (NONE, True), (found, offset)


# Data -----------------------------------------------------------------------------------------


def test_another_number_of_workers_finds_all_data(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    groups = [f"g-{number}" for number in range(40)]
    for round_number, workers in enumerate((2, 3, 1, 2)):
        daemon = make_daemon(workers, directory=tmp_path / "same")
        for group in groups:
            node_id = node_of(daemon, group) if workers > 1 else 0
            with at_node(daemon, node_id) as client:
                expected = -1 if round_number == 0 else round_number
                assert fetched(client, group) == (NONE, expected)
                assert commit(client, group, round_number + 1) == NONE
        daemon.stop()


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with running_postgres() as server:
        yield server


def test_in_memory_a_worker_finds_what_its_predecessor_wrote(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon(arguments=["--store", "memory://"])
    group = group_at(daemon, 1)
    with at_node(daemon, 1) as client:
        assert commit(client, group, 5) == NONE
    os.kill(worker_pids(daemon.pid)[1], signal.SIGKILL)
    wait_until(lambda: not ready(daemon), RESTART_S, "news of it", daemon.logs)
    wait_ready(daemon)
    with at_node(daemon, 1) as client:
        assert fetched(client, group) == (NONE, 5)
    daemon.stop()


# Refusals -------------------------------------------------------------------------------------


def refused(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "groupd", "serve", "--admin", "127.0.0.1:0", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=30,
        check=False,
    )
    assert done.returncode == USAGE, done
    (line,) = done.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workers", "2", "--control"], "--control with --workers"),
        (["--workers", "2", "--record", "tape"], "--record with --workers"),
        (["--workers", "0"], "--workers"),
        (["--workers", "3", "--set", "offsets.topic.num.partitions=2"], "there are 2 shards only"),
        (["--workers", "2", "--listen", "127.0.0.1:65534"], "ports of workers end at 65535"),
        (["--workers", "2", "--advertised", "kafka:65534"], "would go beyond 65535"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    listen = [] if "--listen" in arguments else ["--listen", "127.0.0.1:0"]
    assert said in refused("--data-dir", str(tmp_path / "data"), *listen, *arguments)


def test_a_port_of_a_worker_that_is_in_use(daemon: Daemon, tmp_path: Path) -> None:
    line = refused(
        *("--data-dir", str(tmp_path / "other"), "--workers", "2"),
        *("--listen", f"{daemon.host}:{daemon.port + 1}"),
    )
    assert "the port is in use" in line


def test_a_store_that_is_taken_leaves_no_workers(daemon: Daemon) -> None:
    started = time.monotonic()
    line = refused(
        *("--data-dir", str(daemon.data_dir), "--workers", "2", "--listen", "127.0.0.1:0")
    )
    assert time.monotonic() - started < 20
    assert "lock" in line or "in use" in line
    assert len(worker_pids(daemon.pid)) == 2


FICKLE = """
import os, sys
from groupd.coordinator.core.assignors.range_ import RangeAssignor

if "serve" not in sys.argv and os.path.exists(os.environ["FICKLE"]):
    raise RuntimeError("not in this process")

class Fickle(RangeAssignor):
    pass
"""
"""A module that the main process can load, and workers unless there is a certain file."""


def fickle(directory: Path) -> dict[str, Any]:
    (directory / "fickle.py").write_text(FICKLE)
    return {
        "env": {"PYTHONPATH": str(directory), "FICKLE": str(directory / "broken")},
        "settings": {"group.consumer.assignors": "uniform,fickle:Fickle"},
    }


@pytest.mark.timeout(300)
def test_workers_that_can_never_start_end_the_daemon(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    daemon = Daemon(tmp_path / "daemon", workers=2, **fickle(tmp_path))
    try:
        with pytest.raises(AssertionError, match="no ready line"):
            daemon.start(RETRIES_S)
        assert daemon.process.wait_exit(RESTART_S) == 1
        log = daemon.process.stderr()
    finally:
        daemon.close()
    assert "Traceback" not in log
    line = log.splitlines()[-1]
    assert re.match("groupd: worker [12] cannot be started: ", line)
    assert "not in this process (5 times in a row)" in line


@pytest.mark.timeout(300)
def test_a_worker_that_has_served_is_tried_until_it_can(
    tmp_path: Path, make_daemon: MakeDaemon
) -> None:
    daemon = make_daemon(**fickle(tmp_path))
    (tmp_path / "broken").touch()
    os.kill(worker_pids(daemon.pid)[2], signal.SIGKILL)
    wait_until(
        lambda: "not in this process (6 times in a row)" in not_ready(daemon),
        RETRIES_S,
        "more failures than at a start",
        daemon.logs,
    )
    assert "worker 2 is " in not_ready(daemon)
    with at_node(daemon, 1) as client:
        assert commit(client, group_at(daemon, 1), 1) == NONE, "the other one serves"
    (tmp_path / "broken").unlink()
    wait_until(lambda: ready(daemon), RETRIES_S, "the worker", daemon.logs)
    daemon.stop()


def test_the_benchmark_compares_both(tmp_path: Path) -> None:
    arguments = ["--workers", "2", "--seconds", "0.1", "--members", "20"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.self", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done
    rows = [line for line in done.stdout.splitlines() if "/s" in line]
    assert [row.split()[1] for row in rows] == ["heartbeats,", "heartbeats,", "durable", "durable"]
