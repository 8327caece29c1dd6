"""Runs members of a group and tells on stdout, one JSON object a line, what happens to them.

The same command line and events as the Java driver, so that one test suite drives every client:
`assignment` (all that a member owns now), `assigned`, `revoked`, `lost`, `records`, `committed`,
`commit-failed`, `error`, `closed`, from Python clients `closing`, and from delicate ones `stuck`.
`at` is the system's monotonic clock in seconds, so that events of several processes can be put in
order. On stdin: `close N` lets member N leave, `restart N [PROTOCOL ASSIGNOR]` lets it leave and
come again, perhaps as another kind of member, `subscribe N a,b` gives it other topics, `stop` (or
end of file, or SIGTERM) lets all of them leave and ends the process with exit code 0.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

import msgspec

from groupd.testing.client_security import security_settings
from groupd.testing.security import Login

Partition = tuple[str, int]
Place = tuple[str, int, int]
NOBODY = Login("PLAINTEXT")
POLL_S = 0.1
QUIET_S = 1.5
"""How long nothing must have moved before the groups of a delicate client change."""
STUCK_S = 25.0
"""How long a delicate client may take for one poll and commit, or to join. Then its member is given
up, without a word to the broker, and comes again as a new one, as a service manager would have
it."""


@dataclass(frozen=True)
class Options:
    """The command line of one process; `member` is set for each of its members."""

    bootstrap: str
    group: str
    topics: tuple[str, ...]
    pattern: str
    protocol: str
    assignor: str
    commit: str
    instance_prefix: str
    session_timeout_ms: int
    max_poll_interval_ms: int
    revoke_block_ms: int
    login: Login = NOBODY
    member: int = 0

    @property
    def instance_id(self) -> str | None:
        return f"{self.instance_prefix}{self.member}" if self.instance_prefix else None

    def security(self, library: str) -> dict[str, Any]:
        """The settings of a client library with which it logs in."""
        return security_settings(library, self.login, lambda: self.login.token, str)


class Emitter:
    """Writes events of one member; whole lines, whichever thread writes."""

    _lock = threading.Lock()

    def __init__(self, member: int) -> None:
        self.member = member

    def emit(self, event: str, **fields: Any) -> None:
        at = round(time.monotonic(), 6)
        line = json.dumps({"event": event, "member": self.member, "at": at, **fields})
        with self._lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def partitions(self, event: str, partitions: Iterable[Any]) -> None:
        """`event` with client objects that have `topic` and `partition`."""
        self.emit(event, partitions=sorted([at.topic, at.partition] for at in partitions))


class Member(Protocol):
    """What a client's adapter offers."""

    def poll(self, timeout_s: float) -> list[Place]: ...

    def commit(self, offsets: dict[Partition, int]) -> None: ...

    def assignment(self) -> list[Partition]: ...

    def close(self) -> None: ...


def joining(member: Any) -> bool:
    """Whether a client says that it waits for a rebalance to end; until then its polls give
    nothing."""
    return bool(getattr(member, "joining", False))


MemberFactory = Callable[[Options, Emitter], Member]


class Loop(threading.Thread):
    """Polls one member until told to stop, then lets it leave."""

    def __init__(self, factory: MemberFactory, options: Options) -> None:
        super().__init__(name=f"member-{options.member}", daemon=True)
        self._factory, self._options = factory, options
        self._emitter = Emitter(options.member)
        self._uncommitted: dict[Partition, int] = {}
        self.stopping = threading.Event()
        self.restarting = threading.Event()
        self.subscription: list[str] | None = None
        self.abandoned = threading.Event()
        self._changed_at: float | None = None
        self._turn_since: float | None = None

    def quiet_since(self, quiet_s: float) -> bool:
        """Whether the member has had its partitions for so long; with 0 always."""
        if quiet_s == 0:
            return True
        return self._changed_at is not None and time.monotonic() - self._changed_at >= quiet_s

    def successor(self) -> Loop | None:
        """The loop that goes on for this one if its client does not come back; this one is over
        then."""
        since = self._turn_since
        if since is None or time.monotonic() - since < STUCK_S:
            return None
        self.abandoned.set()
        self._emitter.emit("stuck")
        self._emitter.emit("assignment", owned=[])
        return Loop(self._factory, self._options)

    def restart(self, protocol: str = "", assignor: str = "") -> None:
        """Leave and come again; with arguments, as another kind of member."""
        if protocol:
            self._options = replace(self._options, protocol=protocol, assignor=assignor)
        self.restarting.set()

    def run(self) -> None:
        while not self.stopping.is_set():
            self._live()
            if not self.restarting.is_set():
                return
            self.restarting.clear()

    def _live(self) -> None:
        """Lives from joining to having left."""
        try:
            member: Any = self._factory(self._options, self._emitter)
        except Exception as error:  # noqa: BLE001 - as below
            self._emitter.emit("error", error=repr(error))
            return
        self._uncommitted = {}
        self._turn_since = time.monotonic()
        owned: list[Partition] | None = None
        while not (self.stopping.is_set() or self.restarting.is_set() or self.abandoned.is_set()):
            if self.subscription is not None:
                topics, self.subscription = self.subscription, None
                member.subscribe(topics)
            if not joining(member):
                self._turn_since = time.monotonic()
            try:
                records = member.poll(POLL_S)
            except Exception as error:  # noqa: BLE001 - every client has its own kinds; tests judge
                self._emitter.emit("error", error=repr(error))
                time.sleep(POLL_S)
                continue
            if self.abandoned.is_set():
                break
            now_owned = sorted(member.assignment())
            if now_owned != owned:
                self._changed_at = time.monotonic() if now_owned else None
                owned = now_owned
                self._emitter.emit("assignment", owned=owned)
            if records:
                self._emitter.emit("records", records=records)
            if self._options.commit == "each":
                self._commit(member, records, set(now_owned))
        if not self.abandoned.is_set():
            self._emitter.emit("closing")
        try:
            member.close()
        except Exception as error:  # noqa: BLE001 - as above
            self._emitter.emit("error", error=repr(error))
        self._turn_since = None
        if not self.abandoned.is_set():
            self._emitter.emit("closed")

    def _commit(self, member: Member, records: list[Place], owned: set[Partition]) -> None:
        """Commit what was polled; what fails is tried again after the next poll, if still owned."""
        for topic, partition, offset in records:
            at = (topic, partition)
            self._uncommitted[at] = max(offset + 1, self._uncommitted.get(at, 0))
        self._uncommitted = {at: end for at, end in self._uncommitted.items() if at in owned}
        if not self._uncommitted:
            return
        shown = sorted([*at, offset] for at, offset in self._uncommitted.items())
        try:
            member.commit(self._uncommitted)
        except Exception as error:  # noqa: BLE001 - as above
            self._emitter.emit("commit-failed", offsets=shown, error=repr(error))
        else:
            self._uncommitted = {}
            self._emitter.emit("committed", offsets=shown)


