"""Three workers that read, process and write exactly once, killed at random, and the daemon, too.

What happens, to whom and after which pause is drawn from the seed; how far everybody is at such a
moment is up to the machine. Afterwards everything is left in peace until the output is complete.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random

from tests.clients.exactly_once import Topology, Worker
from tests.support.admin import create_topics
from tests.support.daemon import Daemon
from tests.support.metrics import samples
from tests.support.peer import make_peer

PARTITIONS = 6
RECORDS_PER_S = 150
SESSION_MS, TRANSACTION_MS = 3_000, 6_000
SETTINGS = {
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
KINDS = {"kill": 8, "stop": 2, "freeze": 5, "daemon": 4}
"""What happens, by weight: a worker is killed, leaves, or stands still until others may have its
partitions and its transaction is aborted; the daemon is killed."""
PAUSE_S, FREEZE_S = (0.3, 2.0), (2.0, 8.0)
WORST_MOMENT = 0.7
"""How often a worker freezes right before it ends a transaction, and not just anywhere."""
SAME_ID = 0.6
"""How often the next worker has the transactional id of the one before, and so fences it; otherwise
what that one has left waits for its timeout."""
VICTIM_S = 15.0
"""How long to wait for a worker that has committed something in its life."""
FINISH_S = 300.0
STEP_S = 0.02


class Chaos:
    """`run` makes it all happen, once. Close it afterwards."""

    def __init__(
        self,
        directory: Path,
        seed: int,
        clients: Sequence[str],
        protocol: str,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.happened: Counter[str] = Counter()
        self.transactions: Counter[str] = Counter()
        """The transactions that the daemon has counted; those that ended right before it was killed
        are missing."""
        self.given = self.written = self.discarded = 0
        self._random = Random(seed)
        self._clients, self._protocol = clients, protocol
        self._directory = directory
        self._peer = make_peer(directory / "peer", settings={**SETTINGS, **(settings or {})})
        self._slots: list[Worker] = []
        self._ids = [f"x{slot}" for slot in range(len(clients))]
        self._frozen: dict[int, float] = {}
        self._topology: Topology | None = None

    def run(self, seconds: float) -> None:
        """Fails unless the output is the input and no transaction is left open."""
        self._peer.start()
        create_topics(self._peer.bootstrap, {"in": PARTITIONS, "out": PARTITIONS})
        self._topology = topology = Topology(
            self._peer.bootstrap,
            self._directory,
            "eos",
            "in",
            "out",
            PARTITIONS,
            session_timeout_ms=SESSION_MS,
            transaction_timeout_ms=TRANSACTION_MS,
            work_ms=25,
        )
        self._slots = [self._start(slot) for slot in range(len(self._clients))]
        self._rampage(topology, seconds)
        for slot in list(self._frozen):
            self._thaw(slot)
        everything = topology.finish(FINISH_S)
        self._count_transactions()
        self.given = topology.feeder.given
        self.written = sum(map(len, topology.output.values.values()))
        self.discarded = sum(map(len, everything.values())) - self.written
        self._peer.stop()

    def _rampage(self, topology: Topology, seconds: float) -> None:
        first = self._random.sample(list(KINDS), len(KINDS))  # each once, then by weight
        kind = first.pop()
        began = time.monotonic()
        next_at, waiting_since = began + self._random.uniform(*PAUSE_S), 0.0
        while (now := time.monotonic()) < began + seconds or set(self.happened) != set(KINDS):
            topology.feeder.feed(int((now - began) * RECORDS_PER_S) - topology.feeder.given)
            topology.revive()
            for slot in [slot for slot, until in self._frozen.items() if until <= now]:
                self._thaw(slot)
            for worker in self._slots:
                assert worker.process.running, topology.describe()
            time.sleep(STEP_S)
            if now < next_at:
                continue
            waiting_since = waiting_since or now
            if not self._happens(kind, patient=now < waiting_since + VICTIM_S):
                continue
            self.happened[kind] += 1
            drawn = self._random.choices(list(KINDS), list(KINDS.values()))[0]
            kind = first.pop() if first else drawn
            next_at, waiting_since = time.monotonic() + self._random.uniform(*PAUSE_S), 0.0

    def _happens(self, kind: str, *, patient: bool) -> bool:
        """Does it to somebody; false if there is nobody yet for whom it is worth it."""
        if kind == "daemon":
            self._count_transactions()
            self._peer.restart()
            return True
        slots = [
            slot
            for slot, worker in enumerate(self._slots)
            if slot not in self._frozen and (worker.events["committed"] or not patient)
        ]
        if not slots:
            return False
        slot = self._random.choice(slots)
        worker = self._slots[slot]
        if kind == "freeze":
            if self._random.random() < WORST_MOMENT:
                worker.freeze()
            else:
                worker.process.send_signal(signal.SIGSTOP)
            self._frozen[slot] = time.monotonic() + self._random.uniform(*FREEZE_S)
            return True
        if kind == "kill":
            worker.kill()
        else:
            worker.stop()
        if self._random.random() > SAME_ID:
            self._ids[slot] += "+"
        self._slots[slot] = self._start(slot)
        return True

    def _start(self, slot: int) -> Worker:
        assert self._topology is not None
        return self._topology.start(
            self._clients[slot], self._protocol, self._ids[slot], "cooperative-sticky"
        )

    def _thaw(self, slot: int) -> None:
        del self._frozen[slot]
        self._slots[slot].thaw()

    def _count_transactions(self) -> None:
        if isinstance(self._peer, Daemon):
            for sample in samples(self._peer.admin_url, "groupd_transactions_total"):
                self.transactions[sample.labels["result"]] += int(sample.value)

    def summary(self) -> str:
        happened = ", ".join(f"{count} {kind}" for kind, count in sorted(self.happened.items()))
        ended = ", ".join(f"{count} {what}" for what, count in sorted(self.transactions.items()))
        assert self._topology is not None
        anew, stuck = self._topology.told("anew")[0], self._topology.told("stuck")[0]
        return (
            f"{self.given} records in, {self.written} out, {self.discarded} more of aborted "
            f"transactions; {happened}; transactions: {ended}; {anew} fatal errors of clients, "
            f"{stuck} clients were stuck"
        )

    def logs(self) -> str:
        told = self._topology.describe() if self._topology is not None else ""
        return f"{told}\n{self._peer.logs()}"

    def close(self) -> None:
        if self._topology is not None:
            self._topology.close()
        self._peer.close()
