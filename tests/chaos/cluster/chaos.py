"""Three nodes over a PostgreSQL with a synchronous standby, clients of three languages on both
protocols, and events that are drawn from a seed. How far everybody is when something happens is up
to the machine. Afterwards all is left in peace, and must be served within `SERVED_S`.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random

from tests.chaos.cluster.auditor import Auditor
from tests.chaos.cluster.caller import Address
from tests.chaos.cluster.database import Database
from tests.chaos.cluster.events import KINDS, Events
from tests.chaos.cluster.ledger import Commit, Ledger, two_owners, wrong_in_log
from tests.chaos.cluster.log_witness import install, logged, tails
from tests.chaos.cluster.machine import CalmThreads, Patience, StandStills
from tests.chaos.cluster.raw_group import RawGroup
from tests.clients.exactly_once import Feeder, Topology, compare
from tests.clients.group import BY_NAME, Group
from tests.clients.topic_reader import Reader
from tests.support.cluster import NODES, ClusterOfDaemons
from tests.support.peer import FAST_SETTINGS
from tests.support.process import POLL_S, WaitTimeout, wait_until
from tests.support.raw_member import topic_ids

PARTITIONS = 6
TOPICS = {"in": PARTITIONS, "out": PARTITIONS, "raw": 12}
RECORDS_PER_S = 60
RECORDS_WAITING = 9
"""With so many that are not acknowledged no more are given for now: an idempotent producer of
librdkafka with many may take the processors away from everybody (docs/clients.md). So many are
still three requests for each node."""

SESSION_MS, TRANSACTION_MS = 12_000, 15_000
SETTINGS = {
    **FAST_SETTINGS,
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    # The witness joins its notes to batches as they were written.
    "log.cleaner.backoff.ms": "86400000",
}
RAW_GROUPS = 3
FLAVOURS = {
    "consumer": ("confluent-consumer-uniform", "java-consumer-uniform", "franz-consumer-uniform"),
    "classic": ("confluent-classic-range", "java-classic-range", "franz-classic-range"),
}
PAUSE_S = (0.3, 4.0)
STEP_S = 0.02
JUDGED_S = 5.0
"""How much later than an answer what came before it is known: the clients tell through pipes."""

SERVED_S = 30.0
"""How long after the last event everything must be served again."""

FINISH_S = 120.0


class ClusterChaos:
    """`run` makes it all happen, once. `workers`: clients with exactly-once loops, by client;
    `kinds`: what happens, by weight. Close it afterwards."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        workers: Sequence[str] = (),
        kinds: Mapping[str, int] = KINDS,
    ) -> None:
        self.happened: Counter[str] = Counter()
        self.ledger = Ledger()
        self.served_s = 0.0
        """How long it took after the last event until all was served."""
        self._random = Random(seed)
        self._directory = directory
        self._workers, self._kinds = workers, dict(kinds)
        self._database = Database(NODES)
        self._cluster = ClusterOfDaemons(directory, "", count=0, topics=TOPICS, settings=SETTINGS)
        self._groups: list[Group] = []
        self._raw: list[RawGroup] = []
        self._told: Counter[str] = Counter()
        self._auditor: Auditor | None = None
        self._feeder: Feeder | None = None
        self._reader: Reader | None = None
        self._topology: Topology | None = None
        self._stills = StandStills()
        self._stills.start()
        self._calm = CalmThreads()
        self._calm.start()
        self._began = self._fed_at = 0.0
        self._feeding = True
        self._said: list[str] = []

    # Start --------------------------------------------------------------------------------

    def start(self) -> None:
        """Everything runs, and each group has its partitions."""
        self._database.start()
        for number in range(NODES):
            self._cluster.add(self._database.url(number))
        first, *others = self._cluster.daemons
        first.start()
        install(self._database)
        for daemon in others:
            daemon.start()
        self._cluster.settled()
        self._begin_clients()
        self._fed_at = self._began = time.monotonic()
        members = [member for group in self._groups for member in group.members.values()]
        wait_until(lambda: all(one.owned for one in members), 60, "partitions for all", self.logs)

    def _begin_clients(self) -> None:
        bootstrap = self._cluster.bootstrap
        if self._workers:
            self._topology = topology = Topology(
                bootstrap, self._directory, "eos", "in", "out", PARTITIONS,
                session_timeout_ms=SESSION_MS, transaction_timeout_ms=TRANSACTION_MS, work_ms=25,
            )  # fmt: skip
            self._feeder = topology.feeder
            for number, client in enumerate(self._workers):
                protocol = "classic" if number % 2 else "consumer"
                topology.start(client, "consumer", f"x{number}-{protocol}", "cooperative-sticky")
        else:
            self._feeder = Feeder(bootstrap, "in", PARTITIONS)
        self._reader = Reader(bootstrap, "in", PARTITIONS, "read_committed")
        for name, flavours in FLAVOURS.items():
            group = Group(BY_NAME[flavours[0]], bootstrap, name, self._directory)
            self._groups.append(group)
            for flavour in flavours:
                group.spawn({"in": PARTITIONS}, commit="each", flavour=BY_NAME[flavour])
        raw_id = topic_ids(self._cluster.daemons[0])["raw"]
        for number in range(RAW_GROUPS):
            random = Random(self._random.random())
            raw = RawGroup(
                f"raw-{number}", "raw", raw_id, TOPICS["raw"], self._nodes, self.ledger, random
            )
            self._raw.append(raw)
            raw.start()
        topics = {group.group_id: "in" for group in self._groups}
        topics |= {raw.group: "raw" for raw in self._raw}
        self._auditor = Auditor(topics, TOPICS, self._nodes, self.ledger)
        self._auditor.start()

    def _nodes(self) -> Sequence[Address]:
        return [(daemon.host, daemon.port) for daemon in self._cluster.daemons]

    # Chaos --------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        """Fails unless the ledger is without fault and all is served in the end."""
        self.start()
        events = Events(
            self._cluster, self._database, self._random, self._wait, self._say, self._stills
        )
        first = self._random.sample(
            list(self._kinds), len(self._kinds)
        )  # each once, then by weight
        while first or time.monotonic() < self._began + seconds:
            self._wait(self._random.uniform(*PAUSE_S))
            drawn = self._random.choices(list(self._kinds), list(self._kinds.values()))[0]
            kind = first.pop() if first else drawn
            events.happen(kind)
            self.happened[kind] += 1
        self._finish(events.before_s)

    @property
    def given(self) -> int:
        """Records for the exactly-once loops and the groups of clients."""
        return self._feeder.given if self._feeder is not None else 0

    def _tails(self) -> str:
        try:
            return tails(self._database)
        except Exception as error:  # noqa: BLE001 - the database may be away
            return f"no logs of topics: {error!r}"

    def _wait(self, seconds: float) -> None:
        """Lets time go by: records are given, and what was told is judged."""
        until = time.monotonic() + seconds
        while True:
            assert self._feeder is not None
            assert self._reader is not None
            now = time.monotonic()
            due = int((now - self._fed_at) * RECORDS_PER_S)
            if due:
                if self._feeding and self._feeder.waiting < RECORDS_WAITING:
                    self._feeder.feed(due)
                self._fed_at += due / RECORDS_PER_S
            self._reader.read(0)
            if self._topology is not None:
                self._topology.revive()
            self._take_in()
            self.ledger.judge(now - JUDGED_S)
            assert self.ledger.faults == [], "\n".join(self.ledger.faults[:20])
            if now >= until:
                return
            time.sleep(min(STEP_S, max(until - now, 0)))

    def _take_in(self) -> None:
        """Commits of the clients, for the ledger."""
        for group in self._groups:
            told, known = len(group.committed), self._told[group.group_id]
            for one in group.committed[known:told]:
                for topic, part, offset in one.places:
                    self.ledger.acknowledged(
                        Commit(group.group_id, topic, part, offset, one.at, one.at)
                    )
            self._told[group.group_id] = told

    # The end ------------------------------------------------------------------------------

    def _until(self, condition: Callable[[], bool], patience: Patience, what: str) -> None:
        """Waits while nothing more happens."""
        while not condition():
            if patience.over:
                raise WaitTimeout(f"not within {SERVED_S} s: {what}\n{self.logs()}")
            time.sleep(POLL_S)

    def _finish(self, before_s: float) -> None:
        """`before_s`: how long the machine had stood still before the last event but one."""
        assert self._feeder is not None
        assert self._reader is not None
        over, patience = time.monotonic(), Patience(self._stills, SERVED_S, before_s)
        counts = [raw.commits for raw in self._raw]
        self._until(self._cluster.is_settled, patience, "settled nodes")
        self._until(
            lambda: all(raw.commits > count for raw, count in zip(self._raw, counts, strict=True)),
            patience,
            "commits of all raw groups",
        )
        # A client that could not commit may do so only with its next record.
        self._until(lambda: self._feeder.waiting < RECORDS_WAITING, patience, "room for records")
        self._wait(1.0)
        self._feeding = False
        self._feeder.flush()
        self._caught_up(patience)
        self.served_s = time.monotonic() - over
        for raw in self._raw:
            raw.stop()
        faults = compare(self._feeder.expected(), self._reader.read_to_the_end(FINISH_S))
        if self._topology is not None:
            self._topology.finish(FINISH_S)
        self._wait(1.0)  # the auditor comes round once more
        assert self._auditor is not None
        self._auditor.stop()
        self._stop_clients()
        self._take_in()
        self.ledger.judge(time.monotonic())
        for group in self._groups:
            faults += [f"{group.group_id}: {fault}" for fault in two_owners(group.moves)]
            faults += self._unseen(group)
        shards = {raw.shard for raw in self._raw}
        self._cluster.stop()
        faults += wrong_in_log(self.ledger.commits, logged(self._database, shards))
        faults += self.ledger.faults
        for number, daemon in enumerate(self._cluster.daemons):
            if "Traceback" in (daemon.directory / "groupd.log").read_text():
                faults.append(f"node {number} has a traceback in its log")
        assert faults == [], "\n".join(faults[:40])

    def _caught_up(self, patience: Patience) -> None:
        """Waits until each group has committed all that was given, as the auditor is told: members
        need not know of a commit whose answer was lost."""
        assert self._feeder is not None
        wanted = {part: len(its) for part, its in self._feeder.expected().items()}

        def done() -> bool:
            newest = self.ledger.newest
            return all(
                newest.get((group.group_id, "in", part), 0) == end
                for group in self._groups
                for part, end in wanted.items()
            )

        self._until(done, patience, f"commits up to {wanted}")

    def _stop_clients(self) -> None:
        for group in self._groups:
            for process in group.processes:
                if process.running:
                    group.stop(process)

    def _unseen(self, group: Group) -> list[str]:
        """Records that a group was never given."""
        assert self._feeder is not None
        seen = set(group.seen())
        missing = [
            ("in", part, offset)
            for part, its in self._feeder.expected().items()
            for offset in range(len(its))
            if ("in", part, offset) not in seen
        ]
        return [f"{group.group_id}: {len(missing)} not seen: {missing[:5]}"] if missing else []

    # What is shown ------------------------------------------------------------------------

    def _say(self, text: str) -> None:
        self._said.append(f"{time.strftime('%H:%M:%S')} {text}")
        print(self._said[-1], flush=True)

    def summary(self) -> str:
        assert self._feeder is not None
        happened = ", ".join(f"{count} {kind}" for kind, count in sorted(self.happened.items()))
        commits = sum(self._told.values())
        return (
            f"{self._feeder.given} records, {commits} commits of clients, "
            f"{len(self.ledger.commits)} of raw members, {self.ledger.fetches} offsets asked for; "
            f"{happened}; served {self.served_s:.1f} s after the last event; the machine stood "
            f"still for {self._stills.total_s:.1f} s"
        )

    def logs(self) -> str:
        told = [group.describe() for group in self._groups]
        if self._topology is not None:
            told.append(self._topology.describe())
        return "\n".join(
            [*self._said, self._tails(), *told, self._cluster.logs(), self._database.logs()]
        )

    def close(self) -> None:
        self._stills.stop()
        self._calm.stop()
        for raw in self._raw:
            raw.stop()
        if self._auditor is not None:
            self._auditor.stop()
        for group in self._groups:
            group.close()
        if self._reader is not None:
            self._reader.close()
        if self._topology is not None:
            self._topology.close()
        self._cluster.close()
        self._database.close()
