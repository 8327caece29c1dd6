"""Three consumers share twelve partitions; one is killed, and the other two take over.

Usage: `python examples/demo/demo.py`, in an environment with groupd and confluent-kafka (`make
demo` sets that up). The broker runs in memory, in a process of its own, on a free port. The exit
code is 0 when the survivors have consumed every record.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Producer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

from groupd.testing import GroupCoordinator, HarnessError, Member

GROUP, TOPIC, PARTITIONS = "demo", "orders", 12
CONSUMER = Path(__file__).with_name("consumer.py")
RATE_PER_S = 300
JOIN_AT_S = {"consumer-1": 0.5, "consumer-2": 5.0, "consumer-3": 9.0}
VICTIM = "consumer-2"
KILL_AT_S = 14.0
STOP_PRODUCING_AT_S = 28.0
END_AT_S = 45.0
LOOK_EVERY_S = 0.2
LOG_LINES = 8
SETTINGS = {
    "group.consumer.session.timeout.ms": 6000,
    "group.consumer.heartbeat.interval.ms": 1000,
}


@dataclass(slots=True)
class Snapshot:
    """The group at one moment. `committed` and `lag`: by partition."""

    state: str = "-"
    group_epoch: int = 0
    assignment_epoch: int = 0
    members: list[Member] = field(default_factory=list)
    committed: dict[int, int] = field(default_factory=dict)
    lag: dict[int, int] = field(default_factory=dict)

    def owners(self) -> dict[int, str]:
        """Partition -> client id of the member that owns it."""
        return {
            partition: member["client_id"]
            for member in self.members
            for partitions in member["owned"].values()
            for partition in partitions
        }


def look(broker: GroupCoordinator) -> Snapshot:
    """The group now; an empty snapshot as long as there is no group that consumes the topic."""
    try:
        group = broker.describe(GROUP)
        return Snapshot(
            group["state"],
            group["group_epoch"],
            group["assignment_epoch"],
            sorted(group["members"], key=lambda member: member["client_id"]),
            {partition: offset for (_, partition), offset in broker.committed(GROUP).items()},
            {partition: behind for (_, partition), behind in broker.lag(GROUP).items()},
        )
    except HarnessError:
        return Snapshot()


class OrderProducer(threading.Thread):
    """Produces `RATE_PER_S` records a second until it is told to stop."""

    def __init__(self, servers: str) -> None:
        super().__init__(name="demo-producer")
        self._servers = servers
        self._stop_asked = threading.Event()
        self.produced = 0

    def run(self) -> None:
        producer = Producer({"bootstrap.servers": self._servers, "linger.ms": 20})
        while not self._stop_asked.wait(0.1):
            for _ in range(RATE_PER_S // 10):
                producer.produce(TOPIC, key=str(self.produced), value=f"order {self.produced}")
                self.produced += 1
            producer.poll(0)
        producer.flush(10)

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()


class Demo:
    """Does what the constants above say when it is time, and keeps a log of what happened."""

    def __init__(self, broker: GroupCoordinator) -> None:
        self._broker = broker
        self._producer = OrderProducer(broker.bootstrap_servers)
        self._consumers: dict[str, subprocess.Popen[bytes]] = {}
        self._log: list[tuple[float, str]] = []
        self._snapshot = Snapshot()
        self._started = 0.0
        self._taken_over_s: float | None = None

    def run(self) -> int:
        """Runs the demo; the exit code."""
        self._started = time.monotonic()
        self._producer.start()
        try:
            with Live(refresh_per_second=4) as live:
                while not self._step():
                    live.update(picture(self._snapshot, self._log, self._elapsed()))
                    time.sleep(LOOK_EVERY_S)
        finally:
            self._producer.stop()
            for process in self._consumers.values():
                process.terminate()
            for process in self._consumers.values():
                process.wait(10)
        return self._summary()

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _step(self) -> bool:
        """Acts where it is time, then looks. True when the demo is over."""
        now = self._elapsed()
        for name, at in JOIN_AT_S.items():
            if now >= at and name not in self._consumers:
                self._start(name)
        victim = self._consumers.get(VICTIM)
        if now >= KILL_AT_S and victim is not None and victim.poll() is None:
            victim.kill()
            victim.wait()
            self._note(f"{VICTIM} killed without goodbye (kill -9)")
        if now >= STOP_PRODUCING_AT_S and self._producer.is_alive():
            self._producer.stop()
            self._note(f"producer stopped after {self._producer.produced} records")
        before, self._snapshot = self._snapshot, look(self._broker)
        self._note_changes(before, now)
        consumed = sum(self._snapshot.committed.values()) == self._producer.produced
        return (consumed and not self._producer.is_alive()) or now >= END_AT_S

    def _start(self, name: str) -> None:
        command = [sys.executable, str(CONSUMER), self._broker.bootstrap_servers]
        self._consumers[name] = subprocess.Popen(
            [*command, GROUP, TOPIC, name], stderr=subprocess.DEVNULL
        )
        self._note(f"{name} starts")

    def _note_changes(self, before: Snapshot, now: float) -> None:
        after = self._snapshot
        if after.group_epoch != before.group_epoch:
            self._note(f"group epoch {before.group_epoch} -> {after.group_epoch}")
        if after.state != before.state:
            self._note(f"group is {after.state}")
        owners = after.owners()
        moved = len(owners) == PARTITIONS and VICTIM not in owners.values()
        if now > KILL_AT_S and moved and self._taken_over_s is None:
            self._taken_over_s = now - KILL_AT_S
            self._note("the survivors own all partitions")

    def _note(self, text: str) -> None:
        self._log.append((self._elapsed(), text))

    def _summary(self) -> int:
        console = Console(highlight=False)
        for at, text in self._log:
            console.print(f"{at:6.1f} s  {text}")
        produced, committed = self._producer.produced, sum(self._snapshot.committed.values())
        complete = committed == produced and self._taken_over_s is not None
        if self._taken_over_s is not None:
            console.print(f"Takeover after the kill: {self._taken_over_s:.1f} s (session 6 s).")
        console.print(f"Produced {produced} records; committed {committed}.")
        console.print("Every record was consumed." if complete else "The demo did NOT complete.")
        return 0 if complete else 1


def picture(snapshot: Snapshot, log: list[tuple[float, str]], elapsed_s: float) -> RenderableType:
    """Members with epochs and partitions, offsets with lag, and what happened last."""
    title = (
        f"group {GROUP}: {snapshot.state}   group epoch {snapshot.group_epoch}   "
        f"assignment epoch {snapshot.assignment_epoch}   {elapsed_s:.0f} s"
    )
    members = Table(expand=True, box=None)
    for column in ("member", "epoch", "owns", "target"):
        members.add_column(column)
    for member in snapshot.members:
        epoch = str(member["member_epoch"])
        owned, target = _partitions(member["owned"]), _partitions(member["target"])
        members.add_row(member["client_id"], epoch, owned, target)
    offsets = Table(expand=True, box=None)
    offsets.add_column("partition")
    for partition in range(PARTITIONS):
        offsets.add_column(str(partition), justify="right")
    for name, values in (("committed", snapshot.committed), ("lag", snapshot.lag)):
        offsets.add_row(name, *(str(values.get(p, "-")) for p in range(PARTITIONS)))
    events = "\n".join(f"{at:6.1f} s  {text}" for at, text in log[-LOG_LINES:])
    return Group(Panel(members, title=title), offsets, Panel(events, title="events"))


def _partitions(topics: dict[str, list[int]]) -> str:
    return " ".join(str(p) for partitions in topics.values() for p in partitions) or "-"


def main() -> int:
    with GroupCoordinator.start({TOPIC: PARTITIONS}, SETTINGS, process=True) as broker:
        return Demo(broker).run()


if __name__ == "__main__":
    sys.exit(main())
