"""Producers of every client: idempotence, compression, headers, null keys, large records."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaProducer

from tests.clients.conftest import TopicMaker
from tests.support.peer import Peer
from tests.support.process import ChildProcess
from tests.support.toolchain import java_driver, node_script

COUNT = 300
PARTITIONS = 3
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READ_S = 30.0
LARGE = 900_000
TOO_LARGE = 1_200_000

Read = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]
"""partition, offset, key, value, headers."""
Send = Callable[[str, str, str, bool, Path], None]


def record(number: int) -> tuple[bytes | None, bytes, list[tuple[str, bytes]]]:
    """Key (null for even numbers), value and headers, as the Java driver makes them."""
    key = None if number % 2 == 0 else f"k{number}".encode()
    return key, f"v{number}".encode(), [("n", str(number).encode())]


def read_all(bootstrap: str, topic: str, count: int, partitions: int = PARTITIONS) -> list[Read]:
    """The first `count` records of a topic, sorted; the reader decompresses and checks CRCs."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "check.crcs": True,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    found: list[Read] = []
    try:
        consumer.assign([TopicPartition(topic, part, 0) for part in range(partitions)])
        while len(found) < count:
            messages = consumer.consume(count - len(found), READ_S)
            assert messages, f"only {len(found)} of {count} records within {READ_S:.0f} s"
            for message in messages:
                assert message.error() is None, message.error()
                headers = tuple((name, bytes(value)) for name, value in message.headers() or ())
                found.append(
                    (message.partition(), message.offset(), message.key(), message.value(), headers)
                )
    finally:
        consumer.close()
    return sorted(found, key=lambda at: at[:2])


def expected() -> list[Read]:
    return sorted(
        (number % PARTITIONS, number // PARTITIONS, key, value, tuple(headers))
        for number in range(COUNT)
        for key, value, headers in [record(number)]
    )


def send_confluent(bootstrap: str, topic: str, codec: str, idempotent: bool, _: Path) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": idempotent,
            "linger.ms": 5,
            "log_level": 0,
        }
    )
    errors: list[object] = []
    for number in range(COUNT):
        key, value, headers = record(number)
        producer.produce(
            topic,
            key=key,
            value=value,
            headers=headers,
            partition=number % PARTITIONS,
            on_delivery=lambda error, _: errors.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert errors == []


def send_kafka_python(bootstrap: str, topic: str, codec: str, idempotent: bool, _: Path) -> None:
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=idempotent,
        linger_ms=5,
    )
    try:
        sent = []
        for number in range(COUNT):
            key, value, headers = record(number)
            sent.append(
                producer.send(
                    topic, key=key, value=value, headers=headers, partition=number % PARTITIONS
                )
            )
        for future in sent:
            future.get(timeout=30)
    finally:
        producer.close()


async def send_aiokafka(bootstrap: str, topic: str, codec: str, idempotent: bool) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type=None if codec == "none" else codec,
        enable_idempotence=idempotent,
        linger_ms=5,
    )
    await producer.start()
    try:
        sent = []
        for number in range(COUNT):
            key, value, headers = record(number)
            sent.append(
                await producer.send(
                    topic, key=key, value=value, headers=headers, partition=number % PARTITIONS
                )
            )
        for future in sent:
            await future
    finally:
        await producer.stop()


def run_java(bootstrap: str, directory: Path, **options: object) -> dict[str, object]:
    """Run the Java producer; the event it ended with."""
    arguments = [item for name, value in options.items() for item in (f"--{name}", str(value))]
    with ChildProcess(
        [*java_driver(), "produce", "--bootstrap", bootstrap, *arguments],
        stderr_path=directory / "java-produce.log",
        env=dict(os.environ),
    ) as process:
        code = process.wait_exit(60)
        assert code == 0, process.output()
        found: dict[str, object] = json.loads(process.stdout_lines[-1])
        return found


def send_java(bootstrap: str, topic: str, codec: str, idempotent: bool, directory: Path) -> None:
    said = run_java(
        bootstrap,
        directory,
        topic=topic,
        partitions=PARTITIONS,
        count=COUNT,
        compression=codec,
        idempotence=str(idempotent).lower(),
    )
    assert said["event"] == "produced", said


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "send", [send_confluent, send_kafka_python], ids=["confluent", "kafka_python"]
)
def test_records_come_back_as_they_were_sent(
    peer: Peer, topics: TopicMaker, tmp_path: Path, send: Send, codec: str, idempotent: bool
) -> None:
    (topic,) = topics({"p": PARTITIONS})
    send(peer.bootstrap, topic, codec, idempotent, tmp_path)
    assert read_all(peer.bootstrap, topic, COUNT) == expected()


