"""Old records of a topic go and compacted topics keep the newest of a key: what a real client sees,
the same with groupd and (`GROUPD_PEER=kafka`) with Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.daemon import Daemon
from tests.support.metrics import total
from tests.support.peer import Peer, make_peer, peer_kind, running
from tests.support.process import wait_until

DAY_MS = 86_400_000
SETTINGS = {
    "log.retention.check.interval.ms": "300",
    "log.cleaner.backoff.ms": "300",
    "log.initial.task.delay.ms": "0",
}
OURS = {key: value for key, value in SETTINGS.items() if key != "log.initial.task.delay.ms"}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "100",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    settings = SETTINGS if peer_kind() == "kafka" else OURS
    with running(make_peer(tmp_path_factory.mktemp("peer"), settings=settings)) as made:
        yield made


def create(peer: Peer, topic: str, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    for made in admin.create_topics([NewTopic(topic, 1, 1, config=config)]).values():
        made.result(30)


def produce(peer: Peer, topic: str, *records: tuple[bytes, bytes | None], at_ms: int = 0) -> None:
    """Every record in a batch of its own."""
    producer = Producer({"bootstrap.servers": peer.bootstrap})
    for key, value in records:
        producer.produce(topic, value, key, timestamp=at_ms or now_ms())
        assert producer.flush(30) == 0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def start_offset(peer: Peer, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": peer.bootstrap, "group.id": "watermarks"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[0])
    finally:
        consumer.close()


def consume(peer: Peer, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of everything that a reader of committed data gets."""
    consumer = Consumer(
        {
            "bootstrap.servers": peer.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    found = []
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        while True:
            message = consumer.poll(30)
            assert message is not None, "neither a record nor the end"
            if message.error():
                return found
            found.append((message.offset(), message.key(), message.value()))
    finally:
        consumer.close()


def test_old_records_go_and_young_ones_stay(peer: Peer, unique: str) -> None:
    topic = f"old-{unique}"
    create(peer, topic, {})
    old = [(b"k", b"%d" % number) for number in range(5)]
    produce(peer, topic, *old, at_ms=now_ms() - 8 * DAY_MS)
    # In Kafka this one begins another segment, as more than segment.ms lies between them.
    produce(peer, topic, (b"k", b"young"))
    wait_until(lambda: start_offset(peer, topic) == 5, TIMEOUT_S, "the old records go")
    assert consume(peer, topic) == [(5, b"k", b"young")]
    # All of it is too old: Kafka closes even the active segment then.
    all_old = f"gone-{unique}"
    create(peer, all_old, {"retention.ms": str(DAY_MS)})
    produce(peer, all_old, *old, at_ms=now_ms() - 2 * DAY_MS)
    wait_until(lambda: start_offset(peer, all_old) == 5, TIMEOUT_S, "all records go")
    produce(peer, all_old, (b"k", b"next"))
    assert consume(peer, all_old) == [(5, b"k", b"next")]
    if isinstance(peer, Daemon):
        assert total(peer.admin_url, "groupd_retention_batches_deleted_total") >= 10


def test_the_newest_record_of_a_key_stays(peer: Peer, unique: str) -> None:
    topic = f"compact-{unique}"
    create(peer, topic, COMPACTED)
    rounds = [(key, b"%d" % number) for number in range(20) for key in (b"a", b"b", b"c")]
    produce(peer, topic, *rounds, (b"a", None))
    transactional = Producer(
        {"bootstrap.servers": peer.bootstrap, "transactional.id": f"tx-{unique}"}
    )
    transactional.init_transactions(30)
    transactional.begin_transaction()
    transactional.produce(topic, b"aborted", b"b")
    transactional.flush(30)
    transactional.abort_transaction(30)
    transactional.begin_transaction()
    transactional.produce(topic, b"committed", b"c")
    transactional.commit_transaction(30)
    kept = {b"b": b"19", b"c": b"committed"}

    def compacted() -> bool:
        # What comes last lies in Kafka's active segment and keeps it going.
        produce(peer, topic, (b"last", b"1"))
        found = consume(peer, topic)
        newest = {key: value for _, key, value in found if key != b"last"}
        assert {key: newest.get(key) for key in kept} == kept, "at every moment"
        older = [entry for entry in found if entry[1] != b"last"]
        return [key for _, key, _ in older] == [b"b", b"c"]

    wait_until(compacted, TIMEOUT_S, "one record a key")
    offsets = {key: offset for offset, key, _ in consume(peer, topic)}
    # 60 records, the tombstone, the aborted record and its marker come before the committed one.
    assert (offsets[b"b"], offsets[b"c"]) == (58, 63)
    if isinstance(peer, Daemon):
        assert total(peer.admin_url, "groupd_compaction_records_dropped_total") >= 58
        peer.restart()
        assert {key for _, key, _ in consume(peer, topic)} == {b"b", b"c", b"last"}
