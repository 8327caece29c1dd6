"""A live group goes over to the consumer protocol and back, one member at a time, under load."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.conftest import GroupMaker, TopicMaker
from tests.clients.group import BY_NAME, Place
from tests.support.admin import produce
from tests.support.peer import Peer
from tests.support.process import wait_until

# Not cooperative-sticky of librdkafka: its leader puts user data into the assignments, which keeps
# a group from being converted (docs/clients.md).
ROADS = [
    ("franz-classic-cooperative-sticky", "franz-consumer-uniform"),
    ("confluent-classic-range", "confluent-consumer-range"),
    ("java-classic-cooperative-sticky", "java-consumer-uniform"),
    ("java-classic-range", "confluent-consumer-uniform"),
]
BATCH = 120


class Writer:
    """Produces without a pause until told to stop; `places` is everything it wrote."""

    def __init__(self, bootstrap: str, topics: dict[str, int]) -> None:
        self.places: set[Place] = set()
        self._bootstrap, self._topics = bootstrap, topics
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(0.05):
            self.places |= produce(self._bootstrap, self._topics, BATCH)

    def stop(self) -> set[Place]:
        self._stopping.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.places


def group_type(peer: Peer, group_id: str) -> str:
    """`classic` or `consumer`, as ListGroups tells; "" for no such group."""
    client = AdminClient({"bootstrap.servers": peer.bootstrap, "log_level": 0})
    found = client.list_consumer_groups(request_timeout=10).result()
    return next((one.type.name.lower() for one in found.valid if one.group_id == group_id), "")


@pytest.mark.parametrize(("classic", "consumer"), ROADS, ids=lambda name: str(name))
def test_rolling_upgrade_and_downgrade_under_load(
    peer: Peer, topics: TopicMaker, make_group: GroupMaker, classic: str, consumer: str
) -> None:
    counts = topics({"a": 6, "b": 2})
    group = make_group(BY_NAME[classic])
    processes = {number: group.spawn(counts, commit="each") for number in (0, 1)}
    group.wait_covered(counts, [0, 1])
    assert group_type(peer, group.group_id) == "classic"
    writer = Writer(peer.bootstrap, counts)
    for number, goes, stay, flavour in (
        (2, 0, [1, 2], consumer),
        (3, 1, [2, 3], consumer),
        (4, 2, [3, 4], classic),
        (5, 3, [4, 5], classic),
    ):
        processes[number] = group.spawn(counts, commit="each", flavour=BY_NAME[flavour])
        group.wait_covered(counts, [goes, *stay])
        assert group_type(peer, group.group_id) == "consumer"
        group.leave(processes[goes], goes)
        group.wait_covered(counts, stay)
    wait_until(
        lambda: group_type(peer, group.group_id) == "classic", 30, "a classic group", group.describe
    )
    places = writer.stop()
    group.wait_seen(places)
    assert group.errors == []
    # Nobody reads a partition that another member has: what comes twice was read by a member
    # whose commit the change of generation refused.
    assert group.commit_failures or group.twice() == set()
