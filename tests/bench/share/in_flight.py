"""Workload (v): 100,000 records in flight, of ten partitions and with a hundred members. What keeps
the event loop busy while all of them are acquired, acknowledged, given back, or expire; and what a
record in flight takes."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from groupd.protocol.messages.share_fetch import ACCEPT, RELEASE
from tests.bench.daemon_process import DaemonProcess
from tests.bench.figures import Workload
from tests.bench.load.generator import LoadFailed, once
from tests.bench.load.measure import FAILURES
from tests.bench.peers.processes import GROUPD
from tests.bench.plan import Plan
from tests.bench.share.group import (
    PARTITIONS,
    SETTINGS,
    TOPIC,
    Address,
    Range,
    ShareMember,
    acquired,
    check_acknowledged,
    produce,
    set_config,
    share_members,
)
from tests.bench.stalls import Watch, watched_daemon
from tests.support.admin import create_topics
from tests.support.process import wait_until
from tests.support.raw import FrameSocket
from tests.support.wire_client import WireClient

TRACED = Path(__file__).with_name("traced.py")
GROUP = "in-flight"
CORRELATION = 4
"""The bytes of the correlation id before the tagged fields of a reply."""
LOCK_MS, SHORT_LOCK_MS = 60_000, 2_000
"""How long records are locked, and how long where the locks are to expire."""
ROUNDS = 20
MOST_ARE_HELD = 0.8
AFTER_S = 0.5
"""A phase is watched for so long after its requests have been answered."""
HOLD_S = 5.0
ASKED_TIMEOUT_S = 60.0
LIMITS: Mapping[str, str] = {
    **SETTINGS,
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.delivery.count.limit": "10",
}
"""So many deliveries that no record is delivered in a small company because it came back often."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """`each`: the records that a member has in flight."""

    members: int = 100
    each: int = 1_000

    @property
    def records(self) -> int:
        return self.members * self.each


QUICK = Sizes(members=10, each=100)


def measure_in_flight(plan: Plan) -> Iterator[Workload]:
    """Measures groupd alone: others have no such loop."""
    if not plan.among((GROUPD,)):
        return
    sizes = QUICK if plan.quick else Sizes()
    flight = f"{sizes.records:,} records in flight"
    stalls = f"Share group, {flight}, {sizes.members} members"
    if plan.wants(stalls):
        try:
            for phase, stall_ms in _stalls(sizes):
                name = f"{stalls}, {phase}: longest piece of work"
                yield Workload(name, "ms", {GROUPD: [stall_ms]})
        except FAILURES as error:
            yield Workload(stalls, "ms", {GROUPD: []}, {GROUPD: f"cannot: {error}"})
    few = Sizes(sizes.members, sizes.each // 10)
    for held, how, batch_records, at_once in (
        (sizes, "acquired in batches", 100, sizes.each),
        (few, "acquired one by one", 10, 1),
    ):
        name = f"Share group, {held.records:,} records in flight, {how}"
        if plan.wants(name):
            samples = {GROUPD: [_bytes_each(held, batch_records, at_once)]}
            yield Workload(name, "bytes a record", samples)


def _stalls(sizes: Sizes) -> Iterator[tuple[str, float]]:
    """The phases, and the milliseconds of processor of the longest piece of work in each."""
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        path = Path(directory)
        watch = Watch(path / "work")
        with watched_daemon(path, LIMITS) as (address, _):
            create_topics(f"{address[0]}:{address[1]}", {TOPIC: PARTITIONS})
            produce(address, 2 * sizes.records)
            members = _Members(address, sizes)
            for name, work in members.phases():
                started = time.monotonic()
                work()
                time.sleep(AFTER_S)
                yield name, watch.phase(name, started).stall_ms


class _Members:
    """Members with a connection each, who ask at once."""

    def __init__(self, address: Address, sizes: Sizes) -> None:
        self._address = address
        self._sizes = sizes
        self._members = share_members(address, GROUP, sizes.members)
        host, port = address
        self._sockets = [
            FrameSocket(port, host, timeout_s=ASKED_TIMEOUT_S) for _ in range(sizes.members)
        ]
        self._epochs = [0] * sizes.members
        self._held: list[list[Range]] = [[] for _ in range(sizes.members)]

    def phases(self) -> Iterator[tuple[str, Callable[[], None]]]:
        each = self._sizes.each
        yield "all are acquired", lambda: self._acquire(each)
        yield (
            "every other one is acknowledged, the rest released",
            lambda: self._acknowledge(bytes((ACCEPT, RELEASE))),
        )
        yield "released ones are acquired", lambda: self._acquire(each // 2)
        yield "all are released", lambda: self._acknowledge(bytes((RELEASE,)))
        self._lock_for(SHORT_LOCK_MS)
        self._acquire(each // 2)
        yield "all locks expire", lambda: time.sleep(SHORT_LOCK_MS / 1000)
        self._lock_for(LOCK_MS)
        self._forget()
        self._acquire(each // 2)
        yield "all connections are closed", self._close

    def _lock_for(self, lock_ms: int) -> None:
        with WireClient(*self._address) as client:
            set_config(client, GROUP, "share.record.lock.duration.ms", str(lock_ms))

    def _ask(self, frames: Mapping[int, bytes]) -> Iterator[tuple[int, bytes]]:
        """Sends frames of members, all at once, and yields their replies."""
        for index, frame in frames.items():
            self._epochs[index] += 1
            self._sockets[index].socket.sendall(frame)
        for index in frames:
            yield index, self._sockets[index].frame()[CORRELATION:]

    def _acquire(self, each: int) -> None:
        """Every member acquires so many records. What is left when others have been served, it asks
        for again. Raises LoadFailed."""
        for _ in range(ROUNDS):
            wanted = {
                index: each - sum(one.records for one in held)
                for index, held in enumerate(self._held)
            }
            asked = {
                index: self._members[index].fetch(records, self._epochs[index])
                for index, records in wanted.items()
                if records > 0
            }
            if not asked:
                break
            for index, reply in self._ask(asked):
                self._held[index] += acquired(reply)
        found = sum(one.records for held in self._held for one in held)
        if found != each * self._sizes.members:
            raise LoadFailed(f"{found} of {each * self._sizes.members} records were acquired")

    def _acknowledge(self, types: bytes) -> None:
        asked = {
            index: member.acknowledge(held, types, self._epochs[index])
            for index, (member, held) in enumerate(zip(self._members, self._held, strict=True))
        }
        for _, reply in self._ask(asked):
            check_acknowledged(reply)
        self._forget()

    def _forget(self) -> None:
        """Nobody holds anything any more."""
        for held in self._held:
            held.clear()

    def _close(self) -> None:
        for connection in self._sockets:
            connection.close()


def _bytes_each(sizes: Sizes, batch_records: int, at_once: int) -> float:
    """The bytes of Python's objects for a record in flight: those in use while all members hold
    their records, less those while they hold none. Raises LoadFailed."""
    flags = [flag for key, value in LIMITS.items() for flag in ("--set", f"{key}={value}")]
    flags += ["--store", "memory://", "--topic", f"{TOPIC}:{PARTITIONS}"]
    with tempfile.TemporaryDirectory(prefix="groupd-bench-") as directory:
        out = Path(directory) / "bytes"
        under = (TRACED, out)
        with DaemonProcess(*flags, data_dir=Path(directory), under=under) as daemon:
            produce(daemon.kafka, sizes.records * 9 // 10, batch_records)
            members = share_members(daemon.kafka, GROUP, sizes.members)
            idle, _ = _hold(daemon, out, members, [0])
            # Consumers go on asking. When they find nothing any more, what was read ahead, which
            # has a limit of its own, is dropped. So there are fewer records than may be in flight.
            asked = [at_once] * (sizes.each // at_once + 2)
            full, records = _hold(daemon, out, members, asked)
    if records < sizes.records * MOST_ARE_HELD:
        raise LoadFailed(f"{records} of {sizes.records} records were acquired")
    return (full - idle) / records


def _hold(
    daemon: DaemonProcess, out: Path, members: Sequence[ShareMember], asked: Sequence[int]
) -> tuple[int, int]:
    """The bytes that the daemon uses when every member has asked for so many records, request by
    request, and acknowledged none; and how many it got. A member whose partition others read all
    the time may get none when its wait is over."""
    seen: list[int] = []

    def look() -> None:
        if not seen:
            seen.append(_bytes_in_use(daemon, out))

    requests = [
        member.fetch(records, epoch) for epoch, records in enumerate(asked) for member in members
    ]
    replies = once(daemon.kafka, requests, len(members), hold_s=HOLD_S, look=look).replies
    return seen[0], sum(one.records for reply in replies for one in acquired(reply))


def _bytes_in_use(daemon: DaemonProcess, out: Path) -> int:
    def told() -> list[str]:
        return out.read_text().splitlines() if out.exists() else []

    before = len(told())
    os.kill(daemon.pid, signal.SIGUSR1)
    wait_until(lambda: len(told()) > before, HOLD_S, "the bytes in use")
    return int(told()[-1])
