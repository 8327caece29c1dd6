"""How many bytes a Fetch gets, over TCP; the same for a real broker (GROUPD_PEER=kafka)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.peer import Peer, make_peer, running
from tests.support.wire_client import WireClient

BATCHES = 6
VALUE = bytes(1000)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    """Two partitions with six batches each."""
    with running(make_peer(tmp_path_factory.mktemp("peer"), topics={"t": 2})) as made:
        producer = Producer({"bootstrap.servers": made.bootstrap, "linger.ms": 0})
        for _ in range(BATCHES):
            for partition in range(2):
                producer.produce("t", VALUE, partition=partition)
            assert producer.flush(20) == 0
        yield made


def fetch(
    client: WireClient, max_bytes: int = 1 << 20, partition_max_bytes: int = 1 << 20
) -> list[bytes]:
    """The records of both partitions."""
    parts = [
        {
            "partition": number,
            "current_leader_epoch": -1,
            "fetch_offset": 0,
            "log_start_offset": -1,
            "partition_max_bytes": partition_max_bytes,
        }
        for number in range(2)
    ]
    reply = client.call(
        "Fetch",
        11,
        replica_id=-1,
        max_wait=500,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=[{"topic": "t", "partitions": parts}],
        forgotten_topics_data=[],
        rack_id="",
    )
    found = {one["partition_index"]: one for one in reply["responses"][0]["partitions"]}
    assert {one["error_code"] for one in found.values()} == {0}
    return [found[number]["records"] or b"" for number in range(2)]


@pytest.fixture(scope="module")
def whole(peer: Peer) -> list[bytes]:
    with WireClient(peer.host, peer.port) as client:
        found = fetch(client)
    assert len({len(records) for records in found}) == 1
    return found


@pytest.mark.parametrize("extra", [-1, 0, 1, 61, 500])
@pytest.mark.parametrize("batches", range(1, BATCHES + 1))
def test_a_limit_of_a_partition(
    client: WireClient, whole: list[bytes], batches: int, extra: int
) -> None:
    size = len(whole[0]) // BATCHES
    limit = batches * size + extra
    first, second = fetch(client, partition_max_bytes=limit)
    assert (first, second) == (
        whole[0][: max(limit, size)],
        # The first batch of the reply is whole; of another partition nothing comes then.
        whole[1][:limit] if limit >= size else b"",
    )


@pytest.mark.parametrize("extra", [-1, 0, 1, 61, 500])
@pytest.mark.parametrize("batches", [0, 1, 2, 6, 7, 11, 12])
def test_a_limit_of_the_request(
    client: WireClient, whole: list[bytes], batches: int, extra: int
) -> None:
    size = len(whole[0]) // BATCHES
    limit = max(0, batches * size + extra)
    first, second = fetch(client, max_bytes=limit)
    left = limit - len(whole[0])
    assert (first, second) == (
        whole[0][: max(limit, size)],
        whole[1][:left] if left >= size else b"",
    )


def test_a_client_with_a_small_limit_reads_everything(peer: Peer, whole: list[bytes]) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": peer.bootstrap,
            "group.id": "small",
            "max.partition.fetch.bytes": 2 * len(whole[0]) // BATCHES + 100,
            "check.crcs": True,
        }
    )
    consumer.assign([TopicPartition("t", partition, 0) for partition in range(2)])
    found = 0
    while found < 2 * BATCHES:
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        assert message.value() == VALUE
        found += 1
    consumer.close()
