"""Twenty librdkafka consumers on the consumer protocol, each restarted once, under load: no record
is lost, and no partition is ever positioned by two of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from tests.clients.conftest import GroupMaker, TopicMaker
from tests.clients.group import BY_NAME, Group, Move, Partition, Place
from tests.support.peer import Peer
from tests.support.process import wait_until

PROCESSES, MEMBERS_EACH, PARTITIONS = 4, 5, 40
RECORDS_PER_S = 300
RESTART_S = 20.0


class Load:
    """Produces until stopped; `written`: every record that the broker has acknowledged."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.written: set[Place] = set()
        self._errors: list[str] = []
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})
        self.topic, self._partitions = topic, partitions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _delivered(self, error: object, message: object) -> None:
        if error is not None:
            self._errors.append(str(error))
        else:
            place = (message.topic(), message.partition(), message.offset())  # type: ignore[attr-defined]
            self.written.add(place)

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(1 / RECORDS_PER_S):
            self._producer.produce(
                self.topic,
                value=str(number).encode(),
                partition=number % self._partitions,
                on_delivery=self._delivered,
            )
            self._producer.poll(0)
            number += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(30) == 0
        assert self._errors == []


@pytest.fixture
def load(peer: Peer, topics: TopicMaker) -> Iterator[Load]:
    (topic,) = topics({"rolling": PARTITIONS})
    made = Load(peer.bootstrap, topic, PARTITIONS)
    yield made
    made.stop()


def double_owners(moves: list[Move], since: float = 0.0) -> list[str]:
    """Every moment from `since` on at which a partition was given to somebody while another one
    had it."""
    holder: dict[Partition, Move] = {}
    faults = []
    for move in sorted(moves, key=lambda one: one.at):
        for partition in move.partitions:
            if move.at < since:
                settle_early(holder, partition, move)
                continue
            if move.kind == "assigned":
                other = holder.get(partition)
                if other is not None:
                    faults.append(f"{partition}: {other} and {move}")
                holder[partition] = move
            elif partition in holder and holder[partition].member == move.member:
                del holder[partition]
            else:
                faults.append(f"{partition}: {move} without owning it")
    return faults


def settle_early(holder: dict[Partition, Move], partition: Partition, move: Move) -> None:
    """Twenty consumers that start at once: librdkafka may report that it owns nothing while its
    first assignment still waits for metadata. That is taken for a revocation (as in Kafka), and
    for some milliseconds the callbacks overlap. The restarts are judged, not this."""
    if move.kind == "assigned":
        holder[partition] = move
    elif partition in holder and holder[partition].member == move.member:
        del holder[partition]


def balanced(group: Group) -> bool:
    """All own two partitions, together all of them."""
    owned = [member.owned for member in group.members.values()]
    every = {partition for its in owned for partition in its}
    return len(every) == PARTITIONS and all(len(its) == 2 for its in owned)


def test_a_rolling_restart_of_twenty_consumers_loses_nothing(
    make_group: GroupMaker, load: Load
) -> None:
    group = make_group(BY_NAME["confluent-consumer-uniform"])
    processes = [
        group.spawn({load.topic: PARTITIONS}, members=MEMBERS_EACH, commit="each")
        for _ in range(PROCESSES)
    ]
    wait_until(lambda: balanced(group), 30, "20 members share evenly", group.describe)
    since = time.monotonic()

    for number in range(PROCESSES * MEMBERS_EACH):
        member = group.members[number]
        processes[number // MEMBERS_EACH].write_line(f"restart {number}")
        wait_until(
            lambda member=member: member.lives == 1 and balanced(group),  # type: ignore[misc]
            RESTART_S,
            f"member {number} is back, and 20 members share evenly",
            group.describe,
        )
    load.stop()
    assert len(load.written) > 500
    group.wait_seen(load.written)

    for process in processes:
        process.write_line("stop")
    for process in processes:
        assert process.wait_exit(30) == 0
    assert group.errors == []
    assert [move for move in group.moves if move.kind == "lost"] == []
    assert double_owners(group.moves, since) == []
    assert [member.lives for member in group.members.values()] == [2] * 20


def test_the_check_sees_double_ownership() -> None:
    """The judge itself: a partition given away before it was taken back."""
    p = ("t", 0)
    good = [Move(1, 0, "assigned", (p,)), Move(2, 0, "revoked", (p,)), Move(3, 1, "assigned", (p,))]
    assert double_owners(good) == []
    bad = [Move(1, 0, "assigned", (p,)), Move(3, 0, "revoked", (p,)), Move(2, 1, "assigned", (p,))]
    assert len(double_owners(bad)) == 2
