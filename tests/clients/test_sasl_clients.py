"""Real clients that log in: SE-14, SE-35, SE-43 (`docs/spec/security.md#2.6`)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from kafka.net.sasl.oauth import AbstractTokenProvider

from tests.clients.tools import Tools
from tests.support.admin import create_topics
from tests.support.daemon import Daemon
from tests.support.metrics import samples
from tests.support.peer import peer_kind, running
from tests.support.process import ChildProcess
from tests.support.sasl_client import ALL_MECHANISMS, add_users, sasl_daemon, valid_token
from tests.support.toolchain import node_script

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(peer_kind() == "kafka", reason="settings of groupd"),
]

PROTOCOL = "SASL_PLAINTEXT"
TIMEOUT_S = 20.0
SESSION_S = 2.0
"""How long sessions of the listener SHORT last."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(sasl_daemon(tmp_path_factory.mktemp("sasl"))) as made:
        add_users(made)
        create_topics(f"{made.host}:{made.port}", dict.fromkeys(OWN_TOPICS, 1))
        yield made


class PyTokens(AbstractTokenProvider):  # type: ignore[misc]
    def token(self) -> str:
        return valid_token()


class AioTokens(AioTokenProvider):  # type: ignore[misc]
    async def token(self) -> str:
        return valid_token()


