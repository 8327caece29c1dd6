"""What happens to nodes and database: each event does it, waits, and makes good what it did."""

from __future__ import annotations

import signal
import urllib.error
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from random import Random

from tests.chaos.cluster.database import Database
from tests.chaos.cluster.machine import Patience, StandStills
from tests.support.cluster import ClusterOfDaemons
from tests.support.daemon import Daemon
from tests.support.process import POLL_S, WaitTimeout

LEASE_S = 2.4
DRAINED_S = 20.0
READY_S = 60.0
KINDS = {
    "kill": 5,
    "freeze": 4,
    "cut": 5,
    "slow": 3,
    "rolling restart": 1,
    "database restart": 2,
    "sessions end": 3,
    "fail-over": 2,
    "drain": 3,
}
"""What happens, by weight. Of these at least one happens each."""


class Events:
    """`wait(seconds)` lets time go by; it raises if something is wrong. What is to be done in time
    may take longer if the machine stands still, which `stills` measures."""

    def __init__(
        self,
        cluster: ClusterOfDaemons,
        database: Database,
        random: Random,
        wait: Callable[[float], None],
        say: Callable[[str], None],
        stills: StandStills,
    ) -> None:
        self._cluster, self._database = cluster, database
        self._random, self._wait, self._say = random, wait, say
        self._stills = stills
        self.before_s = self._began_s = stills.total_s

    def happen(self, kind: str) -> None:
        """One event, from its beginning to its end."""
        # What happened during the last event may still have consequences.
        self.before_s, self._began_s = self._began_s, self._stills.total_s
        number = self._random.randrange(len(self._cluster.daemons))
        getattr(self, "_" + kind.replace(" ", "_").replace("-", "_"))(number)

    def _daemon(self, number: int) -> Daemon:
        return self._cluster.daemons[number]

    def _uniform(self, low: float, high: float) -> float:
        return round(self._random.uniform(low, high), 2)

    # Nodes --------------------------------------------------------------------------------

    def _kill(self, number: int) -> None:
        away_s = self._uniform(0.1, 2.5 * LEASE_S)
        self._say(f"node {number} is killed, and back after {away_s} s")
        self._daemon(number).kill()
        self._wait(away_s)
        self._again(number)

    def _again(self, number: int) -> None:
        daemon = self._daemon(number)
        for may_repeat in (True, False):
            daemon.process.close()
            daemon.launch()
            self._until(lambda: daemon.process.stdout_lines or not daemon.process.running, READY_S)
            if daemon.process.running or not (may_repeat and self._stood_still):
                break
            self._say(f"the machine stood still: node {number} is started once more")
        daemon.wait_ready(1)

    @property
    def _stood_still(self) -> bool:
        return self._stills.total_s > self.before_s

    def _freeze(self, number: int) -> None:
        for_s = self._uniform(1.1 * LEASE_S, 3.5 * LEASE_S)
        self._say(f"node {number} stands still for {for_s} s")
        process = self._daemon(number).process
        process.send_signal(signal.SIGSTOP)
        try:
            self._wait(for_s)
        finally:
            process.send_signal(signal.SIGCONT)

    def _cut(self, number: int) -> None:
        for_s = self._uniform(0.3, 3 * LEASE_S)
        how = "silent" if self._random.random() < 0.5 else "refused"
        self._say(f"node {number} is cut from the database for {for_s} s, {how}")
        for link in self._database.links[number]:
            link.cut(how)  # type: ignore[arg-type]
        self._wait(for_s)
        for link in self._database.links[number]:
            link.mend()

    def _slow(self, number: int) -> None:
        for_s, delay_s = self._uniform(2, 8), self._uniform(0.01, 0.3)
        slow = [number] if self._random.random() < 0.5 else list(range(len(self._database.links)))
        self._say(f"the database is {delay_s} s away from nodes {slow} for {for_s} s")
        for one in slow:
            for link in self._database.links[one]:
                link.slow(delay_s)
        self._wait(for_s)
        for one in slow:
            for link in self._database.links[one]:
                link.slow(0)

    def _rolling_restart(self, number: int) -> None:
        self._say("all nodes are restarted one by one")
        count = len(self._cluster.daemons)
        for one in range(number, number + count):
            daemon = self._daemon(one % count)
            daemon.process.send_signal(signal.SIGTERM)
            self._until(lambda daemon=daemon: not daemon.process.running, READY_S)  # type: ignore[misc]
            assert daemon.process.popen.returncode == 0 or self._stood_still, daemon.logs()
            self._again(one % count)

    def _drain(self, number: int) -> None:
        daemon = self._daemon(number)
        self._say(f"node {number} is drained")
        self._until(lambda: self._post(daemon, f"/cluster/drain?node={number}"), DRAINED_S)
        self._until(
            lambda: all(unit["owner"] != number for unit in self._cluster.page(daemon)["units"]),
            DRAINED_S,
        )
        self._wait(self._uniform(0.2, 3))
        self._until(lambda: self._post(daemon, f"/cluster/resume?node={number}"), DRAINED_S)

    def _post(self, daemon: Daemon, path: str) -> bool:
        """False: the database does not answer the node."""
        request = urllib.request.Request(
            daemon.admin_url + path, method="POST", headers={"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                answer.read()
        except urllib.error.HTTPError as error:
            with error:
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise
                return False
        return True

    # The database -------------------------------------------------------------------------

    def _database_restart(self, _: int) -> None:
        killed, away_s = self._random.random() < 0.5, self._uniform(0, 2 * LEASE_S)
        self._say(f"the database {'crashes' if killed else 'stops'}, and is back after {away_s} s")
        self._database.stop(killed=killed)
        self._wait(away_s)
        self._database.go_on()

    def _sessions_end(self, _: int) -> None:
        times = self._random.randint(1, 4)
        ended = 0
        for _ in range(times):
            ended += self._database.end_sessions(self._random)
            self._wait(self._uniform(0.1, 1.5))
        self._say(f"{ended} sessions of the database were ended")

    def _fail_over(self, _: int) -> None:
        self._say("the standby takes the place of the database")
        self._database.promote()
        self._wait(self._uniform(2 * LEASE_S, 4 * LEASE_S))
        self._database.add_standby()

    def _until(self, condition: Callable[[], object], timeout_s: float) -> None:
        patience = Patience(self._stills, timeout_s, self.before_s)
        while not condition():
            self._wait(POLL_S)
            if patience.over:
                raise WaitTimeout(f"not within {timeout_s} s\n{self._cluster.logs()}")
