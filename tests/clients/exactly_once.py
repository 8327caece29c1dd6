"""A topology that reads, processes and writes exactly once: what feeds it, its workers, the judge.

The workers copy every record into the same partition of another topic. So the output, read with
read_committed, must be the input, partition by partition and in order, whatever was killed
meanwhile.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.clients.drivers.confluent_processor import STUCK_EXIT
from tests.clients.topic_reader import Reader, Values
from tests.support.admin import commit
from tests.support.process import ChildProcess, WaitTimeout, wait_until
from tests.support.toolchain import go_driver, java_driver

ROOT = Path(__file__).resolve().parents[2]
REQUEST_S = 10.0
STOP_S = 60.0
PROGRAMS: dict[str, Callable[[], list[str]]] = {
    "confluent": lambda: [sys.executable, "-m", "tests.clients.drivers.confluent_processor"],
    "java": lambda: [*java_driver(), "process"],
    "franz": lambda: [go_driver(), "franz-process"],
}
"""The workers' commands by client. Those that are not asked for need not be built."""
CLIENTS = tuple(PROGRAMS)


def compare(given: Values, found: Values) -> list[str]:
    """What is wrong with the output `found` of the input `given`: lost, doubled, out of order."""
    faults = []
    for part, values in sorted(given.items()):
        its = found.get(part, [])
        twice = sorted(value for value, count in Counter(its).items() if count > 1)
        lost = sorted(set(values) - set(its))
        foreign = sorted(set(its) - set(values))
        for what, wrong in (("lost", lost), ("twice", twice), ("foreign", foreign)):
            if wrong:
                faults.append(f"partition {part}: {len(wrong)} {what}: {wrong[:10]}")
        if not (lost or twice or foreign) and its != values:
            at = next(n for n, pair in enumerate(zip(its, values, strict=True)) if len({*pair}) > 1)
            faults.append(f"partition {part}: out of order from {at}: {its[at : at + 10]}")
    return faults


class Feeder:
    """Gives a topic its records, the numbers from 0, round-robin and exactly once."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.given = 0
        self._topic, self._partitions = topic, partitions
        self._errors: list[str] = []
        self._lock = threading.Lock()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "metadata.recovery.strategy": "none",  # see docs/clients.md
                "reconnect.backoff.max.ms": 500,
                "linger.ms": 5,
                "log_level": 0,
            }
        )

    def feed(self, count: int) -> None:
        with self._lock:
            for number in range(self.given, self.given + count):
                self._producer.produce(
                    self._topic,
                    str(number).encode(),
                    partition=number % self._partitions,
                    on_delivery=self._delivered,
                )
            self.given += count
            self._producer.poll(0)

    @property
    def waiting(self) -> int:
        """Records that were given and are not acknowledged yet."""
        self._producer.poll(0)
        return len(self._producer)

    def _delivered(self, error: object, _: object) -> None:
        if error is not None:
            self._errors.append(str(error))

    def flush(self) -> None:
        """Waits until all is written."""
        left = self._producer.flush(60)
        assert (left, self._errors) == (0, []), f"{left} records left, {self._errors[:5]}"

    def expected(self) -> Values:
        return {
            part: list(range(part, self.given, self._partitions))
            for part in range(self._partitions)
        }


class Worker:
    """A process that works, and what it has told. One that has ended because its client was stuck
    is started again by `revive`, as a service manager would."""

    def __init__(self, name: str, command: Sequence[str], log: Path) -> None:
        self.name = name
        self.events: Counter[str] = Counter()
        self.records: Counter[str] = Counter()
        """How many transactions (`events`) and records were `committed` or `aborted`."""
        self.owned: list[int] = []
        self.told: list[str] = []
        self._freezing = False
        self._command, self._log = command, log
        self.process = self._start()

    def _start(self) -> ChildProcess:
        return ChildProcess(
            self._command,
            stderr_path=self._log,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
            cwd=ROOT,
            on_line=self._on_line,
        )

    def _on_line(self, line: str) -> None:
        event = json.loads(line)
        kind = event["event"]
        self.events[kind] += 1
        self.records[kind] += event.get("records", 0)
        if kind == "assignment":
            self.owned = event["owned"]
        elif kind == "offsets":
            if self._freezing:
                self.process.send_signal(signal.SIGSTOP)
        elif kind != "committed":
            self.told.append(f"{time.strftime('%H:%M:%S')} {line}")

    def revive(self) -> None:
        """Start it again, with the same transactional id, if it was stuck."""
        if not self.process.running and self.process.popen.returncode == STUCK_EXIT:
            self.process.close()
            self.process = self._start()

    def stop(self) -> None:
        """Sends SIGTERM: the worker commits what is open, leaves and exits 0 (143 from a JVM). Or
        it is stuck, and leaves that to the others. One that does not end tells where it stands."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait_exit(STOP_S)
        except WaitTimeout:
            self.process.send_signal(signal.SIGUSR1)
            time.sleep(1)  # the stacks are written by a signal handler, whose end cannot be awaited
            raise AssertionError(f"{self.describe()}\n{self.process.output()}") from None
        if code == STUCK_EXIT:
            return
        assert code in (0, 143), self.describe()
        assert self.events["closed"] == 1, self.describe()

    def freeze(self) -> None:
        """Sends SIGSTOP at the worst moment: with offsets in a transaction that is about to end."""
        self._freezing = True

    def thaw(self) -> None:
        self._freezing = False
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()

    def describe(self) -> str:
        told = "\n".join(self.told[-15:])
        running = "runs" if self.process.running else f"ended {self.process.popen.returncode}"
        log = "\n".join(self.process.stderr().splitlines()[-10:])
        return f"-- {self.name} {running}, owned {self.owned}, {dict(self.events)}\n{told}\n{log}"


