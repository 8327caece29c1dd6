"""A consumer group under test: driver processes, and what their members have told so far."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.clients.drivers.driver import QUIET_S
from tests.support.admin import committed
from tests.support.peer import SESSION_TIMEOUT_MS
from tests.support.process import ChildProcess, wait_until
from tests.support.toolchain import go_driver, java_driver, node_driver

ROOT = Path(__file__).resolve().parents[2]
SETTLE_S = 60.0
MOVE_S = SESSION_TIMEOUT_MS / 1000 + SETTLE_S

TIMED_OUT_HEARTBEAT = re.compile(
    r"REQTMOUT\|confluent-(\d+)#.*Timed out ConsumerGroupHeartbeatRequest"
)
"""A line of librdkafka's log, with the number of the member."""

Partition = tuple[str, int]
Place = tuple[str, int, int]


@dataclass(frozen=True)
class Flavour:
    """One way of being a consumer: a client, a protocol, an assignor."""

    client: str
    protocol: str
    assignor: str

    @property
    def name(self) -> str:
        return f"{self.client}-{self.protocol}-{self.assignor}"


FLAVOURS = (
    Flavour("confluent", "consumer", "uniform"),
    Flavour("confluent", "consumer", "range"),
    Flavour("confluent", "classic", "range"),
    Flavour("confluent", "classic", "cooperative-sticky"),
    Flavour("java", "consumer", "uniform"),
    Flavour("java", "consumer", "range"),
    Flavour("java", "classic", "range"),
    Flavour("java", "classic", "cooperative-sticky"),
    Flavour("aiokafka", "classic", "range"),
    Flavour("aiokafka", "classic", "sticky"),
    Flavour("kafka_python", "classic", "range"),
    Flavour("franz", "consumer", "uniform"),
    Flavour("franz", "consumer", "range"),
    Flavour("franz", "classic", "range"),
    Flavour("franz", "classic", "cooperative-sticky"),
    Flavour("sarama", "classic", "range"),
    Flavour("kafkajs", "classic", "roundrobin"),
    Flavour("platformatic", "consumer", "uniform"),
    Flavour("platformatic", "classic", "roundrobin"),
)
GO_CLIENTS = ("franz", "sarama")
NODE_CLIENTS = ("kafkajs", "platformatic")
ONE_CHANGE_AT_A_TIME = ("kafka_python",)
"""A rebalance soon after another one can hang kafka-python 3.0 for good (no heartbeat ever again),
whichever the broker. Its groups change only when nothing has moved for `QUIET_S`, and it is not
tested with what makes rebalances in pairs: cooperative assignors and topics that change. If it
hangs all the same, the driver gives such a member up and starts another one."""
BY_NAME = {flavour.name: flavour for flavour in FLAVOURS}


@dataclass
class MemberView:
    """What one member said: what it owns now, and everything it was given, in order."""

    owned: set[Partition] = field(default_factory=set)
    seen: list[Place] = field(default_factory=list)
    closing: bool = False
    closed: bool = False
    lives: int = 0


@dataclass(frozen=True)
class Move:
    """A rebalance callback. `at`: seconds of the system's monotonic clock; `kind`: `assigned`,
    `revoked` or `lost`."""

    at: float
    member: int
    kind: str
    partitions: tuple[Partition, ...]


@dataclass(frozen=True)
class Told:
    """Records that one poll gave, or offsets that a commit took. `at` as in Move."""

    at: float
    member: int
    places: tuple[Place, ...]


