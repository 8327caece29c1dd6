"""Several listeners: each tells its clients its own address (`docs/spec/security.md#1.1`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groupd.coordinator.security_settings import STANDARD_AUTHORIZER
from tests.support.daemon import Daemon, refused
from tests.support.wire_client import WireClient

TOLD = {"kafka": ("inside.example", 1234), "external": ("outside.example", 4321)}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    settings = {
        "listeners": "INTERNAL://127.0.0.1:0,EXTERNAL://127.0.0.1:0,LOCAL://127.0.0.1:0",
        "listener.security.protocol.map": ("INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,LOCAL:PLAINTEXT"),
        "advertised.listeners": "EXTERNAL://outside.example:4321,INTERNAL://inside.example:1234",
    }
    daemon = Daemon(tmp_path_factory.mktemp("listeners"), settings=settings)
    daemon.start()
    yield daemon
    daemon.close()


@pytest.mark.parametrize("name", ["kafka", "external", "local"])
def test_every_reply_names_the_address_of_the_listener_it_leaves(daemon: Daemon, name: str) -> None:
    """SE-01."""
    port = daemon.ports[name]
    told = TOLD.get(name, ("127.0.0.1", port))
    with WireClient("127.0.0.1", port) as client:
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
        f"LOCAL://127.0.0.1:{daemon.ports['local']}"
    )


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
        (["--set", "listeners=PLAINTEXT://:0", "--workers", "2"], "not with --workers"),
        (["--set", f"authorizer.class.name={STANDARD_AUTHORIZER}", "--workers", "2"], "no ACLs"),
    ],
)
def test_a_wrong_listener_ends_the_start(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    """SE-02."""
    assert message in refused(arguments, tmp_path)