@pytest.mark.parametrize("idempotent", [False, True], ids=["plain", "idempotent"])
@pytest.mark.parametrize("codec", CODECS)
async def test_aiokafka_records_come_back_as_they_were_sent(
    peer: Peer, topics: TopicMaker, codec: str, idempotent: bool
) -> None:
    (topic,) = topics({"p": PARTITIONS})
    await send_aiokafka(peer.bootstrap, topic, codec, idempotent)
    assert read_all(peer.bootstrap, topic, COUNT) == expected()
    consumer = AIOKafkaConsumer(bootstrap_servers=peer.bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    try:
        consumer.assign([AioTopicPartition(topic, part) for part in range(PARTITIONS)])
        found = 0
        while found < COUNT:
            got = await consumer.getmany(timeout_ms=int(READ_S * 1000))
            assert got, f"only {found} records"
            found += sum(len(records) for records in got.values())
        assert found == COUNT
    finally:
        await consumer.stop()


@pytest.mark.parametrize(
    ("codec", "idempotent"),
    [
        ("none", False),
        ("none", True),
        ("gzip", True),
        ("snappy", True),
        ("lz4", True),
        ("zstd", True),
    ],
)
def test_java_records_come_back_as_they_were_sent(
    peer: Peer, topics: TopicMaker, tmp_path: Path, codec: str, idempotent: bool
) -> None:
    (topic,) = topics({"p": PARTITIONS})
    send_java(peer.bootstrap, topic, codec, idempotent, tmp_path)
    assert read_all(peer.bootstrap, topic, COUNT) == expected()


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_acks_setting_stores_the_records(peer: Peer, topics: TopicMaker, acks: str) -> None:
    (topic,) = topics({"acks": 1})
    producer = Producer({"bootstrap.servers": peer.bootstrap, "acks": acks, "log_level": 0})
    for number in range(10):
        producer.produce(topic, value=str(number).encode())
    assert producer.flush(20) == 0
    values = [found[3] for found in read_all(peer.bootstrap, topic, 10, 1)]
    assert values == [str(number).encode() for number in range(10)]


def test_null_values_empty_values_and_repeated_headers_are_kept(
    peer: Peer, topics: TopicMaker
) -> None:
    (topic,) = topics({"nulls": 1})
    producer = Producer({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    producer.produce(topic, key=b"tombstone", value=None)
    producer.produce(topic, key=b"", value=b"")
    producer.produce(topic, value=b"x", headers=[("same", b"1"), ("same", b"2")])
    assert producer.flush(20) == 0
    found = [
        (key, value, headers) for _, _, key, value, headers in read_all(peer.bootstrap, topic, 3, 1)
    ]
    assert found == [
        (b"tombstone", None, ()),
        (b"", b"", ()),
        (None, b"x", (("same", b"1"), ("same", b"2"))),
    ]


def test_a_large_record_is_kept_and_one_over_the_limit_is_refused(
    peer: Peer, topics: TopicMaker
) -> None:
    (topic,) = topics({"large": 1})
    producer = Producer(
        {"bootstrap.servers": peer.bootstrap, "message.max.bytes": 4_000_000, "log_level": 0}
    )
    outcomes: list[object] = []

    def delivered(error: object, _: object) -> None:
        outcomes.append(error)

    producer.produce(topic, value=os.urandom(LARGE), on_delivery=delivered)
    assert producer.flush(20) == 0
    producer.produce(topic, value=os.urandom(TOO_LARGE), on_delivery=delivered)
    assert producer.flush(20) == 0
    assert outcomes[0] is None
    assert outcomes[1].name() == "MSG_SIZE_TOO_LARGE"  # type: ignore[attr-defined]
    ((_, _, _, value, _),) = read_all(peer.bootstrap, topic, 1, 1)
    assert value is not None
    assert len(value) == LARGE


def test_java_large_record(peer: Peer, topics: TopicMaker, tmp_path: Path) -> None:
    (topic,) = topics({"large": 1})
    said = run_java(peer.bootstrap, tmp_path, topic=topic, size=LARGE)
    assert said["event"] == "produced", said
    ((_, _, _, value, _),) = read_all(peer.bootstrap, topic, 1, 1)
    assert value is not None
    assert len(value) == LARGE


def test_two_idempotent_producers_of_platformatic_are_two_producers(
    peer: Peer, topics: TopicMaker, tmp_path: Path
) -> None:
    """That client asks for an id as producer 0 of epoch 0, always."""
    (topic,) = topics({"idempotent": 1})
    command = [*node_script("idempotent.js"), peer.bootstrap, topic, "2", "3"]
    with ChildProcess(command, stderr_path=tmp_path / "node.log") as process:
        assert process.wait_exit(60) == 0, process.output()
        first, second = (json.loads(line) for line in process.stdout_lines)
    assert first["id"] != second["id"]
    assert (first["epoch"], second["epoch"]) == (0, 0)
    assert (first["last"], second["last"]) == (2, 5)
    values = [found[3] for found in read_all(peer.bootstrap, topic, 6, 1)]
    assert values == [b"0-0", b"0-1", b"0-2", b"1-0", b"1-1", b"1-2"]
