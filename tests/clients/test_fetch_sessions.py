"""Consumers of many partitions with fetch sessions, which Java and franz-go ask for and librdkafka
does not: nothing is lost and nothing comes twice, with room for all, for one, and for none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.conftest import GroupMaker, TopicMaker
from tests.clients.group import BY_NAME, SETTLE_S
from tests.clients.load import Load
from tests.support.peer import Peer, make_peer, running
from tests.support.process import wait_until

PARTITIONS = 100
CLIENTS = ["java-consumer-uniform", "franz-consumer-uniform", "confluent-consumer-uniform"]


@pytest.fixture(scope="module", params=[1000, 1, 0], ids=["sessions", "one", "none"])
def peer(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Peer]:
    """A peer with so many slots for sessions."""
    slots = {"max.incremental.fetch.session.cache.slots": str(request.param)}
    with running(make_peer(tmp_path_factory.mktemp("peer"), settings=slots)) as made:
        yield made


@pytest.mark.parametrize("client", CLIENTS)
def test_every_record_comes_once(
    peer: Peer, topics: TopicMaker, make_group: GroupMaker, client: str
) -> None:
    (topic,) = counts = topics({"many": PARTITIONS})
    group = make_group(BY_NAME[client])
    process = group.spawn(counts, members=2)
    group.wait_covered(counts, [0, 1])
    load = Load(peer.bootstrap, topic, PARTITIONS)
    try:
        wait_until(lambda: len(group.seen()) > 5 * PARTITIONS, SETTLE_S, "records", group.describe)
    finally:
        load.stop()
    group.wait_seen(load.written)
    assert group.twice() == set()
    assert group.errors == []
    group.stop(process)
