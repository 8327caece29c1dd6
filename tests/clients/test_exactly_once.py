"""Loops that read, process and write exactly once, of each client on each protocol: workers leave
and are killed, the daemon too, and the output is the input."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from groupd.testing.harness import GroupCoordinator
from tests.clients.conftest import TopicMaker
from tests.clients.exactly_once import Topology, compare
from tests.clients.topic_reader import left_behind
from tests.support.peer import Peer, make_peer, running

PARTITIONS, HALF = 6, 1_000
SESSION_MS, TRANSACTION_MS = 3_000, 5_000
SETTINGS = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
WAIT_S = 120.0
LOOPS = (
    ("confluent", "consumer", ""),
    ("confluent", "classic", "range"),
    ("confluent", "classic", "cooperative-sticky"),
    ("java", "consumer", ""),
    ("java", "classic", "range"),
    ("franz", "consumer", ""),
    ("franz", "classic", "cooperative-sticky"),
)


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with running(make_peer(tmp_path_factory.mktemp("peer"), settings=SETTINGS)) as made:
        yield made


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("client", "protocol", "assignor"),
    LOOPS,
    ids=["-".join(filter(None, loop)) for loop in LOOPS],
)
def test_every_record_is_written_once(
    peer: Peer,
    topics: TopicMaker,
    unique: str,
    tmp_path: Path,
    client: str,
    protocol: str,
    assignor: str,
) -> None:
    source, target = topics({"in": PARTITIONS, "out": PARTITIONS})
    topology = Topology(
        peer.bootstrap,
        tmp_path,
        f"eos-{unique}",
        source,
        target,
        PARTITIONS,
        session_timeout_ms=SESSION_MS,
        transaction_timeout_ms=TRANSACTION_MS,
    )

    def start(number: int) -> None:
        topology.start(client, protocol, f"x{number}-{unique}", assignor)

    try:
        topology.feeder.feed(HALF)
        start(0)
        start(1)
        topology.wait_written(HALF // 4, WAIT_S)
        topology.workers[0].kill()
        start(0)  # the same transactional id: fences what is left of the killed one
        topology.wait_written(HALF // 2, WAIT_S)
        peer.restart()
        topology.feeder.feed(HALF)
        topology.wait_written(HALF, WAIT_S)
        topology.workers[1].stop()
        start(2)
        topology.wait_written(HALF * 3 // 2, WAIT_S)
        topology.workers[2].kill()  # nobody fences this one: its transaction times out
        topology.finish(WAIT_S)
    finally:
        topology.close()


@pytest.mark.timeout(300)
def test_a_client_that_waits_for_ever_is_started_again(tmp_path: Path) -> None:
    """librdkafka's send_offsets_to_transaction does not survive three COORDINATOR_NOT_AVAILABLE one
    after another, and does not keep to its timeout then. groupd avoids it (docs/clients.md); should
    it happen all the same, such a worker ends itself, and its successor fences it."""
    with GroupCoordinator.start({"in": PARTITIONS, "out": PARTITIONS}, SETTINGS) as c:
        c.faults.add(
            "error",
            api="FindCoordinator",
            client_id="x0",
            group="eos",
            code="COORDINATOR_NOT_AVAILABLE",
            count=3,
        )
        topology = Topology(
            c.bootstrap_servers,
            tmp_path,
            "eos",
            "in",
            "out",
            PARTITIONS,
            session_timeout_ms=SESSION_MS,
            transaction_timeout_ms=TRANSACTION_MS,
        )
        try:
            topology.feeder.feed(HALF)
            for number in range(2):
                topology.start("confluent", "consumer", f"x{number}", "")
            topology.finish(WAIT_S)
            assert [worker.events["stuck"] for worker in topology.workers] == [1, 0]
        finally:
            topology.close()


# The judge itself ---------------------------------------------------------------------------

GIVEN = {0: [0, 2, 4], 1: [1, 3]}


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ({0: [0, 2, 4], 1: [1, 3]}, None),
        ({0: [0, 2, 4], 1: [1]}, "partition 1: 1 lost: [3]"),
        ({0: [0, 2, 4]}, "partition 1: 2 lost: [1, 3]"),
        ({0: [0, 2, 2, 4], 1: [1, 3]}, "partition 0: 1 twice: [2]"),
        ({0: [0, 4, 2], 1: [1, 3]}, "partition 0: out of order from 1: [4, 2]"),
        ({0: [0, 2, 4, 5], 1: [1, 3]}, "partition 0: 1 foreign: [5]"),
    ],
)
def test_the_judge(found: dict[int, list[int]], fault: str | None) -> None:
    assert compare(GIVEN, found) == ([] if fault is None else [fault])


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        ((2, 3, 966), (2, 3, 966), [4]),
        ((2, 3, 960), (2, 3, 966), []),
        ((3, 3, 966), (2, 3, 966), []),
        ((2, 2, 966), (2, 2, 966), []),
        ((2, -1, 966), (2, -1, 966), []),
        ((-1, 3, 966), (-1, 3, 966), []),
    ],
)
def test_a_partition_that_stays_with_the_wrong_broker(
    before: tuple[int, int, int], now: tuple[int, int, int], found: list[int]
) -> None:
    facts = "leader", "broker", "next_offset"
    told = [{4: dict(zip(facts, one, strict=True))} for one in (before, now)]
    assert left_behind(*told) == found
