"""Several listeners: each tells its clients its own address (`docs/spec/security.md#1.1`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.certificates import keystore, truststore
from tests.support.daemon import Daemon, refused
from tests.support.peer import running
from tests.support.wire_client import WireClient

HOSTS = {
    "INTERNAL": "127.0.0.1",
    "EXTERNAL": "127.0.0.1",
    "LOCAL": "127.0.0.1",
    "NAMED": "localhost",
}
TOLD = {"kafka": ("inside.example", 1234), "external": ("outside.example", 4321)}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = {
        "listeners": ",".join(f"{name}://{host}:0" for name, host in HOSTS.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in HOSTS),
        "advertised.listeners": "EXTERNAL://outside.example:4321,INTERNAL://inside.example:1234",
    }
    daemon = Daemon(tmp_path_factory.mktemp("listeners"), settings=settings)
    daemon.start()
    yield daemon
    daemon.close()


@pytest.mark.parametrize("name", ["kafka", "external", "local", "named"])
def test_every_reply_names_the_address_of_the_listener_it_leaves(daemon: Daemon, name: str) -> None:
    """SE-01."""
    port = daemon.ports[name]
    host = "localhost" if name == "named" else "127.0.0.1"
    told = TOLD.get(name, (host, port))
    with WireClient(host, port) as client:
        for api, version in (("Metadata", 12), ("DescribeCluster", 0)):
            fields = {"topics": []} if api == "Metadata" else {}
            (broker,) = client.call(api, version, **fields)["brokers"]
            assert (broker["host"], broker["port"]) == told, api
        found = client.call("FindCoordinator", 4, key_type=0, coordinator_keys=["g"])
        (coordinator,) = found["coordinators"]
        assert (coordinator["host"], coordinator["port"]) == told
        quorum = client.call(
            "DescribeQuorum",
            2,
            topics=[{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}],
        )
        ((listener,),) = [node["listeners"] for node in quorum["nodes"]]
        assert (listener["host"], listener["port"]) == told


def test_tools_see_all_listeners(daemon: Daemon) -> None:
    with WireClient("127.0.0.1", daemon.port) as client:
        resource = {"resource_type": 4, "resource_name": "0", "configuration_keys": None}
        reply = client.call("DescribeConfigs", 4, resources=[resource])
    found = {one["name"]: one["value"] for one in reply["results"][0]["configs"]}
    assert found["advertised.listeners"] == (
        "INTERNAL://inside.example:1234,EXTERNAL://outside.example:4321,"
        f"LOCAL://127.0.0.1:{daemon.ports['local']},NAMED://localhost:{daemon.ports['named']}"
    )


def test_clients_check_the_name_that_is_in_listeners(tmp_path: Path) -> None:
    """SE-11, with librdkafka: it creates a topic where the first reply sends it."""
    ca = trustme.CA()
    settings = {
        "listeners": "SSL://localhost:0",
        "ssl.keystore.location": str(keystore(tmp_path / "k.pem", ca.issue_cert("localhost"))),
    }
    with running(Daemon(tmp_path, settings=settings)) as daemon:
        admin = AdminClient(
            {
                "bootstrap.servers": f"localhost:{daemon.port}",
                "security.protocol": "SSL",
                "ssl.ca.location": str(truststore(tmp_path / "ca.pem", ca)),
                "log_level": 0,
            }
        )
        (created,) = admin.create_topics([NewTopic("t", 1, 1)], request_timeout=10).values()
        created.result(10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "listeners=EXTERNAL://:0"], "EXTERNAL has no security protocol"),
        (
            [
                "--set",
                "listeners=PLAINTEXT://:0",
                "--set",
                "advertised.listeners=PLAINTEXT://0.0.0.0:9092",
            ],
            "0.0.0.0, to which no client can connect",
        ),
        (
            ["--set", "listeners=PLAINTEXT://:0", "--set", "advertised.listeners=SSL://a:1"],
            "SSL is not in listeners",
        ),
        (
            ["--set", "listeners=PLAINTEXT://:0", "--listen", "127.0.0.1:0"],
            "--listen: not with listeners",
        ),
        (
            ["--set", "listeners=PLAINTEXT://:0", "--workers", "2", "--store", "postgresql://h/d"],
            "listeners: not with --workers",
        ),
    ],
)
def test_a_wrong_listener_ends_the_start(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    """SE-02."""
    assert message in refused(arguments, tmp_path)
