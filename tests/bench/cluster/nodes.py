"""A cluster for a benchmark: its nodes at their default settings, over a PostgreSQL of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.bench.proc import cpu_seconds
from tests.support.cluster import SETTLE_S, ClusterOfDaemons
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until

TOPIC = "bench"
Address = tuple[str, int]


class BenchCluster(ClusterOfDaemons):
    """`server`: its database server; `database`: the name of its database there."""

    server: PostgresServer
    database: str

    @property
    def addresses(self) -> Sequence[Address]:
        return [(daemon.host, daemon.port) for daemon in self.daemons]

    def cpu_seconds(self) -> float:
        """User and system time of all nodes so far."""
        return sum(cpu_seconds(daemon.pid) for daemon in self.daemons)

    def shared(self) -> None:
        """Wait until every node has its share, and nothing moves."""

        def has_share() -> bool:
            owners = {unit["owner"] for unit in self.page()["units"]}
            return len(owners - {None}) == len(self.daemons)

        wait_until(has_share, SETTLE_S, "a share for each", self.logs)
        self.settled()

    def owner(self, kind: str, number: int) -> int:
        """The place in `daemons` of the owner of a unit."""
        ids = {self.node_id(daemon): at for at, daemon in enumerate(self.daemons)}
        units = self.page()["units"]
        (owner,) = {one["owner"] for one in units if (one["kind"], one["number"]) == (kind, number)}
        return ids[owner]


@contextmanager
def running_cluster(
    server: PostgresServer,
    count: int,
    *,
    database: str = "",
    partitions: int = 10,
    settings: Mapping[str, str] | None = None,
) -> Iterator[BenchCluster]:
    """A started cluster in a database that is empty unless `database` names one."""
    database = database or server.new_database()
    quiet = ("--log-level", "warning")
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        cluster = BenchCluster(
            Path(directory),
            server.url(database),
            count=count,
            topics={TOPIC: partitions},
            settings=settings,
            arguments=quiet,
        )
        cluster.server, cluster.database = server, database
        try:
            first, *others = cluster.daemons
            first.start()
            for daemon in others:
                daemon.start()
            cluster.settled()
            yield cluster
        finally:
            cluster.close()
