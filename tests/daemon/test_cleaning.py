"""A daemon whose log is cleaned under load and that is killed meanwhile: nothing changes for who
reads offsets, and the log may be read as history and compacted."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from groupd.protocol.records.codec import decode_record
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue
from tests.support.admin import committed
from tests.support.daemon import Daemon
from tests.support.metrics import total
from tests.support.peer import FAST_SETTINGS, running
from tests.support.process import wait_until

PARTITIONS = 100
GROUPS = ("g1", "g2")
CLEANER = {"log.cleaner.backoff.ms": "20", "offsets.topic.num.partitions": "1"}
TIMEOUT_S = 60.0


@pytest.fixture(params=[True, False], ids=["history", "no-history"])
def keeps_history(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def daemon(keeps_history: bool, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    retention_ms = "604800000" if keeps_history else "0"
    with running(
        Daemon(
            tmp_path_factory.mktemp("daemon"),
            topics={"orders": PARTITIONS},
            settings={**FAST_SETTINGS, **CLEANER, "groupd.history.retention.ms": retention_ms},
        )
    ) as made:
        yield made


def commit(bootstrap: str, group: str, value: int) -> None:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False}
    )
    try:
        offsets = [TopicPartition("orders", n, value) for n in range(PARTITIONS)]
        consumer.commit(offsets=offsets, asynchronous=False)
    finally:
        consumer.close()


def all_committed(daemon: Daemon) -> dict[str, dict[tuple[str, int], int]]:
    topics = {"orders": PARTITIONS}
    return {group: committed(daemon.bootstrap, group, topics) for group in GROUPS}


def read_log(daemon: Daemon, topic: str) -> list[tuple[int, str, int, int]]:
    """(offset, group, partition, committed offset) of every offset commit, as a consumer."""
    consumer = Consumer(
        {
            "bootstrap.servers": daemon.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found = []
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, f"{topic}: no end after {len(found)} records"
            if message.error():
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return found
            record = decode_record(message.key(), message.value())
            if isinstance(record.key, OffsetCommitKey):
                assert isinstance(record.value, OffsetCommitValue)
                key = record.key
                found.append((message.offset(), key.group, key.partition, record.value.offset))
    finally:
        consumer.close()


Log = list[tuple[int, str, int, int]]


def read_both(daemon: Daemon) -> tuple[Log, Log]:
    """The log as history, and the log compacted, which is no older."""
    history = read_log(daemon, "__consumer_offsets")
    return history, read_log(daemon, "__consumer_offsets_compacted")


@pytest.mark.crash
def test_a_log_that_is_cleaned_under_load_says_the_same_after_every_kill(
    daemon: Daemon, keeps_history: bool
) -> None:
    acknowledged = dict.fromkeys(GROUPS, 0)
    stop = threading.Event()

    def load(group: str) -> None:
        value = 0
        while not stop.is_set():
            value += 1
            try:
                commit(daemon.bootstrap, group, value)
            except KafkaException:
                continue  # the daemon was killed
            acknowledged[group] = value

    threads = [threading.Thread(target=load, args=(group,)) for group in GROUPS]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            wait_until(
                lambda: total(daemon.admin_url, "groupd_cleaner_runs_total") >= 2,
                TIMEOUT_S,
                "cleanings",
            )
            daemon.kill()
            daemon.restart()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    before = all_committed(daemon)
    for group in GROUPS:
        assert min(before[group].values()) >= acknowledged[group] > 0
    daemon.restart()
    assert all_committed(daemon) == before

    history, compacted = read_both(daemon)
    # The cleaner goes on meanwhile; without a history it ends with nothing that is not the newest.
    if not keeps_history:

        def is_clean() -> bool:
            nonlocal history, compacted
            history, compacted = read_both(daemon)
            return compacted == history

        wait_until(is_clean, TIMEOUT_S, "a log of nothing but the newest")
    last = {(group, partition): value for _, group, partition, value in history}
    assert last == {(g, p): v for g, of in before.items() for (_, p), v in of.items()}
    assert {(group, partition): value for _, group, partition, value in compacted} == last
    assert set(compacted) <= set(history)
    if keeps_history:
        assert [offset for offset, *_ in history] == list(range(len(history))), "every record"
        assert len(compacted) < len(history)
    else:
        assert history[0][0] > 0, "folded"
        assert compacted == history
    assert total(daemon.admin_url, "groupd_cleaner_failures_total") == 0
