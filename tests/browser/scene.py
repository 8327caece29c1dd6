"""A lively hour for screenshots: groups that keep up, fall behind, stall, stop, and rebalance."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    KafkaException,
    Message,
    Producer,
    ShareConsumer,
    TopicPartition,
)

from tests.browser.hurried import FACTOR, HURRY_S, TOPICS
from tests.browser.readers import ReaderProcess, commit, settings
from tests.clients.share import set_group_configs

TICK_S = 0.05
RATES = {"clicks": 420, "emails": 60, "orders": 240, "payments": 120}
"""Records a second of the hurried hour."""

Share = Callable[[float], float]
"""How much of what comes in a reader reads, by the seconds since the start of the hurried hour; a
group with more than enough keeps up."""


class Pace:
    """The time of the scene: what has been done in a second takes a minute after the hour."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.over = threading.Event()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def factor(self) -> float:
        return 1.0 if self.seconds < HURRY_S else 1 / FACTOR

    def rate(self, topic: str) -> float:
        """Records a second that are written now: waves, and a burst now and then."""
        at = self.seconds
        wave = 1 + 0.35 * math.sin(at / 7 + len(topic)) + 0.15 * math.sin(at / 2.3)
        burst = 2.5 if at % 17 < 1.5 else 1.0
        return RATES[topic] * wave * burst * self.factor


class Load:
    """Writes to all topics until the scene is over."""

    def __init__(self, bootstrap: str, pace: Pace) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})
        self._pace = pace
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        owed = dict.fromkeys(TOPICS, 0.0)
        written = dict.fromkeys(TOPICS, 0)
        then = self._pace.seconds
        while not self._pace.over.wait(TICK_S):
            passed = self._pace.seconds - then
            then += passed
            for topic, partitions in TOPICS.items():
                owed[topic] += self._pace.rate(topic) * passed
                for _ in range(int(owed[topic])):
                    # Some partitions get more than others.
                    number = int((written[topic] * 0.618 % 1) ** 1.3 * partitions)
                    self._producer.produce(topic, b"x" * 40, partition=number)
                    written[topic] += 1
                owed[topic] %= 1
            self._producer.poll(0)

    def stop(self) -> None:
        self._thread.join()
        self._producer.flush(10)


