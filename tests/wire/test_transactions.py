"""The transaction APIs over TCP in every version, as a client with nothing but sockets sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.peer import running
from tests.support.process import wait_until
from tests.support.wire_client import WireClient

PARTITIONS = 2


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(Daemon(tmp_path_factory.mktemp("daemon"), topics={"t": PARTITIONS})) as made:
        yield made


def init(client: WireClient, name: str, version: int = 5) -> tuple[int, int]:
    """Id and epoch of the first producer of that name."""
    reply = client.call(
        "InitProducerId", version, transactional_id=name, transaction_timeout=60_000
    )
    assert (reply["error_code"], reply["producer_epoch"]) == (0, 0), reply
    return reply["producer_id"], reply["producer_epoch"]


def add(client: WireClient, name: str, producer: tuple[int, int], version: int = 3) -> list[int]:
    producer_id, epoch = producer
    topics = [{"name": "t", "partitions": [0, 1]}]
    one = {
        "transactional_id": name,
        "producer_id": producer_id,
        "producer_epoch": epoch,
        "verify_only": False,
        "topics": topics,
    }
    old = {
        "v3_and_below_transactional_id": name,
        "v3_and_below_producer_id": producer_id,
        "v3_and_below_producer_epoch": epoch,
        "v3_and_below_topics": topics,
    }
    asked = {"transactions": [one]} if version >= 4 else old
    reply = client.call("AddPartitionsToTxn", version, **asked)
    found = (
        reply["results_by_transaction"][0]["topic_results"]
        if version >= 4
        else reply["results_by_topic_v3_and_below"]
    )
    return [entry["partition_error_code"] for entry in found[0]["results_by_partition"]]


def end(client: WireClient, name: str, producer: tuple[int, int], version: int) -> Any:
    return client.call(
        "EndTxn",
        version,
        transactional_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=True,
    )


def state(client: WireClient, name: str) -> str:
    reply = client.call("DescribeTransactions", 0, transactional_ids=[name])
    return str(reply["transaction_states"][0]["transaction_state"])


@pytest.mark.parametrize("version", range(1, 7))
def test_this_node_is_the_coordinator_of_every_id(
    client: WireClient, peer: Daemon, version: int
) -> None:
    asked = {"coordinator_keys": ["a", "b"]} if version >= 4 else {"key": "a"}
    reply = client.call("FindCoordinator", version, key_type=1, **asked)
    found = reply["coordinators"] if version >= 4 else [reply]
    assert [(one["host"], one["port"]) for one in found] == [(peer.host, peer.port)] * len(found)
    assert {one["error_code"] for one in found} == {0}


@pytest.mark.parametrize("version", [3, 4])
def test_the_features_are_finalized(client: WireClient, version: int) -> None:
    reply = client.call(
        "ApiVersions", version, client_software_name="c", client_software_version="1"
    )
    levels = {one["name"]: one["max_version_level"] for one in reply["finalized_features"]}
    assert levels == {"group.version": 1, "share.version": 2, "transaction.version": 2}
    supported = {one["name"] for one in reply["supported_features"]}
    assert supported == (levels.keys() if version >= 4 else set())
    ranges = {one["api_key"]: (one["min_version"], one["max_version"]) for one in reply["api_keys"]}
    assert [ranges[key] for key in (22, 24, 25, 26, 65, 66)] == [
        (0, 5),
        (0, 5),
        (0, 4),
        (0, 5),
        (0, 0),
        (0, 2),
    ]


@pytest.mark.parametrize("version", range(6))
def test_a_transaction_in_every_version(client: WireClient, version: int) -> None:
    name = f"v{version}"
    producer = init(client, name, version)
    assert add(client, name, producer, version) == [0, 0]
    assert state(client, name) == "Ongoing"
    reply = end(client, name, producer, version)
    assert reply["error_code"] == 0
    if version >= 5:
        assert (reply["producer_id"], reply["producer_epoch"]) == (producer[0], producer[1] + 1)
    wait_until(lambda: state(client, name) == "CompleteCommit", 10, "the markers")


@pytest.mark.parametrize("version", range(5))
def test_offsets_in_every_version(client: WireClient, version: int) -> None:
    name = f"o{version}"
    producer_id, epoch = init(client, name)
    asked = {"producer_id": producer_id, "producer_epoch": epoch, "group_id": "my-group"}
    reply = client.call("AddOffsetsToTxn", version, transactional_id=name, **asked)
    assert reply["error_code"] == 0
    (found,) = client.call("DescribeTransactions", 0, transactional_ids=[name])[
        "transaction_states"
    ]
    assert found["topics"] == [{"topic": "__consumer_offsets", "partitions": [12]}]


@pytest.mark.parametrize("version", range(3))
def test_list_in_every_version(client: WireClient, version: int) -> None:
    init(client, f"l{version}")
    filters = {"duration_filter": -1} if version >= 1 else {}
    if version >= 2:
        filters |= {"transactional_id_pattern": "l2"}
    reply = client.call(
        "ListTransactions", version, state_filters=["Empty"], producer_id_filters=[], **filters
    )
    names = [found["transactional_id"] for found in reply["transaction_states"]]
    assert f"l{version}" in names
    assert version < 2 or names == ["l2"]


def test_a_kill_between_decision_and_markers_loses_neither(peer: Daemon) -> None:
    """Whichever part of it is on the disk: a commit that was answered is completed."""
    with WireClient(peer.host, peer.port) as client:
        producers = {f"k{number}": init(client, f"k{number}") for number in range(10)}
        for name, producer in producers.items():
            assert add(client, name, producer) == [0, 0]
        for name, producer in producers.items():
            assert end(client, name, producer, 5)["error_code"] == 0
    peer.restart()
    with WireClient(peer.host, peer.port) as client:
        for name, (producer_id, epoch) in producers.items():
            wait_until(lambda: state(client, name) == "CompleteCommit", 10, name)  # noqa: B023
            reply = end(client, name, (producer_id, epoch), 5)
            assert (reply["error_code"], reply["producer_epoch"]) == (0, epoch + 1)
