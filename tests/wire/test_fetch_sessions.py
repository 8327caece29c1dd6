"""Fetch sessions (KIP-227) rule by rule, over TCP; a real broker passes as well
(GROUPD_PEER=kafka)."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.admin import create_topics, end_offsets
from tests.support.fetched import whole_batches
from tests.support.peer import Peer
from tests.support.process import wait_until
from tests.support.wire_client import WireClient

NONE, OFFSET_OUT_OF_RANGE = 0, 1
SESSION_NOT_FOUND, INVALID_EPOCH, TOPIC_ID_ERROR = 70, 71, 106
PARTITIONS = 4
BY_NAME, BY_ID = 12, 13


class Reader:
    """A consumer on a new topic whose partitions are empty, in a session over all of them."""

    def __init__(self, peer: Peer, version: int = BY_NAME) -> None:
        self.peer = peer
        self.version = version
        self.topic = f"t-{uuid.uuid4().hex[:8]}"
        create_topics(peer.bootstrap, {self.topic: PARTITIONS})
        end_offsets(peer.bootstrap, {self.topic: PARTITIONS})
        self.client = WireClient(peer.host, peer.port)
        asked = [{"name": self.topic, "topic_id": bytes(16)}]
        described = self.client.call("Metadata", 12, topics=asked)
        self.topic_id = described["topics"][0]["topic_id"]
        self.session = self.epoch = 0
        self.fetch(*((number, 0) for number in range(PARTITIONS)))

    def send(
        self, *places: tuple[int, int], forget: Sequence[int] = (), max_wait: int = 200
    ) -> None:
        """`places`: partitions and the offsets to read them from."""
        named = {"topic_id": self.topic_id} if self.version >= BY_ID else {"topic": self.topic}
        parts = [
            {
                "partition": number,
                "current_leader_epoch": -1,
                "fetch_offset": offset,
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
                "partition_max_bytes": 1 << 20,
            }
            for number, offset in places
        ]
        fields: dict[str, Any] = {
            "replica_id": -1,
            "max_wait": max_wait,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": self.session,
            "session_epoch": self.epoch,
            "topics": [{**named, "partitions": parts}] if parts else [],
            "forgotten_topics_data": [{**named, "partitions": list(forget)}] if forget else [],
            "rack_id": "",
        }
        self.client.send("Fetch", self.version, fields)

    def receive(self) -> Any:
        reply = self.client.receive()
        if reply["error_code"] == NONE:
            self.session, self.epoch = reply["session_id"], self.epoch + 1
        return reply

    def fetch(self, *places: tuple[int, int], **fields: Any) -> Any:
        self.send(*places, **fields)
        return self.receive()

    def produce(self, partition: int, *values: bytes) -> None:
        producer = Producer({"bootstrap.servers": self.peer.bootstrap, "log_level": 0})
        for value in values:
            producer.produce(self.topic, value, partition=partition)
        assert producer.flush(20) == 0


@pytest.fixture(params=[BY_NAME, BY_ID])
def reader(peer: Peer, request: pytest.FixtureRequest) -> Iterator[Reader]:
    made = Reader(peer, request.param)
    yield made
    made.client.close()


def records(reply: Any) -> dict[int, int]:
    """Partition -> number of records, of all partitions in a reply without an error."""
    assert reply["error_code"] == NONE
    return {
        part["partition_index"]: sum(
            batch.header.record_count for batch in whole_batches(part["records"] or b"")
        )
        for topic in reply["responses"]
        for part in topic["partitions"]
        if part["error_code"] == NONE
    }


def test_replies_leave_out_what_has_not_changed(reader: Reader) -> None:
    session = reader.session
    assert session > 0
    assert records(reader.fetch()) == {}
    reader.produce(2, b"a", b"b")
    assert records(reader.fetch()) == {2: 2}
    assert records(reader.fetch()) == {2: 2}
    assert records(reader.fetch((2, 2))) == {}
    assert reader.session == session


def test_a_long_poll_in_a_session_ends_with_a_record(reader: Reader) -> None:
    reader.send(max_wait=20_000)
    late = threading.Timer(0.2, lambda: reader.produce(1, b"a"))
    late.start()
    assert records(reader.receive()) == {1: 1}
    late.join()


def test_forgotten_partitions_are_not_read(reader: Reader) -> None:
    reader.produce(0, b"a")
    reader.produce(1, b"b")
    assert records(reader.fetch(forget=[1])) == {0: 1}
    assert records(reader.fetch((0, 1))) == {}
    # Named again, it is new: its reply says how far it goes.
    assert records(reader.fetch((1, 1))) == {1: 0}


@pytest.mark.parametrize("epoch", [1, 3, 2**31 - 1])
def test_an_epoch_that_is_not_the_next(reader: Reader, epoch: int) -> None:
    assert records(reader.fetch()) == {}
    reader.epoch = epoch
    reply = reader.fetch()
    assert (reply["error_code"], reply["session_id"], reply["responses"]) == (INVALID_EPOCH, 0, [])
    reader.epoch = 2
    assert records(reader.fetch()) == {}


def test_a_session_that_is_not_there(reader: Reader) -> None:
    reader.session, reader.epoch = 77, 1
    reply = reader.fetch((0, 0))
    assert (reply["error_code"], reply["session_id"], reply["responses"]) == (
        SESSION_NOT_FOUND,
        0,
        [],
    )


def test_names_and_ids_do_not_mix(reader: Reader) -> None:
    reader.version = BY_ID if reader.version == BY_NAME else BY_NAME
    assert reader.fetch()["error_code"] == TOPIC_ID_ERROR


@pytest.mark.parametrize("epoch", [0, -1])
def test_a_full_fetch_ends_the_session(reader: Reader, epoch: int) -> None:
    old = reader.session
    reader.epoch = epoch
    reply = reader.fetch((0, 0))
    assert records(reply) == {0: 0}
    assert (reply["session_id"] > 0) is (epoch == 0)
    assert reply["session_id"] != old
    reader.session, reader.epoch = old, 1
    assert reader.fetch()["error_code"] == SESSION_NOT_FOUND


def test_without_partitions_there_is_no_session(reader: Reader) -> None:
    old = reader.session
    reply = reader.fetch(forget=range(PARTITIONS))
    assert (reply["error_code"], reply["session_id"], reply["responses"]) == (NONE, 0, [])
    reader.session, reader.epoch = old, 2
    assert reader.fetch()["error_code"] == SESSION_NOT_FOUND


def test_an_error_is_told_every_time(reader: Reader) -> None:
    for _ in range(2):
        reply = reader.fetch((0, 99))
        (part,) = reply["responses"][0]["partitions"]
        assert (part["partition_index"], part["error_code"]) == (0, OFFSET_OUT_OF_RANGE)
    assert records(reader.fetch((0, 0))) == {0: 0}
    assert records(reader.fetch()) == {}


def test_a_session_outlives_its_connection(reader: Reader) -> None:
    reader.client.close()
    reader.client = WireClient(reader.peer.host, reader.peer.port)
    reader.produce(3, b"a")
    assert records(reader.fetch()) == {3: 1}


def test_a_request_that_another_one_overtook(reader: Reader) -> None:
    other = WireClient(reader.peer.host, reader.peer.port)
    first, session = reader.client, reader.session
    reader.send(max_wait=3_000)

    def overtake() -> bool:
        """Whether the first request was there already."""
        reader.client, reader.epoch = other, 2
        return bool(reader.fetch(max_wait=0)["error_code"] == NONE)

    wait_until(overtake, 3, "the second request in the session")
    reply = first.receive()
    assert (reply["error_code"], reply["session_id"]) == (INVALID_EPOCH, session)
    first.close()