def of_librdkafka(address: str, mechanism: str, password: str = "alice-pw") -> dict[str, Any]:
    common: dict[str, Any] = {
        "bootstrap.servers": address,
        "security.protocol": PROTOCOL,
        "sasl.mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return {**common, "oauth_cb": lambda _: (valid_token(), time.time() + 600)}
    return {**common, "sasl.username": "alice", "sasl.password": password}


def of_python(address: str, mechanism: str, tokens: Any, password: str = "alice-pw") -> Any:
    """The settings of a login, as kafka-python and aiokafka take them."""
    common = {
        "bootstrap_servers": address,
        "security_protocol": PROTOCOL,
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return {**common, "sasl_oauth_token_provider": tokens}
    return {**common, "sasl_plain_username": "alice", "sasl_plain_password": password}


VALUES = {"librdkafka": b"librdkafka", "kafka_python": b"kafka-python", "aio": b"aiokafka"}
"""The record that each client produces."""
OWN_TOPICS = [f"{client}-{mechanism}" for client in VALUES for mechanism in ALL_MECHANISMS]
"""A topic for each login, with the name of its group: tests share the broker."""


def librdkafka(address: str, mechanism: str, group: str) -> bytes:
    producer = confluent_kafka.Producer(of_librdkafka(address, mechanism))
    producer.produce(group, b"librdkafka")
    assert producer.flush(TIMEOUT_S) == 0
    consumer = confluent_kafka.Consumer(
        of_librdkafka(address, mechanism)
        | {"group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": False}
    )
    try:
        consumer.subscribe([group])
        message = consumer.poll(TIMEOUT_S)
        assert message is not None
        assert message.error() is None, message.error()
        assert consumer.commit(message=message, asynchronous=False)
        return bytes(message.value())
    finally:
        consumer.close()


def kafka_python(address: str, mechanism: str, group: str) -> bytes:
    settings = of_python(address, mechanism, PyTokens())
    producer = kafka.KafkaProducer(**settings)
    producer.send(group, b"kafka-python").get(TIMEOUT_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        group,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=int(TIMEOUT_S * 1000),
        **settings,
    )
    try:
        value: bytes = next(consumer).value
        consumer.commit()
        return value
    finally:
        consumer.close()


def aio(address: str, mechanism: str, group: str) -> bytes:
    async def run() -> bytes:
        settings = of_python(address, mechanism, AioTokens())
        async with AIOKafkaProducer(**settings) as producer:
            await producer.send_and_wait(group, b"aiokafka")
        async with AIOKafkaConsumer(
            group,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            **settings,
        ) as consumer:
            value: bytes = (await asyncio.wait_for(consumer.getone(), TIMEOUT_S)).value
            await consumer.commit()
            return value

    return asyncio.run(run())


@pytest.mark.parametrize("mechanism", ALL_MECHANISMS)
@pytest.mark.parametrize("client", [librdkafka, kafka_python, aio])
def test_clients_produce_consume_and_commit(
    daemon: Daemon, client: Callable[[str, str, str], bytes], mechanism: str
) -> None:
    """SE-14, SE-35."""
    address = f"127.0.0.1:{daemon.ports['sasl_plaintext']}"
    group = f"{client.__name__}-{mechanism}"
    assert client(address, mechanism, group) == VALUES[client.__name__]


def test_kafkajs(daemon: Daemon, tmp_path: Path) -> None:
    """SE-14, SE-35."""
    address = f"127.0.0.1:{daemon.ports['sasl_plaintext']}"
    command = [*node_script("sasl.js"), address, valid_token()]
    with ChildProcess(command, stderr_path=tmp_path / "node.log") as process:
        assert process.wait_exit(60) == 0, process.output()
        assert process.stdout_lines == [one.lower() for one in ALL_MECHANISMS]


def test_a_wrong_password_is_told(daemon: Daemon) -> None:
    """SE-23: clients hear the error, and do not take it for a lost connection."""
    address = f"127.0.0.1:{daemon.ports['sasl_plaintext']}"
    heard: list[str] = []
    settings = of_librdkafka(address, "SCRAM-SHA-256", "wrong")
    producer = confluent_kafka.Producer(
        settings | {"error_cb": lambda error: heard.append(error.name())}
    )
    deadline = time.monotonic() + TIMEOUT_S
    while "_AUTHENTICATION" not in heard and time.monotonic() < deadline:
        producer.poll(0.1)
    assert "_AUTHENTICATION" in heard
    del producer


def counted(daemon: Daemon, name: str) -> float:
    return sum(one.value for one in samples(daemon.admin_url, name))


def test_librdkafka_authenticates_again_and_keeps_its_partitions(daemon: Daemon) -> None:
    """SE-43, with sessions of two seconds."""
    before = counted(daemon, "groupd_reauthentications_total")
    assigned: list[Any] = []
    consumer = confluent_kafka.Consumer(
        of_librdkafka(f"127.0.0.1:{daemon.ports['short']}", "PLAIN") | {"group.id": "again"}
    )
    try:
        consumer.subscribe(["orders"], on_assign=lambda _, partitions: assigned.append(partitions))
        until = time.monotonic() + 3 * SESSION_S
        while time.monotonic() < until:
            message = consumer.poll(0.1)
            assert message is None or message.error() is None
    finally:
        consumer.close()
    assert len(assigned) == 1
    assert counted(daemon, "groupd_reauthentications_total") >= before + 2


def test_aiokafka_connects_again_and_loses_nothing(daemon: Daemon) -> None:
    """SE-43: it cannot authenticate again."""

    async def run() -> list[bytes]:
        settings = of_python(f"127.0.0.1:{daemon.ports['short']}", "PLAIN", None)
        found: list[bytes] = []
        async with AIOKafkaProducer(**settings) as producer:
            for number in range(6):
                sent = await producer.send_and_wait("orders", f"n{number}".encode(), partition=1)
                found.append(f"{sent.offset}".encode())
                await asyncio.sleep(SESSION_S / 4)
        return found

    before = counted(daemon, "groupd_expired_connections_killed_total")
    offsets = asyncio.run(run())
    assert len(set(offsets)) == 6
    assert counted(daemon, "groupd_expired_connections_killed_total") > before


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    made = Tools(tmp_path_factory.mktemp("tools"))
    try:
        yield made
    finally:
        made.close()


MODULES = {"PLAIN": "plain.PlainLoginModule"} | dict.fromkeys(
    ("SCRAM-SHA-256", "SCRAM-SHA-512"), "scram.ScramLoginModule"
)


@pytest.mark.parametrize("mechanism", list(MODULES))
def test_java(daemon: Daemon, tools: Tools, tmp_path: Path, mechanism: str) -> None:
    """SE-14, SE-32."""
    for user, password, exits in [("alice", "alice-pw", 0), ("alice", "wrong", 1)]:
        path = tmp_path / f"{user}-{exits}.properties"
        module = f"org.apache.kafka.common.security.{MODULES[mechanism]}"
        path.write_text(
            f"security.protocol={PROTOCOL}\nsasl.mechanism={mechanism}\n"
            f'sasl.jaas.config={module} required username="{user}" password="{password}";\n'
        )
        address = f"127.0.0.1:{daemon.ports['sasl_plaintext']}"
        said = tools.call(address, "kafka-topics", "--command-config", str(path), "--list")
        assert said.exit == exits, said
        if exits == 0:
            assert "orders" in said.lines
        else:
            assert "SaslAuthenticationException" in said.err + said.out