class Topology:
    """A group of workers from `source` to `target`, which has committed the beginning of all
    partitions. Close it afterwards."""

    def __init__(
        self,
        bootstrap: str,
        directory: Path,
        group: str,
        source: str,
        target: str,
        partitions: int,
        *,
        session_timeout_ms: int,
        transaction_timeout_ms: int,
        work_ms: int = 10,
    ) -> None:
        self.workers: list[Worker] = []
        commit(bootstrap, group, {(source, part): 0 for part in range(partitions)})
        self.feeder = Feeder(bootstrap, source, partitions)
        self.output = Reader(bootstrap, target, partitions, "read_committed")
        self._bootstrap, self._directory, self._partitions = bootstrap, directory, partitions
        self._group, self._source, self._target = group, source, target
        self._arguments = [
            *["--bootstrap", bootstrap, "--group", group, "--source", source, "--target", target],
            *["--session-timeout-ms", str(session_timeout_ms)],
            *["--transaction-timeout-ms", str(transaction_timeout_ms)],
            *["--records", "25", "--work-ms", str(work_ms)],
        ]

    def start(
        self, client: str, protocol: str, transactional_id: str, assignor: str = ""
    ) -> Worker:
        number = len(self.workers)
        worker = Worker(
            f"worker {number} {client} {transactional_id}",
            [
                *PROGRAMS[client](),
                *self._arguments,
                *["--protocol", protocol, "--transactional-id", transactional_id],
                *["--assignor", assignor],
            ],
            self._directory / f"worker-{number}.log",
        )
        self.workers.append(worker)
        return worker

    def told(self, event: str) -> tuple[int, int]:
        """How often the workers have told of it, and with how many records in all."""
        return (
            sum(worker.events[event] for worker in self.workers),
            sum(worker.records[event] for worker in self.workers),
        )

    def wait_written(self, count: int, timeout_s: float) -> None:
        """Waits until a committed reader has so many records."""

        def written() -> bool:
            self.revive()
            return self.output.read() >= count

        wait_until(written, timeout_s, f"{count} records in the output", self.describe)

    def revive(self) -> None:
        """Start workers again whose client was stuck."""
        for worker in self.workers:
            worker.revive()

    def finish(self, timeout_s: float) -> Values:
        """Waits until all that was given is written; then all workers leave. Returns what
        read_uncommitted reads.

        Fails unless the output is the input, no transaction is left open anywhere, and the group's
        offsets are the ends of the input."""
        self.feeder.flush()
        self.wait_written(self.feeder.given, timeout_s)
        for worker in self.workers:
            if worker.process.running:
                worker.stop()
        source = Reader(self._bootstrap, self._source, self._partitions, "read_uncommitted")
        everything = Reader(self._bootstrap, self._target, self._partitions, "read_uncommitted")
        try:
            given = source.read_to_the_end(timeout_s)
            assert given == self.feeder.expected(), "the input itself is not what was given"
            wait_until(
                lambda: self.output.ends() == everything.ends(),
                timeout_s,
                "no open transaction in the output",
                lambda: f"{self.output.ends()} of {everything.ends()}\n{self.describe()}",
            )
            faults = compare(given, self.output.read_to_the_end(timeout_s))
            assert faults == [], "\n".join([*faults, self.describe()])
            self._wait_committed(source.ends(), timeout_s)
            return everything.read_to_the_end(timeout_s)
        finally:
            source.close()
            everything.close()

    def _wait_committed(self, ends: dict[int, int], timeout_s: float) -> None:
        """Waits until the group's offsets are these and stable: a pending one raises."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self._group,
                "isolation.level": "read_committed",
                "log_level": 0,
            }
        )
        last: object = None

        def there() -> bool:
            nonlocal last
            asked = [TopicPartition(self._source, part) for part in ends]
            try:
                last = {at.partition: at.offset for at in consumer.committed(asked, REQUEST_S)}
            except KafkaException as error:
                last = error
            return last == ends

        try:
            wait_until(there, timeout_s, f"committed {ends}", lambda: f"{last}")
        finally:
            consumer.close()

    def describe(self) -> str:
        there = {part: len(values) for part, values in self.output.values.items()}
        shown = [worker.describe() for worker in self.workers[-8:]]
        return "\n".join([f"given {self.feeder.given}, in the output {there}", *shown])

    def close(self) -> None:
        self.output.close()
        for worker in self.workers:
            worker.process.close()
