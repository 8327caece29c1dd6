"""A daemon and a cluster under load from real clients, and a Prometheus that scrapes them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from uuid import uuid4

import trustme
from confluent_kafka import Consumer, KafkaException, Producer, ShareConsumer, TopicPartition

from tests.clients.load import Load
from tests.support.certificates import keystore, truststore
from tests.support.cluster import ClusterOfDaemons
from tests.support.daemon import Daemon
from tests.support.peer import FAST_SETTINGS
from tests.support.prometheus import Prometheus
from tests.support.sasl_client import plain_config

HOST = "127.0.0.1"
CLIENTS_MAX = 16
TOPICS = {"orders": 6, "payments": 3}
LAG = {"groupd.lag.interval.ms": "500"}
JOBS = {"groups": "groupd", "coordinator": "groupd", "cluster": "cluster"}
"""The job that each dashboard is asked about."""


class Scene:
    """`prometheus` scrapes the job `groupd`, one daemon, and the job `cluster`, three nodes. Groups
    read: `billing` (KIP-848), `audit` (classic), `parcels` (a share group), `ledger` over TLS with
    a login, and `transfers` on the cluster. `late` has read a little and is gone, `done` has read
    everything."""

    def __init__(self, directory: Path, store_url: str, rules: Path) -> None:
        self._closing = ExitStack()
        self._over = threading.Event()
        self._clients = ThreadPoolExecutor(CLIENTS_MAX)
        self._running: list[Future[None]] = []
        self._directory, self._rules = directory, rules
        secured = {
            "listeners": f"PLAINTEXT://{HOST}:0,SASL_SSL://{HOST}:0",
            "sasl.enabled.mechanisms": "PLAIN",
            "connections.max.reauth.ms": "3000",
            "ssl.keystore.location": str(directory / "broker.pem"),
            "listener.name.sasl_ssl.plain.sasl.jaas.config": plain_config(),
        }
        settings = {**FAST_SETTINGS, **LAG}
        self.daemon = Daemon(directory / "daemon", topics=TOPICS, settings={**settings, **secured})
        self.cluster = ClusterOfDaemons(
            directory / "cluster", store_url, topics=TOPICS, settings=settings
        )

    def start(self) -> None:
        ca = trustme.CA()
        keystore(self._directory / "broker.pem", ca.issue_cert(HOST))
        truststore(self._directory / "ca.pem", ca)
        self._closing.callback(self.daemon.close)
        self._closing.callback(self.cluster.close)
        self.daemon.launch()
        self.cluster.start()
        self.daemon.wait_ready()
        nodes = [one.admin_url.removeprefix("http://") for one in self.cluster.daemons]
        targets = {"groupd": [self.daemon.admin_url.removeprefix("http://")], "cluster": nodes}
        self.prometheus = Prometheus(self._directory / "prometheus", targets, [self._rules])
        self._closing.callback(self.prometheus.close)
        self.prometheus.start()
        self._closing.callback(self._clients.shutdown)
        self._start_clients()

    def _start_clients(self) -> None:
        bootstrap, nodes = self.bootstrap, self.cluster.bootstrap
        for topic, partitions in TOPICS.items():
            self._closing.callback(Load(bootstrap, topic, partitions).stop)
        self._run(lambda: self._read(bootstrap, "billing", "consumer"))
        self._run(lambda: self._read(bootstrap, "billing", "consumer"))
        self._run(lambda: self._read(bootstrap, "audit", "classic"))
        self._run(lambda: self._share(bootstrap, "parcels"))
        self._run(lambda: self._read(nodes, "transfers", "consumer"))
        self._run(lambda: self._transact(bootstrap))
        self._run(lambda: self._transact(nodes))
        self._run(self._log_in)
        self._run(self._come_and_go)

    @property
    def bootstrap(self) -> str:
        """The listener without a login."""
        return f"{HOST}:{self.daemon.ports['kafka']}"

    def close(self) -> None:
        """The clients first; fails if one of them has met an error."""
        self._over.set()
        self._closing.close()
        for client in self._running:
            client.result()

    def logs(self) -> str:
        return f"{self.daemon.logs()}\n{self.prometheus.logs()}"

    def _run(self, client: Callable[[], None]) -> None:
        self._running.append(self._clients.submit(client))

    def _read(self, bootstrap: str, group: str, protocol: str) -> None:
        """Reads and commits until the end."""
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 200,
            }
        )
        consumer.subscribe(list(TOPICS))
        while not self._over.is_set():
            consumer.consume(500, timeout=0.2)
        consumer.close()

    def _share(self, bootstrap: str, group: str) -> None:
        """Reads and accepts until the end."""
        consumer = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": group})
        consumer.subscribe(list(TOPICS))
        while not self._over.is_set():
            consumer.poll(0.2)  # accepts what the poll before has given
        consumer.close()

    def _transact(self, bootstrap: str) -> None:
        """Commits a transaction over all partitions, then aborts one, and so on."""
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"t-{uuid4()}"})
        producer.init_transactions(20)
        for number in range(1_000_000):
            if self._over.wait(0.3):
                break
            producer.begin_transaction()
            for topic, partitions in TOPICS.items():
                for partition in range(partitions):
                    producer.produce(topic, b"transfer", partition=partition)
            if number % 4 == 3:
                producer.abort_transaction(20)
            else:
                producer.commit_transaction(20)

    def _log_in(self) -> None:
        """With a wrong password, then with the right one, which is asked for again and again."""
        with suppress(KafkaException):
            stranger = Consumer({**self._secured("a wrong one"), "group.id": "nobody"})
            stranger.list_topics(timeout=2)
        stranger.close()
        client = Consumer({**self._secured("alice-pw"), "group.id": "ledger"})
        client.subscribe(["payments"])
        while not self._over.is_set():
            client.consume(500, timeout=0.2)
        client.close()

    def _secured(self, password: str) -> dict[str, str | int]:
        return {
            "bootstrap.servers": f"{HOST}:{self.daemon.ports['sasl_ssl']}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": password,
            "ssl.ca.location": str(self._directory / "ca.pem"),
            "log_level": 0,
        }

    def _come_and_go(self) -> None:
        """Leaves a group behind that has much to read, and one that has nothing."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "late",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        consumer.subscribe(["orders"])
        read = 0
        while read < 100 and not self._over.is_set():
            read += len(consumer.consume(100, timeout=0.5))
        consumer.commit(asynchronous=False)
        consumer.close()
        done = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "done"})
        ahead = [TopicPartition("payments", partition, 10**9) for partition in range(3)]
        done.commit(offsets=ahead, asynchronous=False)
        done.close()
