"""`groupd demo`: the script, the live picture and the summary."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import typer

from groupd.coordinator.cli.process import DaemonProcess

GROUP, TOPIC, PARTITIONS = "demo", "orders", 12
RATE_PER_S = 300
JOIN_AT_S = (0.5, 5.0, 9.0)
KILL_AT_S = 14.0
STOP_PRODUCING_AT_S = 28.0
END_AT_S = 45.0
LOOK_EVERY_S = 0.2
SETTINGS = (
    "group.consumer.min.session.timeout.ms=6000",
    "group.consumer.session.timeout.ms=6000",
    "group.consumer.min.heartbeat.interval.ms=1000",
    "group.consumer.heartbeat.interval.ms=1000",
    "group.consumer.assignment.interval.ms=0",
)


def demo() -> None:
    """Run three consumers, kill one without goodbye, and watch the others take over.

    Starts its own daemon on a free port; needs the extra `groupd[demo]`.
    """
    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        print('groupd: the demo needs a client: pip install "groupd[demo]"', file=sys.stderr)
        raise typer.Exit(2) from None
    flags = [flag for item in SETTINGS for flag in ("--set", item)]
    with (
        tempfile.TemporaryDirectory(prefix="groupd-demo-") as directory,
        DaemonProcess(
            "--topic", f"{TOPIC}:{PARTITIONS}", *flags, data_dir=Path(directory)
        ) as daemon,
    ):
        raise typer.Exit(Demo(daemon).run())


class Producer(threading.Thread):
    """Produces `RATE_PER_S` records a second until told to stop."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(name="demo-producer")
        self._servers = bootstrap
        self._stop_asked = threading.Event()
        self.produced = 0

    def run(self) -> None:
        from confluent_kafka import Producer as KafkaProducer

        producer = KafkaProducer({"bootstrap.servers": self._servers, "linger.ms": 20})
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
    """Runs the script and keeps its log."""

    def __init__(self, daemon: DaemonProcess) -> None:
        from groupd.coordinator.cli.demo.watch import Snapshot, Watcher

        self._bootstrap = f"{daemon.kafka[0]}:{daemon.kafka[1]}"
        self._watcher = Watcher(self._bootstrap, daemon.admin, GROUP, TOPIC, PARTITIONS)
        self._producer = Producer(self._bootstrap)
        self._members: dict[str, subprocess.Popen[bytes]] = {}
        self._log: list[tuple[float, str]] = []
        self._shot = Snapshot()
        self._started = 0.0
        self._taken_over_s: float | None = None

    def run(self) -> int:
        """The exit code: 0 when every record was committed by the survivors."""
        from rich.live import Live

        from groupd.coordinator.cli.demo.picture import picture

        self._started = time.monotonic()
        self._producer.start()
        try:
            with Live(refresh_per_second=4) as live:
                while not self._step():
                    live.update(picture(self._shot, self._log, self._elapsed()))
                    time.sleep(LOOK_EVERY_S)
        finally:
            self._producer.stop()
            for process in self._members.values():
                process.terminate()
            for process in self._members.values():
                process.wait(10)
            self._watcher.close()
        return self._summary()

    def _elapsed(self) -> float:
        return time.monotonic() - self._started

    def _step(self) -> bool:
        """One round: act when it is time, look; True at the end."""
        now = self._elapsed()
        for number, at in enumerate(JOIN_AT_S, start=1):
            if now >= at and f"consumer-{number}" not in self._members:
                self._join(f"consumer-{number}")
        victim = self._members.get("consumer-2")
        if now >= KILL_AT_S and victim is not None and victim.poll() is None:
            victim.kill()
            victim.wait()
            self._note("consumer-2 killed without goodbye (kill -9)")
        if now >= STOP_PRODUCING_AT_S and self._producer.is_alive():
            self._producer.stop()
            self._note(f"producer stopped after {self._producer.produced} records")
        before = self._shot
        self._shot = self._watcher.look()
        self._compare(before, now)
        done = not self._producer.is_alive() and self._shot.lag == 0
        return done or now >= END_AT_S

    def _join(self, name: str) -> None:
        command = [sys.executable, "-m", "groupd.coordinator.cli.demo.member"]
        self._members[name] = subprocess.Popen(
            [*command, self._bootstrap, GROUP, TOPIC, name],
            stderr=subprocess.DEVNULL,
        )
        self._note(f"{name} starts")

    def _compare(self, before: Any, now: float) -> None:
        if self._shot.group_epoch != before.group_epoch:
            self._note(f"group epoch {before.group_epoch} -> {self._shot.group_epoch}")
        if self._shot.state != before.state:
            self._note(f"group is {self._shot.state}")
        owned = self._shot.owned()
        survivors = {"consumer-1", "consumer-3"}
        moved = len(owned) == PARTITIONS and set(owned.values()) <= survivors
        if now > KILL_AT_S and moved and self._taken_over_s is None:
            self._taken_over_s = now - KILL_AT_S
            self._note("the survivors own all partitions")

    def _note(self, text: str) -> None:
        self._log.append((self._elapsed(), text))

    def _summary(self) -> int:
        from rich.console import Console

        console = Console(highlight=False)
        for at, text in self._log:
            console.print(f"{at:6.1f} s  {text}")
        produced, committed = self._producer.produced, sum(self._shot.committed.values())
        complete = committed == produced and self._taken_over_s is not None
        if self._taken_over_s is not None:
            console.print(f"Takeover after the kill: {self._taken_over_s:.1f} s (session 6 s).")
        console.print(f"Produced {produced} records; committed {committed}; lag {self._shot.lag}.")
        console.print("Every record was consumed." if complete else "The demo did NOT complete.")
        return 0 if complete else 1
