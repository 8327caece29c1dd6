"""`__transaction_state` over TCP: read like any topic, written and changed by nobody else; ids that
are not used any more leave a tombstone in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from groupd.protocol.errors import ErrorCode
from groupd.protocol.records.batch import iter_batches, iter_records
from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.records.transaction_records import decode_key, decode_value
from tests.support.daemon import Daemon
from tests.support.peer import running
from tests.support.process import wait_until
from tests.support.wire_client import WireClient
from tests.wire.test_transactions import init

TOPIC = "__transaction_state"
ONE_SHARD = {"transaction.state.log.num.partitions": "1"}
EXPIRES = {
    **ONE_SHARD,
    "transactional.id.expiration.ms": "1",
    "transaction_expiration_interval_ms": "50",
}


@pytest.fixture
def started(tmp_path_factory: pytest.TempPathFactory, request: Any) -> Iterator[Daemon]:
    with running(
        Daemon(
            tmp_path_factory.mktemp("daemon"),
            topics={"t": 1},
            settings=getattr(request, "param", ONE_SHARD),
        )
    ) as daemon:
        yield daemon


def topics(client: WireClient) -> dict[str, dict[str, Any]]:
    reply = client.call("Metadata", 12, topics=None)
    return {found["name"]: found for found in reply["topics"]}


def fetch(client: WireClient, offset: int = 0, number: int = 0) -> Any:
    partition = {"partition": number, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    reply = client.call(
        "Fetch",
        12,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[{"topic": TOPIC, "partitions": [partition]}],
    )
    return reply["responses"][0]["partitions"][0]


def log(client: WireClient, number: int = 0) -> list[tuple[str, int | None]]:
    """(transactional id, state) of every record of a partition; None for a tombstone."""
    found = fetch(client, number=number)
    assert found["error_code"] == 0
    return [
        (
            decode_key(record.key or b""),
            None if record.value is None else decode_value(record.value).state,
        )
        for batch in iter_batches(found["records"] or b"")
        for record in iter_records(batch)
    ]


def test_it_is_always_there_and_can_be_read(started: Daemon) -> None:
    with WireClient(started.host, started.port) as client:
        found = topics(client)[TOPIC]
        assert log(client) == []
        init(client, "one")
        assert (found["error_code"], found["is_internal"]) == (0, True)
        assert [(p["partition_index"], p["leader_id"]) for p in found["partitions"]] == [(0, 0)]
        assert log(client) == [("one", 0)]
        for timestamp, offset in ((-2, 0), (-1, 1), (1, 0)):
            asked = {"partition_index": 0, "timestamp": timestamp}
            reply = client.call("ListOffsets", 7, topics=[{"name": TOPIC, "partitions": [asked]}])
            (listed,) = reply["topics"][0]["partitions"]
            assert (listed["error_code"], listed["offset"]) == (0, offset), timestamp
    started.restart()
    with WireClient(started.host, started.port) as client:
        assert TOPIC in topics(client)
        assert log(client) == [("one", 0)]


@pytest.mark.parametrize("started", [{}], indirect=True)
def test_ids_are_spread_over_fifty_partitions_as_in_kafka(started: Daemon) -> None:
    # As Java's hash of the ids says: 110182 and 115276.
    places = {"one": 32, "two": 26}
    with WireClient(started.host, started.port) as client:
        for name in places:
            init(client, name)
    for _ in range(2):
        with WireClient(started.host, started.port) as client:
            found = topics(client)[TOPIC]["partitions"]
            assert [(p["partition_index"], p["leader_id"]) for p in found] == [
                (number, 0) for number in range(50)
            ]
            for name, number in places.items():
                assert {one for one, _ in log(client, number)} == {name}
            assert log(client, 0) == []
            described = client.call(
                "DescribeLogDirs", 4, topics=[{"topic": TOPIC, "partitions": [0, 26, 32]}]
            )
            (topic,) = described["results"][0]["topics"]
            sizes = {p["partition_index"]: p["partition_size"] for p in topic["partitions"]}
            assert sizes[0] == 0
            assert min(sizes[26], sizes[32]) > 0
        started.restart()


def test_a_waiting_reader_hears_of_the_next_record(started: Daemon) -> None:
    with (
        WireClient(started.host, started.port) as reader,
        WireClient(started.host, started.port) as client,
    ):
        init(client, "one")
        partition = {"partition": 0, "fetch_offset": 1, "partition_max_bytes": 1 << 20}
        fields = {"topics": [{"topic": TOPIC, "partitions": [partition]}]}
        reader.send(
            "Fetch", 12, {"max_wait": 20_000, "min_bytes": 1, "max_bytes": 1 << 20, **fields}
        )
        init(client, "two")
        (found,) = reader.receive(10)["responses"][0]["partitions"]
        assert found["high_watermark"] == 2
        assert found["records"]


def test_clients_can_not_write_or_change_it(started: Daemon) -> None:
    with WireClient(started.host, started.port) as client:
        init(client, "one")
        refused = {}
        for name in (TOPIC, "__consumer_offsets"):
            records = encode_batch(0, -1, 1_700_000_000_000, [(b"k", b"v")])
            data = [{"name": name, "partition_data": [{"index": 0, "records": records}]}]
            produced = client.call("Produce", 9, acks=-1, timeout=1000, topic_data=data)
            deleted = client.call("DeleteTopics", 5, topic_names=[name], timeout=1000)
            grown = client.call(
                "CreatePartitions",
                3,
                topics=[{"name": name, "count": 100, "assignments": None}],
                timeout=1000,
                validate_only=False,
            )
            cut = [{"name": name, "partitions": [{"partition_index": 0, "offset": 1}]}]
            emptied = client.call("DeleteRecords", 2, topics=cut, timeout=1000)
            made = client.call(
                "CreateTopics",
                7,
                topics=[
                    {
                        "name": name,
                        "num_partitions": 1,
                        "replication_factor": 1,
                        "assignments": [],
                        "configs": [],
                    }
                ],
                timeout=1000,
                validate_only=False,
            )
            refused[name] = (
                produced["responses"][0]["partition_responses"][0]["error_code"],
                deleted["responses"][0]["error_code"],
                grown["results"][0]["error_code"],
                emptied["topics"][0]["partitions"][0]["error_code"],
                made["topics"][0]["error_code"],
            )
        assert refused[TOPIC] == refused["__consumer_offsets"]
        assert all(refused[TOPIC])
        assert refused[TOPIC][4] == ErrorCode.TOPIC_ALREADY_EXISTS
        assert log(client) == [("one", 0)]


@pytest.mark.parametrize("started", [EXPIRES], indirect=True)
def test_an_id_that_is_not_used_leaves_a_tombstone_and_its_producer_id_is_not_given_again(
    started: Daemon,
) -> None:
    with WireClient(started.host, started.port) as client:
        first, _ = init(client, "one")
        wait_until(lambda: ("one", None) in log(client), 10, "the tombstone")
        reply = client.call("DescribeTransactions", 0, transactional_ids=["one"])
        (found,) = reply["transaction_states"]
        assert found["error_code"] == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        second, epoch = init(client, "one")
        assert (second > first, epoch) == (True, 0)
        assert fetch(client)["high_watermark"] >= 3
