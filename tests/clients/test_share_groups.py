"""Share groups with the share consumers of Java, librdkafka and franz-go."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable

import pytest
from confluent_kafka import Producer

from tests.clients.conftest import TopicMaker
from tests.clients.share import (
    CLIENTS,
    RECORD_LIMIT_CLIENTS,
    Delivered,
    ShareGroup,
    ShareWay,
    accept_all,
)
from tests.support.admin import produce
from tests.support.peer import Peer

LOCK_MS = 3000
"""The lock duration of groups whose locks run out in a test."""
HEARTBEAT_S = 5.0

every_client = pytest.mark.parametrize("client", CLIENTS)
newer_clients = pytest.mark.parametrize("client", RECORD_LIMIT_CLIENTS)


def offsets_and_counts(records: Iterable[Delivered]) -> list[tuple[int, int]]:
    """(offset, delivery count) of each record."""
    return sorted((record.offset, record.count) for record in records)


@every_client
def test_a_fresh_group_gets_every_record_once(
    peer: Peer, topics: TopicMaker, share_group: ShareGroup, client: str
) -> None:
    counts = topics({"a": 1, "b": 3})
    written = produce(peer.bootstrap, counts, 2000)
    first = share_group.member(ShareWay(client), counts)
    found = accept_all(first, written)
    assert sorted(record.place for record in found) == sorted(written)
    assert {record.count for record in found} == {1}
    first.close()

    later = produce(peer.bootstrap, counts, 40)
    found = accept_all(share_group.member(ShareWay(client), counts), later)
    assert sorted(record.place for record in found) == sorted(later)


@every_client
def test_released_records_come_again_and_rejected_ones_do_not(
    peer: Peer, topics: TopicMaker, share_group: ShareGroup, client: str
) -> None:
    (topic,) = counts = topics({"work": 1})
    produce(peer.bootstrap, counts, 10)
    member = share_group.member(ShareWay(client), [topic])
    records = member.poll_records()
    assert offsets_and_counts(records) == [(offset, 1) for offset in range(10)]
    member.acknowledge("release", records[:3])
    member.acknowledge("reject", records[3:5])
    member.finish("accept", records[5:])
    again = member.poll_records()
    assert offsets_and_counts(again) == [(0, 2), (1, 2), (2, 2)]
    member.finish("accept", again)

    later = produce(peer.bootstrap, counts, 5)
    assert sorted(record.place for record in accept_all(member, later)) == sorted(later)
    member.close()


@every_client
def test_a_record_that_is_released_up_to_the_limit_is_archived(
    peer: Peer, topics: TopicMaker, share_group: ShareGroup, client: str
) -> None:
    (topic,) = counts = topics({"work": 1})
    share_group.configure(share_delivery_count_limit="3")
    produce(peer.bootstrap, counts, 1)
    member = share_group.member(ShareWay(client), [topic])
    for count in (1, 2, 3):
        records = member.poll_records()
        assert offsets_and_counts(records) == [(0, count)]
        member.finish("release", records)
    later = produce(peer.bootstrap, counts, 5)
    assert sorted(record.place for record in accept_all(member, later)) == sorted(later)


@every_client
def test_two_members_share_one_partition(
    peer: Peer, topics: TopicMaker, share_group: ShareGroup, client: str
) -> None:
    """docs/spec/share-group.md#SG-121: what a member held when it closed comes again."""
    (topic,) = counts = topics({"shared": 1})
    # Members get whole batches, so one batch would go to one member.
    written = set().union(*(produce(peer.bootstrap, counts, 100) for _ in range(10)))
    way = ShareWay(client, max_records=100)
    leaves, stays = (share_group.member(way, [topic]) for _ in range(2))
    accepted = leaves.poll_records()
    leaves.finish("accept", accepted)
    held = leaves.poll_records()
    leaves.close()
    found = accept_all(stays, written - {record.place for record in accepted})
    times = Counter(record.place for record in accepted + found)
    assert set(times) == written
    assert set(times.values()) == {1}, "every record was accepted once"
    counted = {record.place: record.count for record in found}
    assert {counted[record.place] for record in held} == {2}
    assert {counted[place] for place in counted.keys() - {at.place for at in held}} == {1}


@every_client
def test_records_of_a_killed_member_go_to_another_one_at_once(
    peer: Peer, topics: TopicMaker, share_group: ShareGroup, client: str
) -> None:
    """docs/spec/share-group.md#SG-122: when its connection ends, not when its locks run out."""
    (topic,) = counts = topics({"work": 1})
    produce(peer.bootstrap, counts, 10)
    way = ShareWay(client, explicit=False)
    killed = share_group.member(way, [topic])
    held = killed.poll_records()
    other = share_group.member(way, [topic])
    assert other.poll() == []
    killed.kill()
    killed_at = time.monotonic()
    again = other.poll_records()
    assert time.monotonic() - killed_at < 20, "long before the locks of 30 s would end"
    assert offsets_and_counts(again) == [(record.offset, 2) for record in held]
    other.close()


