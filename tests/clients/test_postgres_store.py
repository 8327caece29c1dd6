"""A real consumer group on a daemon that stores in PostgreSQL: it outlives daemon and server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.conftest import GroupMaker, TopicMaker
from tests.clients.group import BY_NAME
from tests.support.admin import committed, end_offsets, produce
from tests.support.peer import Peer, make_peer, peer_kind, running
from tests.support.postgres import PostgresServer, running_postgres
from tests.support.process import wait_until

RECOVER_S = 60.0
FLAVOUR = BY_NAME["confluent-consumer-uniform"]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module, which is stopped and started."""
    with running_postgres() as server:
        yield server


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory, server: PostgresServer) -> Iterator[Peer]:
    if peer_kind() != "groupd":
        pytest.skip("a store of groupd")
    url = server.url(server.new_database())
    with running(make_peer(tmp_path_factory.mktemp("peer"), store=url)) as made:
        yield made


@pytest.mark.crash
@pytest.mark.parametrize("what", ["daemon", "server"])
def test_a_live_group_goes_on_after_a_kill(
    peer: Peer, server: PostgresServer, topics: TopicMaker, make_group: GroupMaker, what: str
) -> None:
    counts = topics({"a": 4})
    group = make_group(FLAVOUR)
    process = group.spawn(counts, members=2, commit="each")
    group.wait_covered(counts, [0, 1])
    before = produce(peer.bootstrap, counts, 400)
    wait_until(lambda: group.acknowledged, RECOVER_S, "a first commit", group.describe)
    killed = peer if what == "daemon" else server
    killed.kill()
    acknowledged = dict(group.acknowledged)
    if what == "daemon":
        peer.restart()
    else:
        server.start()
    after = produce(peer.bootstrap, counts, 100)
    group.wait_seen({*before, *after}, RECOVER_S)
    ends = end_offsets(peer.bootstrap, counts)
    group.wait_committed(ends, RECOVER_S)
    # Nothing that was acknowledged as committed comes again.
    assert {place for place in group.twice() if place[2] < acknowledged.get(place[:2], 0)} == set()
    group.stop(process)
    assert committed(peer.bootstrap, group.group_id, counts) == ends
