"""Idle producers are forgotten by the partitions they wrote to, over TCP; the same for a real
broker (GROUPD_PEER=kafka)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from groupd.protocol.records.batch_builder import encode_batch
from tests.support.peer import Peer, make_peer, peer_kind, running
from tests.support.process import wait_until
from tests.support.wire_client import WireClient

NONE, OUT_OF_ORDER = 0, 45
IDLE_MS = 2_000
CHECK_INTERVAL = "producer_id_expiration_check_interval_ms"
"""A constant of groupd; a setting of Kafka."""
if peer_kind() == "kafka":
    CHECK_INTERVAL = "producer.id.expiration.check.interval.ms"


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with running(
        make_peer(
            tmp_path_factory.mktemp("peer"),
            topics={"t": 3},
            settings={
                "producer.id.expiration.ms": str(IDLE_MS),
                CHECK_INTERVAL: "200",
            },
        )
    ) as made:
        yield made


def produce(client: WireClient, partition: int, producer: int, sequence: int) -> int:
    """Produces one record; the code."""
    now_ms = int(time.time() * 1000)
    records = encode_batch(0, -1, now_ms, [(None, b"v")], producer, 0, sequence)
    data = [{"name": "t", "partition_data": [{"index": partition, "records": records}]}]
    reply = client.call(
        "Produce", 9, transactional_id=None, acks=-1, timeout=10_000, topic_data=data
    )
    return int(reply["responses"][0]["partition_responses"][0]["error_code"])


def known(client: WireClient, partition: int) -> set[int]:
    asked = [{"name": "t", "partition_indexes": [partition]}]
    reply = client.call("DescribeProducers", 0, topics=asked)
    (found,) = reply["topics"][0]["partitions"]
    return {one["producer_id"] for one in found["active_producers"]}


def test_an_idle_producer_is_forgotten(client: WireClient) -> None:
    began = time.monotonic()
    assert produce(client, 0, 900, 0) == NONE
    assert produce(client, 0, 900, 5) == OUT_OF_ORDER
    assert known(client, 0) == {900}
    wait_until(lambda: known(client, 0) == set(), 20, "producer 900 is forgotten")
    assert time.monotonic() - began >= IDLE_MS / 1000 - 0.1
    assert produce(client, 0, 900, 5) == NONE


def test_an_open_transaction_keeps_its_producer(peer: Peer, client: WireClient) -> None:
    producer = Producer(
        {"bootstrap.servers": peer.bootstrap, "transactional.id": "tx", "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("t", b"v", partition=1)
    assert producer.flush(20) == 0
    (mine,) = known(client, 1)
    # Another one that starts later goes meanwhile.
    assert produce(client, 1, 901, 0) == NONE
    wait_until(lambda: 901 not in known(client, 1), 20, "producer 901 is forgotten")
    assert known(client, 1) == {mine}
    producer.commit_transaction(30)
    wait_until(lambda: known(client, 1) == set(), 20, "the producer is forgotten")
