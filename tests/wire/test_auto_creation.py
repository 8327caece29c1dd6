"""Metadata that creates topics: at once, or as Kafka does it, with an error first.

With GROUPD_PEER=kafka the second way is compared with a real broker.
"""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from groupd.protocol.errors import ErrorCode
from tests.support.peer import Peer, make_peer, peer_kind
from tests.support.process import wait_until
from tests.support.toolchain import java_driver
from tests.support.wire_client import WireClient

AT_ONCE = "groupd.auto.create.topics.at.once"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[bool], Peer]]:
    started: list[Peer] = []

    def make(at_once: bool) -> Peer:
        settings = {"auto.create.topics.enable": "true", AT_ONCE: str(at_once).lower()}
        started.append(make_peer(tmp_path / f"peer-{len(started)}", settings=settings))
        started[-1].start()
        return started[-1]

    yield make
    for peer in started:
        peer.stop()
        peer.close()


def ask(client: WireClient, name: str, create: bool = True) -> tuple[int, int]:
    """(error code, partitions) of one topic."""
    topics = [{"topic_id": bytes(16), "name": name}]
    reply = client.call("Metadata", 12, topics=topics, allow_auto_topic_creation=create)
    return reply["topics"][0]["error_code"], len(reply["topics"][0]["partitions"])


def test_kafkas_way_has_an_error_first(start: Callable[[bool], Peer]) -> None:
    peer = start(False)
    name = uuid.uuid4().hex
    with WireClient(peer.host, peer.port) as client:
        unknown = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
        assert ask(client, name, create=False) == unknown
        assert ask(client, name) == unknown
        wait_until(lambda: ask(client, name, create=False) == (0, 1), 10, "the topic is there")
        assert ask(client, "__cluster_metadata") == unknown
        assert ask(client, "a b") == (ErrorCode.INVALID_TOPIC_EXCEPTION, 0)


def test_our_own_way_has_the_topic_at_once(start: Callable[[bool], Peer]) -> None:
    if peer_kind() == "kafka":
        return  # A promise of groupd alone.
    peer = start(True)
    with WireClient(peer.host, peer.port) as client:
        assert ask(client, uuid.uuid4().hex) == (0, 1)


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
@pytest.mark.parametrize("at_once", [True, False])
def test_a_producer_makes_its_topic_either_way(
    start: Callable[[bool], Peer], at_once: bool, send: Callable[[str, str], None]
) -> None:
    send(start(at_once).bootstrap, uuid.uuid4().hex)
