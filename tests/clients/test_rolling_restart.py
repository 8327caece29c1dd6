"""Twenty librdkafka consumers on the consumer protocol, each restarted once, under load: no record
is lost, and no partition is ever positioned by two of them."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.clients.conftest import GroupMaker, TopicMaker
from tests.clients.group import BY_NAME, SETTLE_S, Group
from tests.clients.load import Load
from tests.clients.timeline import Timeline
from tests.support.peer import Peer
from tests.support.process import wait_until

PROCESSES, MEMBERS_EACH, PARTITIONS = 4, 5, 40
RESTART_S = 60.0


@pytest.fixture
def load(peer: Peer, topics: TopicMaker) -> Iterator[Load]:
    (topic,) = topics({"rolling": PARTITIONS})
    made = Load(peer.bootstrap, topic, PARTITIONS)
    yield made
    made.stop()


def balanced(group: Group) -> bool:
    """Whether each member owns two partitions, and all of them together own all."""
    owned = [member.owned for member in group.members.values()]
    every = {partition for its in owned for partition in its}
    return len(every) == PARTITIONS and all(len(its) == 2 for its in owned)


@pytest.mark.timeout(600)
def test_a_rolling_restart_of_twenty_consumers_loses_nothing(
    make_group: GroupMaker, load: Load
) -> None:
    group = make_group(BY_NAME["confluent-consumer-uniform"])
    processes = [
        group.spawn({load.topic: PARTITIONS}, members=MEMBERS_EACH, commit="each")
        for _ in range(PROCESSES)
    ]
    wait_until(lambda: balanced(group), SETTLE_S, "20 members share evenly", group.describe)
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
    line, losses = Timeline.of(group), group.losses()

    for process in processes:
        process.write_line("stop")
    for process in processes:
        assert process.wait_exit(SETTLE_S) == 0
    assert group.errors == []
    assert losses == []
    assert line.double_owners(since) == []
    assert [member.lives for member in group.members.values()] == [2] * 20
