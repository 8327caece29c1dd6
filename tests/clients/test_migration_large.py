"""Six Java and six librdkafka consumers go over to the consumer protocol and back, one by one,
under load: nothing is lost, nobody reads what is no longer theirs, and no partition rests long."""

from __future__ import annotations

import time

import pytest

from tests.clients.conftest import GroupMaker, TopicMaker
from tests.clients.group import BY_NAME, SETTLE_S, Group
from tests.clients.load import Load
from tests.clients.timeline import Timeline
from tests.support.admin import group_type
from tests.support.peer import Peer
from tests.support.process import ChildProcess, wait_until

TOLD_TO_REJOIN = "JoinGroup failed: Broker: Group rebalance in progress"
EACH, PARTITIONS = 6, 24
BACK_S = 60.0
PAUSE_MAX_S = 10.0


def roll(group: Group, processes: list[ChildProcess], protocol: str, assignor: str) -> None:
    """Every member restarts as another kind, librdkafka and Java in turn."""
    for index in range(EACH):
        for number, process in ((EACH + index, processes[1]), (index, processes[0])):
            member = group.members[number]
            lives = member.lives + 1
            process.write_line(f"restart {number} {protocol} {assignor}")
            wait_until(
                lambda: member.lives == lives and member.owned,  # noqa: B023 - used at once
                BACK_S,
                f"member {number} is back with partitions",
                group.describe,
            )


@pytest.mark.timeout(600)
@pytest.mark.parametrize("assignor", ["cooperative-sticky", "range"])
def test_twelve_consumers_of_two_clients_change_over_and_back(
    peer: Peer, topics: TopicMaker, make_group: GroupMaker, assignor: str
) -> None:
    (topic,) = counts = topics({"migrates": PARTITIONS})
    group = make_group(BY_NAME[f"java-classic-{assignor}"])
    other = BY_NAME[f"confluent-classic-{assignor}"]
    # A Java member leads when the upgrade comes: with cooperative-sticky, librdkafka as the leader
    # copies the members' user data into assignments, and such a group is not upgraded.
    processes = [group.spawn(counts, members=EACH, commit="each")]
    group.wait_covered(counts, range(EACH))
    processes.append(group.spawn(counts, members=EACH, commit="each", flavour=other))
    everybody = range(2 * EACH)
    group.wait_covered(counts, everybody)
    load = Load(peer.bootstrap, topic, PARTITIONS)
    try:
        wait_until(lambda: len(group.polled) > PARTITIONS, SETTLE_S, "records flow", group.describe)
        since = time.monotonic()
        roll(group, processes, "consumer", "uniform")
        group.wait_covered(counts, everybody)
        assert group_type(peer.bootstrap, group.group_id) == "consumer"
        roll(group, processes, "classic", assignor)
        group.wait_covered(counts, everybody)
        assert group_type(peer.bootstrap, group.group_id) == "classic"
        until = time.monotonic()
    finally:
        load.stop()
    group.wait_seen(load.written)
    for process in processes:
        process.write_line("stop")
    for process in processes:
        assert process.wait_exit(SETTLE_S) == 0

    line = Timeline.of(group)
    # A JoinGroup that waits while the group changes over is told to come again; librdkafka does so,
    # and mentions it.
    assert [error for error in group.errors if TOLD_TO_REJOIN not in error] == []
    assert [member.lives for member in group.members.values()] == [3] * 2 * EACH
    assert line.double_owners() == []
    assert line.strangers() == []
    assert line.rewinds() == []
    pauses = line.longest_pause_s(since, until)
    assert len(pauses) == PARTITIONS
    assert max(pauses.values()) < PAUSE_MAX_S
