"""Calls between nodes against a started broker: what a leader asks a coordinator elsewhere, and
what a coordinator has leaders elsewhere write; over every kind of listener."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import trustme
from confluent_kafka import Producer
from structlog.testing import capture_logs

from groupd.client.connection import UNPROTECTED, ClientSecurity
from groupd.coordinator.cluster.peers import PeerAddress, Peers
from groupd.coordinator.cluster.routed import RoutedMarkers, RoutedVerifier
from groupd.coordinator.config.coordinator_config import CoordinatorConfig, with_settings
from groupd.coordinator.config.security_settings import STANDARD_AUTHORIZER
from groupd.coordinator.core.partitioning import OFFSETS_TOPIC
from groupd.coordinator.producers.transactions import Marker, NoTransactions, TransactionalWrite
from groupd.coordinator.runtime.clock import SystemClock
from groupd.coordinator.runtime.coordinator_types import GROUP_COORDINATOR
from groupd.coordinator.runtime.writer import LogWriter
from groupd.coordinator.security.inter_broker import inter_broker_listener, peer_security
from groupd.coordinator.security.listeners import listeners_of
from groupd.coordinator.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE
from groupd.coordinator.security.tls import ListenerTls
from groupd.coordinator.topics.topic import Topic
from groupd.coordinator.transactions.coordinator import TransactionCoordinator
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import InitProducerIdRequest
from groupd.protocol.messages.transactions import EndTxnRequest
from groupd.storage.memory import MemoryStore
from groupd.storage.units import Unit
from tests.support.certificates import keystore, truststore
from tests.support.daemon import Daemon
from tests.support.peer import FAST_SETTINGS, running
from tests.support.sasl_client import add_users
from tests.support.wire_client import WireClient, new_producer

SELF, OTHER = 1, 0
NONE = ErrorCode.NONE
T0, T1, OFFSETS = ("t", 0), ("t", 1), (OFFSETS_TOPIC, 3)


def settings_in(directory: Path) -> dict[str, str]:
    """Those of a node with three listeners, for the node that asks and the one that answers."""
    directory.mkdir(parents=True, exist_ok=True)
    ca = trustme.CA()
    keys = keystore(directory / "node.pem", ca.issue_cert("127.0.0.1", common_name="node"))
    return {
        **FAST_SETTINGS,
        "listeners": ",".join(
            f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", "SASL_PLAINTEXT", "SSL")
        ),
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS;User:node",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            f'{PLAIN_MODULE} required username="node" password="node-pw" user_node="node-pw" '
            'user_alice="alice-pw";'
        ),
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
            f'{SCRAM_MODULE} required username="node" password="node-pw";'
        ),
        "listener.name.ssl.ssl.client.auth": "required",
        "ssl.keystore.location": str(keys),
        "ssl.truststore.location": str(truststore(directory / "ca.pem", ca)),
        "ssl.principal.mapping.rules": "RULE:^.*CN=([^,]+).*$/$1/",
    }


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return settings_in(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def node(settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    made = Daemon(tmp_path_factory.mktemp("node"), topics={"t": 2}, settings=settings)
    with running(made):
        add_users(made, {"node": "node-pw"})
        yield made


class AllElsewhere:
    """An `Ownership`: the other node has everything."""

    def serves(self, unit: Unit) -> bool:
        return False

    def may_answer(self) -> bool:
        return True

    async def answering(self, since_ms: int) -> bool:
        return True

    def leader(self, unit: Unit) -> int | None:
        return OTHER

    def leader_epoch(self, unit: Unit) -> int:
        return 0

    def only_leader(self) -> tuple[int, int] | None:
        return None


class Catalogue:
    """Knows a topic that the other node does not."""

    def topic(self, name: str) -> Topic | None:
        ids = {"t": bytes(16), "new": bytes(16), OFFSETS_TOPIC: GROUP_COORDINATOR.topic.topic_id}
        return Topic(ids[name], name, 50) if name in ids else None


async def _caught_up() -> None:
    """Nothing has changed."""


class Asking:
    """The node that asks `node`, over the listener `name`."""

    def __init__(self, node: Daemon, name: str, security: ClientSecurity = UNPROTECTED) -> None:
        port = node.port if name == "plaintext" else node.ports[name]
        self.peers = Peers(
            CoordinatorConfig(node_id=SELF),
            SystemClock(),
            {OTHER: PeerAddress("127.0.0.1", port)}.get,
            security,
        )
        self.verifier = RoutedVerifier(NoTransactions(), AllElsewhere(), self.peers, 50)
        self.markers = RoutedMarkers(
            _NoMarkers(),
            AllElsewhere(),
            self.peers,
            Catalogue(),
            _caught_up,  # type: ignore[arg-type]
        )

    async def __aenter__(self) -> Asking:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.verifier.close()
        await self.markers.close()
        self.peers.close()

    async def verify(
        self, name: str, producer: tuple[int, int], *places: tuple[str, int], add: bool = False
    ) -> dict[tuple[str, int], ErrorCode]:
        write = TransactionalWrite(name, *producer, places)
        return await self.verifier.verify(write, add=add)


class _NoMarkers:
    async def write_marker(self, *_: object) -> dict[tuple[str, int], ErrorCode]:
        raise AssertionError("nothing is here")


def described(node: Daemon, name: str) -> Mapping[str, Any]:
    with WireClient(node.host, node.port) as client:
        (found,) = client.call("DescribeTransactions", 0, transactional_ids=[name])[
            "transaction_states"
        ]
    return found


def security(settings: Mapping[str, str], **changed: str) -> ClientSecurity:
    """How a node with these settings shows who it is; in `changed` names have _ for dots."""
    config = with_settings(CoordinatorConfig(), settings)
    more = {key.replace("_", "."): value for key, value in changed.items()}
    config = with_settings(config, more)
    listener = inter_broker_listener(config, listeners_of(config, ("", 0)))
    tls = ListenerTls(config, listener) if listener.protocol.tls else None
    return peer_security(config, listener, tls)


async def test_a_transaction_whose_coordinator_is_elsewhere(node: Daemon) -> None:
    producer = new_producer((node.host, node.port), "x")
    async with Asking(node, "plaintext") as asking:
        assert await asking.verify("x", producer, T0) == {T0: ErrorCode.TRANSACTION_ABORTABLE}
        unknown = await asking.verify("nobody", producer, T0)
        assert unknown == {T0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
        assert await asking.verify("x", producer, T0, add=True) == {T0: NONE}
        codes = await asking.verify("x", producer, T0, T1)
        assert codes == {T0: NONE, T1: ErrorCode.TRANSACTION_ABORTABLE}
        assert await asking.verify("x", producer, ("new", 0), add=True) == {
            ("new", 0): ErrorCode.COORDINATOR_NOT_AVAILABLE
        }
        stale = await asking.verify("x", (producer[0], producer[1] + 1), T0, add=True)
        assert stale == {T0: ErrorCode.INVALID_PRODUCER_EPOCH}
        assert asking.peers.calls == {("AddPartitionsToTxn", "answered"): 6}
    assert described(node, "x")["transaction_state"] == "Ongoing"


async def test_markers_for_partitions_elsewhere(node: Daemon) -> None:
    """The transaction version goes along: in version 2 the epoch is one above."""
    producer = Producer(
        {"bootstrap.servers": node.bootstrap, "transactional.id": "open", "log_level": 0}
    )
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("t", b"v", partition=1)
    producer.flush(30)
    found = described(node, "open")
    marker = Marker(found["producer_id"], found["producer_epoch"], False, 7, 2)
    async with Asking(node, "plaintext") as asking:

        async def write(one: Marker, *places: tuple[str, int]) -> Mapping[Any, ErrorCode]:
            return await asking.markers.write_marker(one, places)

        assert await write(marker, T1) == {T1: ErrorCode.INVALID_PRODUCER_EPOCH}
        bumped = Marker(marker.producer_id, marker.producer_epoch + 1, False, 7, 2)
        assert await write(bumped, T1, OFFSETS, ("new", 0), ("no", 0)) == {
            T1: NONE,
            OFFSETS: NONE,
            ("new", 0): ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ("no", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
    with WireClient(node.host, node.port) as client:
        asked = [{"name": "t", "partition_indexes": [1]}]
        reply = client.call("DescribeProducers", 0, topics=asked)
    (one,) = reply["topics"][0]["partitions"][0]["active_producers"]
    assert one["coordinator_epoch"] == 7
    assert one["current_txn_start_offset"] == -1


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [("ssl", ""), ("sasl_plaintext", ""), ("sasl_plaintext", "SCRAM-SHA-256")],
)
async def test_secured_listeners(
    node: Daemon, settings: dict[str, str], listener: str, mechanism: str
) -> None:
    producer = new_producer((node.host, node.port), f"{listener}{mechanism}")
    own = security(
        settings,
        inter_broker_listener_name=listener,
        sasl_mechanism_inter_broker_protocol=mechanism,
    )
    async with Asking(node, listener, own) as asking:
        codes = await asking.verify(f"{listener}{mechanism}", producer, T0, add=True)
        assert codes == {T0: NONE}


@pytest.mark.parametrize("listener", ["ssl", "sasl_plaintext"])
async def test_a_stranger(
    node: Daemon, settings: dict[str, str], listener: str, tmp_path: Path
) -> None:
    """Another CA, another password."""
    strange = {**settings_in(tmp_path), "inter.broker.listener.name": listener}
    strange = {key: value.replace("node-pw", "no-pw") for key, value in strange.items()}
    async with Asking(node, listener, security(strange)) as asking:
        with capture_logs() as logged:
            codes = await asking.verify("x", (1, 1), T0)
        assert codes == {T0: ErrorCode.NETWORK_EXCEPTION}
        assert len(logged) == 1
        assert "no-pw" not in str(logged)


async def test_a_principal_without_rights(node: Daemon, settings: dict[str, str]) -> None:
    key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    alice = f'{PLAIN_MODULE} required username="alice" password="alice-pw";'
    own = security({**settings, "inter.broker.listener.name": "SASL_PLAINTEXT", key: alice})
    async with Asking(node, "sasl_plaintext", own) as asking:
        with capture_logs() as logged:
            for _ in range(2):
                codes = await asking.verify("x", (1, 1), T0)
                assert codes == {T0: ErrorCode.INVALID_TXN_STATE}
        assert len(logged) == 1
        assert "ClusterAction" in logged[0]["event"]


async def test_a_node_that_stops_and_comes_back(tmp_path: Path) -> None:
    made = Daemon(tmp_path, topics={"t": 2}, settings=FAST_SETTINGS)
    with running(made):
        producer = new_producer((made.host, made.port), "x")
        async with Asking(made, "plaintext") as asking:
            assert await asking.verify("x", producer, T0, add=True) == {T0: NONE}
            made.kill()
            lost = await asking.verify("x", producer, T0)
            assert lost == {T0: ErrorCode.NETWORK_EXCEPTION}
            made.restart()
            assert await asking.verify("x", producer, T0) == {T0: NONE}


async def test_a_coordinator_ends_what_leaders_elsewhere_hold(tmp_path: Path) -> None:
    """While the leader is away its markers are tried again."""
    made = Daemon(tmp_path, topics={"t": 2}, settings=FAST_SETTINGS)
    with running(made):
        async with Asking(made, "plaintext") as asking:
            store = MemoryStore()
            await store.start()
            writer = LogWriter(store)
            writer.start()
            ids = count(900_000)

            async def next_id() -> int:
                return next(ids)

            coordinator = TransactionCoordinator(
                CoordinatorConfig(), store, writer, SystemClock(), next_id, asking.markers
            )
            await coordinator.load()
            answer = await coordinator.init_producer_id(InitProducerIdRequest("y", 60_000, -1, -1))
            producer = answer.producer_id, answer.producer_epoch
            for leader_is_away in (False, True):
                places = (T0, T1, OFFSETS)
                write = TransactionalWrite("y", *producer, places)
                assert await coordinator.add_partitions(write, client_version=0) is NONE
                if leader_is_away:
                    made.kill()
                ended = await coordinator.end(EndTxnRequest("y", *producer, True), client_version=0)
                assert ended.error is NONE
                if leader_is_away:
                    while not coordinator.marker_counts.retries:
                        await asyncio.sleep(0.02)
                    await asyncio.to_thread(made.restart)
                async with asyncio.timeout(30):
                    while coordinator.counts["committed"] < 1 + leader_is_away:
                        await asyncio.sleep(0.02)
            assert coordinator.marker_counts.written == 6
            await coordinator.close()
            await writer.close()
            await store.close()
