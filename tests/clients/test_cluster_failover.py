"""A standby takes the place of PostgreSQL under a cluster, as clients see it: what docs/cluster.md
promises for a synchronous and for an asynchronous one.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.support.admin import commit, committed, create_topics, end_offsets, produce
from tests.support.cluster import ClusterOfDaemons
from tests.support.peer import FAST_SETTINGS, peer_kind
from tests.support.postgres import running_postgres, running_standby
from tests.support.process import wait_until
from tests.support.wire_client import new_producer

WAIT_S, REQUEST_S = 60.0, 5.0
TOPICS = {"t": 6}
GROUPS = [f"g{number}" for number in range(4)]
"""They lie on several nodes, and the partitions on all."""

pytestmark = pytest.mark.skipif(peer_kind() == "kafka", reason="about groupd's own cluster")


@pytest.mark.crash
@pytest.mark.timeout(300)
@pytest.mark.parametrize("replication", ["synchronous", "asynchronous"])
def test_what_a_fail_over_loses(tmp_path: Path, replication: str) -> None:
    with running_postgres() as server, running_standby(server) as standby:
        if replication == "synchronous":
            server.wait_for_standbys()
        url = server.url_with(standby, server.new_database())
        nodes = ClusterOfDaemons(tmp_path, url, settings=FAST_SETTINGS)
        try:
            nodes.start()
            create_topics(nodes.bootstrap, TOPICS)
            produce(nodes.bootstrap, TOPICS, 60)
            _commit(nodes, 10)
            before = _producer_ids(nodes)
            wait_until(lambda: standby.has_all_of(server), WAIT_S, "a copy", standby.logs)
            if replication == "asynchronous":
                standby.follow_no_more()
            produce(nodes.bootstrap, TOPICS, 60)
            _commit(nodes, 20)
            before |= _producer_ids(nodes)

            server.kill()
            standby.promote()
            wait_until(lambda: _replaced(nodes), WAIT_S, "another timeline", nodes.logs)
            # Before, a node that is back first leads what nobody else leads yet.
            wait_until(lambda: _ready(nodes), WAIT_S, "ready nodes", nodes.logs)
            nodes.settled()

            # The standby had received only the first half of what was acknowledged.
            kept = 20 if replication == "synchronous" else 10
            for address in nodes.nodes:
                ends = end_offsets(address, TOPICS)
                assert set(ends.values()) == {kept}, "every node shows what the database has"
            assert _committed(nodes) == {kept}
            assert not before & _producer_ids(nodes), "no producer id is given out again"
            produce(nodes.bootstrap, TOPICS, 60)
            _commit(nodes, 30)
            assert set(end_offsets(nodes.bootstrap, TOPICS).values()) == {kept + 10}
            assert _committed(nodes) == {30}
            nodes.stop()
        finally:
            nodes.close()


def _commit(nodes: ClusterOfDaemons, offset: int) -> None:
    for group in GROUPS:
        commit(nodes.bootstrap, group, {("t", 0): offset})


def _committed(nodes: ClusterOfDaemons) -> set[int]:
    return {committed(nodes.bootstrap, group, {"t": 1})[("t", 0)] for group in GROUPS}


def _producer_ids(nodes: ClusterOfDaemons) -> set[int]:
    """A new id from each node."""
    ids = {new_producer((daemon.host, daemon.port))[0] for daemon in nodes.daemons}
    assert len(ids) == len(nodes.daemons)
    return ids


def _ready(nodes: ClusterOfDaemons) -> bool:
    try:
        for daemon in nodes.daemons:
            urllib.request.urlopen(f"{daemon.admin_url}/readyz", timeout=REQUEST_S).close()
    except urllib.error.HTTPError as error:
        error.close()
        return False
    return True


def _replaced(nodes: ClusterOfDaemons) -> bool:
    """Whether all nodes have noticed that the database is another server."""
    return all("the database was replaced" in daemon.logs() for daemon in nodes.daemons)
