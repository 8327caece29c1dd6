"""WriteTxnMarkers and coordinator epochs, over TCP; all of it holds for a real broker too
(GROUPD_PEER=kafka)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from groupd.protocol.records.batch import decode_marker, iter_batches, iter_records
from tests.support.daemon import Daemon
from tests.support.peer import Peer, make_peer, running
from tests.support.process import wait_until
from tests.support.wire_client import WireClient

UNKNOWN_SERVER_ERROR = -1
NONE, UNKNOWN_TOPIC_OR_PARTITION, INVALID_PRODUCER_EPOCH, COORDINATOR_FENCED = 0, 3, 47, 52
NEVER_SEEN = 900_000
PARTITIONS = 5


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """A peer of its own, so that nothing has been in its transaction log before."""
    with running(make_peer(tmp_path_factory.mktemp("peer"), topics={"t": PARTITIONS})) as made:
        with WireClient(made.host, made.port) as client:
            wait_until(lambda: _led(client), 30, "the partitions to be led")
        yield made


def _led(client: WireClient) -> bool:
    """Kafka's Metadata names a leader a moment before it leads."""
    asked = [{"name": "t", "partition_indexes": range(PARTITIONS)}]
    (topic,) = client.call("DescribeProducers", 0, topics=asked)["topics"]
    return {one["error_code"] for one in topic["partitions"]} == {NONE}


def write(
    client: WireClient, partition: int, producer: int, epoch: int, coordinator_epoch: int
) -> int:
    """Writes an abort marker; its error code."""
    marker = {
        "producer_id": producer,
        "producer_epoch": epoch,
        "transaction_result": False,
        "topics": [{"name": "t", "partition_indexes": [partition]}],
        "coordinator_epoch": coordinator_epoch,
    }
    reply = client.call("WriteTxnMarkers", 1, markers=[marker])
    (topic,) = reply["markers"][0]["topics"]
    return int(topic["partitions"][0]["error_code"])


def coordinator_epochs(client: WireClient, partition: int) -> dict[int, int]:
    """The coordinator epochs by producer id."""
    asked = [{"name": "t", "partition_indexes": [partition]}]
    reply = client.call("DescribeProducers", 0, topics=asked)
    (found,) = reply["topics"][0]["partitions"]
    assert found["error_code"] == NONE
    return {one["producer_id"]: one["coordinator_epoch"] for one in found["active_producers"]}


def markers(client: WireClient, partition: int) -> list[tuple[int, int, int]]:
    """Producer id, epoch and coordinator epoch of every marker."""
    part = {
        "partition": partition,
        "current_leader_epoch": -1,
        "fetch_offset": 0,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    }
    reply = client.call(
        "Fetch",
        11,
        replica_id=-1,
        max_wait=0,
        min_bytes=0,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": "t", "partitions": [part]}],
        forgotten_topics_data=[],
        rack_id="",
    )
    records = reply["responses"][0]["partitions"][0]["records"]
    found = []
    for batch in iter_batches(records or b""):
        for record in iter_records(batch) if batch.header.is_control else ():
            marker = decode_marker(record)
            assert marker is not None
            header = batch.header
            found.append((header.producer_id, header.producer_epoch, marker.coordinator_epoch))
    return found


def commit(peer: Peer, partition: int) -> None:
    """Produces a record in a transaction of a client, and commits it."""
    producer = Producer(
        {"bootstrap.servers": peer.bootstrap, "transactional.id": "tx", "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("t", b"v", partition=partition)
    producer.commit_transaction(30)


def test_the_first_coordinator_epoch_is_0(peer: Peer, client: WireClient) -> None:
    commit(peer, 0)
    wait_until(lambda: markers(client, 0), 20, "the marker")
    ((producer, epoch, coordinator_epoch),) = markers(client, 0)
    assert coordinator_epoch == 0
    assert coordinator_epochs(client, 0) == {producer: 0}
    # What an operator does who ends a transaction by hand, with the epoch that is shown.
    assert write(client, 0, producer, epoch, 0) == NONE
    assert write(client, 0, producer, epoch, -1) == COORDINATOR_FENCED
    assert write(client, 0, producer, epoch + 1, 0) == NONE
    assert write(client, 0, producer, epoch, 0) == INVALID_PRODUCER_EPOCH
    if isinstance(peer, Daemon):  # a real broker keeps its epoch where it stops in order
        peer.restart()
        commit(peer, 2)
        with WireClient(peer.host, peer.port) as again:
            wait_until(lambda: markers(again, 2), 20, "the marker")
            assert [found[2] for found in markers(again, 2)] == [1]


@pytest.mark.parametrize(("producer", "epoch"), [(-1, 0), (NEVER_SEEN + 50, -1)])
def test_no_producer(client: WireClient, producer: int, epoch: int) -> None:
    assert write(client, 3, producer, epoch, 0) == UNKNOWN_SERVER_ERROR
    assert markers(client, 3) == []


@pytest.mark.parametrize("coordinator_epoch", [0, -1, 7])
def test_a_producer_that_was_never_seen(client: WireClient, coordinator_epoch: int) -> None:
    producer = NEVER_SEEN + coordinator_epoch
    assert write(client, 1, producer, 0, coordinator_epoch) == NONE
    assert (producer, 0, coordinator_epoch) in markers(client, 1)
    assert coordinator_epochs(client, 1)[producer] == coordinator_epoch
    assert write(client, 1, producer, 0, coordinator_epoch - 1) == COORDINATOR_FENCED


def test_a_partition_that_is_not_there(client: WireClient) -> None:
    assert write(client, PARTITIONS, NEVER_SEEN, 0, 0) == UNKNOWN_TOPIC_OR_PARTITION
