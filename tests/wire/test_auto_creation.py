"""Metadata that creates topics: at once. Kafka (GROUPD_PEER=kafka) has an error first."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from groupd.protocol.errors import ErrorCode
from tests.support.peer import Peer, make_peer, peer_kind, running
from tests.support.process import wait_until
from tests.support.toolchain import java_driver
from tests.support.wire_client import WireClient


@pytest.fixture
def peer(tmp_path: Path) -> Iterator[Peer]:
    with running(make_peer(tmp_path, settings={"auto.create.topics.enable": "true"})) as made:
        yield made


def ask(client: WireClient, name: str, create: bool = True) -> tuple[int, int]:
    """(error code, partitions) of one topic."""
    topics = [{"topic_id": bytes(16), "name": name}]
    reply = client.call("Metadata", 12, topics=topics, allow_auto_topic_creation=create)
    return reply["topics"][0]["error_code"], len(reply["topics"][0]["partitions"])


def test_a_topic_is_there_in_the_answer_that_creates_it(peer: Peer) -> None:
    name = uuid.uuid4().hex
    with WireClient(peer.host, peer.port) as client:
        unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
        assert ask(client, name, create=False) == unknown
        assert ask(client, name) == (unknown if peer_kind() == "kafka" else (0, 1))
        wait_until(lambda: ask(client, name, create=False) == (0, 1), 10, "the topic is there")
        assert ask(client, "__cluster_metadata") == unknown
        assert ask(client, "a b") == (ErrorCode.INVALID_TOPIC_EXCEPTION, 0)


def send_confluent(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    failures: list[object] = []
    producer.produce(
        topic, b"first", on_delivery=lambda error, _: failures.append(error) if error else None
    )
    assert producer.flush(30) == 0
    assert failures == []


def send_java(bootstrap: str, topic: str) -> None:
    arguments = ["produce", "--bootstrap", bootstrap, "--topic", topic]
    done = subprocess.run(
        [*java_driver(), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert '"event":"produced"' in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("send", [send_confluent, send_java])
def test_a_producer_makes_its_topic(peer: Peer, send: Callable[[str, str], None]) -> None:
    send(peer.bootstrap, uuid.uuid4().hex)