def parse(arguments: list[str] | None = None) -> tuple[Options, int, int]:
    """(options, number of members, number of the first one)."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--group", required=True)
    parser.add_argument("--topics", default="")
    parser.add_argument("--pattern", default="")
    parser.add_argument("--protocol", default="classic", choices=("classic", "consumer"))
    parser.add_argument("--assignor", default="")
    parser.add_argument("--commit", default="none", choices=("none", "each", "auto"))
    parser.add_argument("--instance-prefix", default="")
    parser.add_argument("--session-timeout-ms", type=int, default=6000)
    parser.add_argument("--max-poll-interval-ms", type=int, default=300_000)
    parser.add_argument("--revoke-block-ms", type=int, default=0)
    parser.add_argument("--login", type=Path, help="a Login as JSON")
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    found = vars(parser.parse_args(arguments))
    members, first = found.pop("members"), found.pop("first")
    login = found.pop("login")
    if login is not None:
        found["login"] = msgspec.json.decode(login.read_bytes(), type=Login)
    found["topics"] = tuple(name for name in found["topics"].split(",") if name)
    return Options(**found), members, first


def stop_at_sigterm_or_after(read: Callable[[], object]) -> threading.Event:
    """An event that is set at SIGTERM, or when `read` has come to the end of stdin.

    One thread sets it. The handler of a signal runs in the main thread, which may be inside of the
    event's `wait` and hold the lock that `set` needs: then the process would hang.
    """
    stopping = threading.Event()
    ends: SimpleQueue[str] = SimpleQueue()
    signal.signal(signal.SIGTERM, lambda *_: ends.put("SIGTERM"))

    def until_stdin_ends() -> None:
        read()
        ends.put("stdin")

    def until_it_ends() -> None:
        ends.get()
        stopping.set()

    for target in (until_stdin_ends, until_it_ends):
        threading.Thread(target=target, daemon=True).start()
    return stopping


def main(factory: MemberFactory, *, quiet_s: float = 0.0) -> None:
    """Run until all members have left. SIGUSR1 writes every thread's stack to stderr.

    With `quiet_s` the members come one by one: each when those before it have had the same
    partitions for that long.
    """
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    options, members, first = parse()
    loops = {
        number: Loop(factory, replace(options, member=number))
        for number in range(first, first + members)
    }
    everything_stops = stop_at_sigterm_or_after(lambda: _commands(loops))
    for number in loops:
        before = range(first, number)
        while not all(loops[one].quiet_since(quiet_s) for one in before):
            _replace_stuck(loops)
            if everything_stops.wait(0.05):
                break
        loops[number].start()
    while not everything_stops.wait(0.05) and any(loop.is_alive() for loop in loops.values()):
        if quiet_s:
            _replace_stuck(loops)
    # A client that does not close in time says on stderr where it hangs.
    faulthandler.dump_traceback_later(STUCK_S)
    for loop in loops.values():
        loop.stopping.set()
    for loop in loops.values():
        while loop.is_alive() and not (quiet_s and loop.successor()):
            loop.join(0.1)


def _replace_stuck(loops: dict[int, Loop]) -> None:
    for number, loop in loops.items():
        if loop.is_alive() and (successor := loop.successor()) is not None:
            loops[number] = successor
            successor.start()


def _commands(loops: dict[int, Loop]) -> None:
    """Carries out what stdin says, until `stop` or its end."""
    for line in sys.stdin:
        verb, *arguments = line.split()
        if verb == "stop":
            break
        loop = loops[int(arguments[0])]
        if verb == "close":
            loop.stopping.set()
        elif verb == "restart":
            loop.restart(*arguments[1:])
        elif verb == "subscribe":
            loop.subscription = arguments[1].split(",")