class Member:
    """Reads its share, and commits ten times a second, or whenever it has read something once the
    hour is over. `stuck`: commits the same offsets again and again."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        name: str,
        topics: list[str],
        pace: Pace,
        share: Share = lambda at: 9.0,
        *,
        protocol: str = "consumer",
        stuck: bool = False,
    ) -> None:
        own: dict[str, object] = {"group.protocol": protocol, "enable.auto.commit": False}
        if protocol == "classic":
            own |= {"session.timeout.ms": 1_200_000, "max.poll.interval.ms": 1_200_000}
            own |= {"heartbeat.interval.ms": 300}
        self._consumer = Consumer({**settings(bootstrap, group, name), **own})
        self._consumer.subscribe(topics)
        self._topics, self._pace, self._share, self._stuck = topics, pace, share, stuck
        self._gone, self.hangs = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        allowed = committed = 0.0
        then = self._pace.seconds
        stuck_at: list[TopicPartition] = []
        while not self._gone.is_set():
            if self.hangs.is_set():
                self._gone.wait(TICK_S)
                continue
            rate = sum(self._pace.rate(topic) for topic in self._topics)
            part = rate * self._share(self._pace.seconds)
            now = self._pace.seconds
            allowed = min(allowed + part * (now - then), max(1.0, part))
            then = now
            read = self._consumer.consume(int(allowed), timeout=TICK_S) if allowed >= 1 else []
            if not read:
                self._gone.wait(TICK_S)
            allowed -= len(read)
            since = self._pace.seconds - committed
            if since > 0.1 and (read or since > 2):
                committed = self._pace.seconds
                positions = self._consumer.position(self._consumer.assignment())
                known = [one for one in positions if one.offset >= 0]
                if self._stuck and self._pace.seconds > HURRY_S / 2:
                    stuck_at = known = stuck_at or known
                self._commit(known)
        self._consumer.close()

    def _commit(self, offsets: list[TopicPartition]) -> None:
        try:
            if offsets:
                self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException:
            return  # a rebalance was quicker

    def close(self) -> None:
        self._gone.set()
        self._thread.join()


class ShareReader:
    """A member of a share group that fails with some records again and again, and rejects others.
    Once the hour is over it releases once what it gets, and keeps what it gets then."""

    def __init__(self, bootstrap: str, group: str, name: str, topic: str, pace: Pace) -> None:
        self._consumer = ShareConsumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": name,
                "share.acknowledgement.mode": "explicit",
                "max.poll.records": 40,
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])
        self._pace = pace
        self._gone = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._gone.is_set():
            for record in self._consumer.poll(TICK_S):
                self._acknowledge(record)
            # A lock of the hurried hour is short.
            if self._pace.seconds > HURRY_S + 1:
                for record in self._consumer.poll(2.0):
                    self._consumer.acknowledge(record, AcknowledgeType.RELEASE)
                self._consumer.poll(2.0)
                self._gone.wait()
        self._consumer.close()

    def _acknowledge(self, record: Message) -> None:
        offset = record.offset() or 0
        kind = AcknowledgeType.ACCEPT
        if offset % 211 == 5:
            kind = AcknowledgeType.RELEASE
        elif offset % 307 == 7:
            kind = AcknowledgeType.REJECT
        self._consumer.acknowledge(record, kind)

    def close(self) -> None:
        self._gone.set()
        self._thread.join()


def naps(length: float, every: float, first: float = 0.0) -> Share:
    """Reads everything, but rests now and then."""
    return lambda at: 0.01 if (at + first) % every < length and at < HURRY_S - 3 else 6.0


class Scene:
    """`play` takes the hour; at its end `order-fulfilment` is in the middle of a rebalance."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self._bootstrap, self._directory = bootstrap, directory
        self._closing = ExitStack()
        self._pace = Pace()

    def close(self) -> None:
        self._pace.over.set()
        self._closing.close()

    def _at(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds - self._pace.seconds))

    def _member(
        self,
        group: str,
        name: str,
        topics: str,
        share: Share = lambda at: 9.0,
        *,
        protocol: str = "consumer",
        stuck: bool = False,
    ) -> Member:
        made = Member(
            self._bootstrap, group, name, topics.split(), self._pace, share,
            protocol=protocol, stuck=stuck,
        )  # fmt: skip
        self._closing.callback(made.close)
        return made

    def play(self) -> None:
        self._closing.callback(Load(self._bootstrap, self._pace).stop)
        self._others()
        group, topics = "order-fulfilment", "orders payments"
        first = self._member(group, "fulfil-1", topics, naps(1.5, 11))
        second = self._member(group, "fulfil-2", topics, naps(2, 13, 4))
        leaves = self._member(group, "fulfil-3", topics, naps(1.8, 9))
        self._at(12)
        self._member(group, "fulfil-4", topics, naps(1.2, 10, 3))
        self._at(24)
        leaves.close()
        self._at(26)
        third = self._member(group, "fulfil-3", topics, naps(1.8, 9))
        victim = ReaderProcess(self._directory, self._bootstrap, group, "fulfil-5", "orders")
        self._closing.enter_context(victim)
        self._at(41)
        victim.kill()
        self._at(HURRY_S + 2)
        commit(self._bootstrap, "recommendations", "clicks", dict.fromkeys(range(8), 400))
        # At least one of them has a partition that the next member is to get.
        for one in (first, second, third):
            one.hangs.set()
        self._member(group, "fulfil-6", topics)
        time.sleep(3)

    def _others(self) -> None:
        self._member("billing", "billing-1", "payments", naps(0.6, 8))
        self._member("billing", "billing-2", "payments", naps(0.6, 8, 1))
        falls_behind: Share = lambda at: 1.2 if at < HURRY_S * 0.6 else 0.25  # noqa: E731
        self._member("search-indexer", "indexer-a", "clicks", falls_behind)
        self._member("search-indexer", "indexer-b", "clicks", falls_behind)
        self._member("fraud-check", "fraud-1", "payments", stuck=True)
        for name in ("mailer-0", "mailer-1"):
            self._member("mail-sender", name, "emails", naps(0.8, 12), protocol="classic")
        self._member("clickstream-etl", "etl", "clicks", naps(2, 20), protocol="classic")
        set_group_configs(self._bootstrap, "notify", share_auto_offset_reset="earliest")
        for name in ("notify-a", "notify-b"):
            reader = ShareReader(self._bootstrap, "notify", name, "emails", self._pace)
            self._closing.callback(reader.close)
        self._member("audit-log", "audit-1", "orders payments")
        self._member("inventory", "stock-1", "orders", naps(1, 15, 7))
        self._member("inventory", "stock-2", "orders", naps(1, 15, 2))
        self._at(5)
        commit(
            self._bootstrap,
            "nightly-export",
            "payments",
            {0: 90, 1: 71, 2: 64, 3: 58, 4: 41, 5: 47},
        )
        commit(self._bootstrap, "recommendations", "clicks", dict.fromkeys(range(8), 5000))
