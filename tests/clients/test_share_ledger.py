"""Ten thousand records and five workers of a share group, of which some are killed: every record is
accepted, rejected, or archived after its last delivery, and nothing comes again once its
acknowledgement was answered. The same while the daemon is killed, and the nodes of a cluster."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.clients.conftest import TopicMaker
from tests.clients.kafka_tool_calls import Run
from tests.clients.share import CLIENTS, ShareGroup, ShareWay, accept_all
from tests.clients.share_ledger import Ledger, LedgerWorker, is_poison
from tests.support.admin import create_topics, produce
from tests.support.cluster import ClusterOfDaemons
from tests.support.peer import FAST_SETTINGS, Peer, peer_kind
from tests.support.postgres import running_postgres
from tests.support.process import wait_until

RECORDS, BATCH, PARTITIONS, WORKERS = 10_000, 50, 4, 5
FINISH_S = 150.0
QUIET_S = 3.0
"""For so long no record must come any more, once all are finished."""

every_client = pytest.mark.parametrize("client", CLIENTS)


class Work:
    """The workers of one group on one topic."""

    def __init__(
        self, group: ShareGroup, topic: str, client: str, *, leaders_die: bool = True
    ) -> None:
        self.ledger = Ledger(leaders_die=leaders_die)
        self.kills = 0
        # Members get whole batches: many of them are shared by all.
        self._written = set().union(
            *(
                produce(group.bootstrap, {topic: PARTITIONS}, BATCH * PARTITIONS)
                for _ in range(RECORDS // BATCH // PARTITIONS)
            )
        )
        way = ShareWay(client, max_records=100)
        self._workers = [
            LedgerWorker(f"worker-{number}", group.member(way, [topic]), self.ledger)
            for number in range(WORKERS)
        ]
        for worker in self._workers:
            worker.start()

    def wait_for_share(self, share: float) -> None:
        """Waits until that part of the records has been given to workers."""
        wanted = share * RECORDS
        wait_until(lambda: len(self.ledger.stories) >= wanted, FINISH_S, "a share", self._describe)

    def kill_worker(self) -> None:
        """SIGKILL of the worker that has been given the most."""
        worker = max(self._workers, key=lambda worker: worker.polled)
        self._workers.remove(worker)
        worker.kill()
        self.kills += 1

    def finish(self) -> None:
        """Waits until all is done and nothing comes any more; the workers leave."""
        wait_until(
            lambda: (
                time.monotonic() - self.ledger.changed_at > QUIET_S
                and not self.ledger.unfinished(self._written, self.kills)
            ),
            FINISH_S,
            "the end of all records",
            self._describe,
        )
        for worker in self._workers:
            worker.stop()
        print(self.ledger.summary(), self.ledger.errors[:10])
        self.ledger.judge(self._written)

    def _describe(self) -> str:
        unfinished = self.ledger.unfinished(self._written, self.kills)
        return (
            f"{len(unfinished)} unfinished: {unfinished[:10]}\nerrors {self.ledger.errors[-10:]}\n"
            + "\n".join(worker.member.process.output() for worker in self._workers)
        )


def check_lag(run: Run, group: ShareGroup, topic: str) -> None:
    """The coordinator has nothing left to deliver.

    Kafka does not read a share-partition's start offset and its count of finished records at one
    time, so while several members acknowledge, a lag may be too high until the next write.
    """
    counts = {topic: PARTITIONS}
    one = group.member(ShareWay("java"), counts)
    accept_all(one, produce(group.bootstrap, counts, PARTITIONS))
    one.close()
    rows = run("kafka-share-groups", "--describe", "--group", group.group_id).table
    assert [row["LAG"] for row in rows] == ["0"] * PARTITIONS, rows


@every_client
@pytest.mark.timeout(400)
def test_the_ledger_while_workers_are_killed(
    peer: Peer, topics: TopicMaker, share_group: ShareGroup, run: Run, client: str
) -> None:
    (topic,) = topics({"ledger": PARTITIONS})
    work = Work(share_group, topic, client, leaders_die=False)
    for share in (0.2, 0.5):
        work.wait_for_share(share)
        work.kill_worker()
    work.finish()
    check_lag(run, share_group, topic)
    for (_, _, offset), story in work.ledger.stories.items():
        assert len(set(story.counts)) == len(story.counts), "each delivery has its own count"
        assert len(story.counts) <= 2 + work.kills or is_poison(offset)


@every_client
@pytest.mark.crash
@pytest.mark.timeout(400)
def test_the_ledger_while_the_daemon_is_killed(
    peer: Peer, topics: TopicMaker, share_group: ShareGroup, run: Run, client: str
) -> None:
    (topic,) = topics({"ledger": PARTITIONS})
    work = Work(share_group, topic, client)
    for share in (0.2, 0.5):
        work.wait_for_share(share)
        work.kill_worker()
        peer.restart()
        work.kills += 1
    work.finish()
    check_lag(run, share_group, topic)


@every_client
@pytest.mark.crash
@pytest.mark.timeout(400)
@pytest.mark.skipif(peer_kind() == "kafka", reason="about groupd's own cluster")
def test_the_ledger_while_nodes_of_a_cluster_are_killed(tmp_path: Path, client: str) -> None:
    with running_postgres() as server:
        nodes = ClusterOfDaemons(
            tmp_path, server.url(server.new_database()), settings=FAST_SETTINGS
        )
        group = None
        try:
            nodes.start()
            create_topics(nodes.bootstrap, {"ledger": PARTITIONS})
            group = ShareGroup(nodes.bootstrap, "share", tmp_path)
            work = Work(group, "ledger", client)
            for share, node in ((0.2, 0), (0.5, 1)):
                work.wait_for_share(share)
                work.kill_worker()
                nodes.daemons[node].restart()
                work.kills += 1
                nodes.settled()
            work.finish()
            nodes.stop()
        finally:
            if group is not None:
                group.close()
            nodes.close()