@every_client
def test_without_a_word_the_next_poll_accepts(
    peer: Peer, topics: TopicMaker, share_group: ShareGroup, client: str
) -> None:
    (topic,) = counts = topics({"work": 1})
    produce(peer.bootstrap, counts, 10)
    way = ShareWay(client, explicit=False)
    member = share_group.member(way, [topic])
    assert len(member.poll_records()) == 10
    assert member.poll() == []
    member.commit()
    produce(peer.bootstrap, counts, 10)
    records = member.poll_records()
    assert offsets_and_counts(records) == [(offset, 1) for offset in range(10, 20)]
    assert member.commit() == {(topic, 0): None}
    member.close()
    produce(peer.bootstrap, counts, 1)
    assert offsets_and_counts(share_group.member(way, [topic]).poll_records()) == [(20, 1)]


@newer_clients
def test_record_limit_splits_batches(
    peer: Peer, topics: TopicMaker, share_group: ShareGroup, client: str
) -> None:
    (topic,) = counts = topics({"work": 1})
    produce(peer.bootstrap, counts, 10)  # one batch
    member = share_group.member(ShareWay(client, acquire="record_limit", max_records=4), [topic])
    found: list[Delivered] = []
    for size in (4, 4, 2):
        polled = member.poll_records()
        assert len(polled) == size
        member.finish("accept", polled)
        found += polled
    assert offsets_and_counts(found) == [(offset, 1) for offset in range(10)]


@newer_clients
def test_renewed_locks_do_not_run_out(
    peer: Peer, topics: TopicMaker, share_group: ShareGroup, client: str
) -> None:
    (topic,) = counts = topics({"work": 1})
    share_group.configure(share_record_lock_duration_ms=str(LOCK_MS))
    produce(peer.bootstrap, counts, 4)
    holder = share_group.member(ShareWay(client), [topic])
    held = holder.poll_records()
    acquired_at = time.monotonic()
    other = share_group.member(ShareWay(client), [topic])
    while time.monotonic() - acquired_at < 2.5 * LOCK_MS / 1000:
        assert other.poll(0.3) == []
        holder.renew(held)
    holder.finish("accept", held[:2])
    # Nobody renews the others: they go to the other member.
    again = accept_all(other, {record.place for record in held[2:]})
    assert offsets_and_counts(again) == [(2, 2), (3, 2)]


@every_client
@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_the_isolation_level_of_the_group(
    peer: Peer, topics: TopicMaker, share_group: ShareGroup, client: str, level: str
) -> None:
    (topic,) = counts = topics({"work": 1})
    share_group.configure(share_isolation_level=level)
    producer = Producer(
        {
            "bootstrap.servers": peer.bootstrap,
            "transactional.id": f"writer-{topic}",
            "metadata.recovery.strategy": "none",  # see docs/clients.md
        }
    )
    producer.init_transactions()
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(topic, b"v")
        producer.flush()
        end()
    # Offsets 0-4 and a marker, 6-10 and a marker.
    wanted = set(range(6, 11)) | (set() if level == "read_committed" else set(range(5)))
    member = share_group.member(ShareWay(client), [topic])
    accepted = accept_all(member, {(topic, 0, offset) for offset in wanted})
    assert offsets_and_counts(accepted) == [(offset, 1) for offset in sorted(wanted)]
    later = produce(peer.bootstrap, counts, 3)
    assert {record.place for record in accept_all(member, later)} == later


@every_client
def test_how_soon_a_group_gets_its_first_records(
    peer: Peer, topics: TopicMaker, share_group: ShareGroup, client: str
) -> None:
    """docs/spec/share-group.md#SG-120: a new group a heartbeat later, a known one at once."""
    (topic,) = counts = topics({"work": 1})
    share_group.configure(
        share_heartbeat_interval_ms=str(int(HEARTBEAT_S * 1000)),
        share_assignment_interval_ms="1000",
    )
    produce(peer.bootstrap, counts, 1)
    took = []
    for _ in range(2):
        member = share_group.member(ShareWay(client), [topic])
        assert member.poll(0) == []
        started = time.monotonic()
        member.finish("accept", member.poll_records())
        took.append(time.monotonic() - started)
        member.close()
        produce(peer.bootstrap, counts, 1)
    print(client, took)
    assert HEARTBEAT_S - 1 < took[0] < 2 * HEARTBEAT_S
    assert took[1] < HEARTBEAT_S - 1