class Group:
    """Starts processes of one flavour in one group. Members are numbered across processes."""

    def __init__(
        self,
        flavour: Flavour,
        bootstrap: str,
        group_id: str,
        directory: Path,
        view: Callable[[], str] = lambda: "",
    ) -> None:
        self.flavour = flavour
        self.bootstrap = bootstrap
        self.group_id = group_id
        self.members: dict[int, MemberView] = {}
        self.acknowledged: dict[Partition, int] = {}
        self.commit_failures: list[str] = []
        self.errors: list[str] = []
        self.stuck: list[int] = []
        """Members whose client hung, and that came again."""
        self.moves: list[Move] = []
        self.polled: list[Told] = []
        self.committed: list[Told] = []
        self.processes: list[ChildProcess] = []
        self._directory = directory
        self._view = view
        self._changed_at = 0.0

    def spawn(
        self,
        topics: Mapping[str, int] | str,
        *,
        members: int = 1,
        commit: str = "none",
        instance_prefix: str = "",
        first: int | None = None,
        flavour: Flavour | None = None,
        max_poll_interval_ms: int = 300_000,
        revoke_block_ms: int = 0,
        login: Path | None = None,
    ) -> ChildProcess:
        """Starts one more process with `members` members; `topics` as a str is a regular
        expression. `flavour`: another one than the group's. `login`: a file that says how to log
        in, in JSON, for Java its properties."""
        if self.processes:
            self._wait_quiet()
        start = len(self.members) if first is None else first
        if isinstance(topics, str):
            subscription = ["--pattern", topics]
        else:
            subscription = ["--topics", ",".join(sorted(topics))]
        for number in range(start, start + members):
            self.members[number] = MemberView()
        flavour = flavour or self.flavour
        slow = revoke_block_ms > 0  # what not every driver can be
        process = ChildProcess(
            [
                *self._program(flavour),
                *["--bootstrap", self.bootstrap, "--group", self.group_id, *subscription],
                *["--protocol", flavour.protocol, "--assignor", flavour.assignor],
                *["--members", str(members), "--first", str(start), "--commit", commit],
                *["--instance-prefix", instance_prefix],
                *["--session-timeout-ms", str(SESSION_TIMEOUT_MS)],
                *(["--max-poll-interval-ms", str(max_poll_interval_ms)] * slow),
                *(["--revoke-block-ms", str(revoke_block_ms)] * slow),
                *([] if login is None else ["--login", str(login)]),
            ],
            stderr_path=self._directory / f"{self.group_id}-{len(self.processes)}.log",
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"},
            cwd=ROOT,
            on_line=self._on_line,
        )
        self.processes.append(process)
        return process

    def _program(self, flavour: Flavour) -> list[str]:
        if flavour.client == "java":
            return [*java_driver(), "consume"]
        if flavour.client in GO_CLIENTS:
            return [go_driver(), flavour.client]
        if flavour.client in NODE_CLIENTS:
            return [*node_driver(), flavour.client]
        return [sys.executable, "-m", f"tests.clients.drivers.{flavour.client}_driver"]

    def _on_line(self, line: str) -> None:
        event = json.loads(line)
        member = self.members[event["member"]]
        match event["event"]:
            case "assignment":
                self._changed_at = time.monotonic()
                member.owned = {(topic, part) for topic, part in event["owned"]}
            case "records":
                told = self._told(event, "records")
                member.seen.extend(told.places)
                self.polled.append(told)
            case "committed":
                self.committed.append(self._told(event, "offsets"))
                for topic, part, offset in event["offsets"]:
                    self.acknowledged[(topic, part)] = offset
            case "commit-failed":
                self.commit_failures.append(event["error"])
            case "error":
                self.errors.append(event["error"])
            case "stuck":
                self.stuck.append(event["member"])
                member.closing = False  # its successor goes on under the same number
            case "assigned" | "revoked" | "lost" as kind:
                places = tuple((topic, part) for topic, part in event["partitions"])
                if kind == "assigned" and member.closing:
                    # librdkafka with an eager assignor calls back for an assignment that waits when
                    # `close` begins. It does not take it, and so never revokes it.
                    print(f"given to a client that closes, and not counted: {line}")
                    return
                self.moves.append(Move(event.get("at", 0.0), event["member"], kind, places))
            case "closing":
                member.closing = True
            case "closed":
                member.lives += 1
                member.closing, member.closed = False, True
                member.owned = set()

    @staticmethod
    def _told(event: dict[str, Any], field_name: str) -> Told:
        places = tuple((topic, part, offset) for topic, part, offset in event[field_name])
        return Told(event.get("at", 0.0), event["member"], places)

    # What the tests wait for

    def wait_covered(
        self, topics: Mapping[str, int], members: Iterable[int], timeout_s: float = SETTLE_S
    ) -> None:
        """Waits until these members own all partitions, each exactly once, in equal shares (+-1).

        Shares count because an incremental rebalance covers everything before it is over.
        """
        everything = {(name, part) for name, count in topics.items() for part in range(count)}
        chosen = sorted(members)

        def covered() -> bool:
            parts = [self.members[number].owned for number in chosen]
            total = sum(len(owned) for owned in parts)
            sizes = [len(owned) for owned in parts]
            even = max(sizes) - min(sizes) <= 1
            return even and total == len(everything) and set().union(*parts) == everything

        wait_until(covered, timeout_s, f"members {chosen} cover {dict(topics)}", self.describe)

    def wait_covered_exactly(
        self, owned: Mapping[int, set[Partition]], timeout_s: float = SETTLE_S
    ) -> None:
        """Waits until each of these members owns exactly these partitions."""
        wait_until(
            lambda: all(self.members[number].owned == its for number, its in owned.items()),
            timeout_s,
            f"members own {dict(owned)}",
            self.describe,
        )

    def wait_seen(self, places: set[Place], timeout_s: float = SETTLE_S) -> None:
        """Waits until the group was given all of these records."""
        wait_until(
            lambda: places <= set(self.seen()),
            timeout_s,
            f"{len(places)} records",
            lambda: f"missing {sorted(places - set(self.seen()))[:5]}...\n{self.describe()}",
        )

    def wait_committed(self, ends: Mapping[Partition, int], timeout_s: float = SETTLE_S) -> None:
        """Waits until everything up to `ends` is committed, as the members were told or the broker
        says.

        A commit may be durable while its answer died with the broker. A member that then joins anew
        starts behind it, has nothing left to commit, and is never told of it.
        """
        counts = Counter(topic for topic, _ in ends)

        def done() -> bool:
            if all(self.acknowledged.get(at, 0) >= end for at, end in ends.items()):
                return True
            if not self.commit_failures:
                return False
            return committed(self.bootstrap, self.group_id, counts) == ends

        wait_until(
            done,
            timeout_s,
            "commits up to the ends",
            lambda: f"told {self.acknowledged}\nends {ends}\n{self.describe()}",
        )

    def seen(self) -> list[Place]:
        """Everything that any member was given, member by member."""
        return [place for member in self.members.values() for place in member.seen]

    def twice(self) -> set[Place]:
        """Records that the group was given more than once."""
        return {place for place, count in Counter(self.seen()).items() if count > 1}

    def losses(self) -> list[Move]:
        """The moves of kind `lost` that the broker has to answer for.

        librdkafka gives a heartbeat up after one heartbeat interval, and repeats it with the epoch
        and without the partitions that it had. If the broker has answered the first one with a new
        epoch, the protocol fences that member (Kafka, too; docs/clients.md). On a busy machine, and
        with the short interval of these tests, that is the client's doing: its log tells of it.
        """
        excused = Counter(
            int(member)
            for process in self.processes
            for member in TIMED_OUT_HEARTBEAT.findall(process.stderr())
        )
        answered_for = []
        for move in self.moves:
            if move.kind != "lost":
                continue
            if excused[move.member] > 0:
                excused[move.member] -= 1
                print(f"the client gave up a heartbeat, so it lost its partitions: {move}")
            else:
                answered_for.append(move)
        return answered_for

    def describe(self) -> str:
        owned = {number: sorted(member.owned) for number, member in self.members.items()}
        said = "\n".join(process.output() for process in self.processes)
        return (
            f"owned {owned}\nerrors {self.errors[-5:]} {self.commit_failures[-5:]}, stuck "
            f"{self.stuck}\n{said[-6000:]}"
            f"\n{self._view()}"
        )

    def _wait_quiet(self) -> None:
        if self.flavour.client in ONE_CHANGE_AT_A_TIME:
            running = [member for member in self.members.values() if not member.closed]
            wait_until(
                lambda: (
                    all(member.owned for member in running)
                    and time.monotonic() - self._changed_at >= QUIET_S
                ),
                SETTLE_S,
                "a group at rest",
                self.describe,
            )

    # Ends

    def leave(self, process: ChildProcess, member: int) -> None:
        """Let one member close its consumer; its process goes on."""
        self._wait_quiet()
        process.write_line(f"close {member}")
        wait_until(
            lambda: self.members[member].closed, SETTLE_S, f"member {member} left", self.describe
        )

    def kill(self, process: ChildProcess, members: Iterable[int]) -> None:
        """SIGKILL a process: its members say nothing any more."""
        self._wait_quiet()
        process.kill()
        for number in members:
            self.members[number].owned = set()
            self.members[number].closed = True

    def stop(self, process: ChildProcess) -> None:
        """SIGTERM: all its members leave, and it exits 0 (143 from a JVM)."""
        process.send_signal(signal.SIGTERM)
        code = process.wait_exit(SETTLE_S)
        assert code in (0, 143), self.describe()

    def close(self) -> None:
        for process in self.processes:
            process.close()
