"""`GroupCoordinator`: a broker that runs beside the code under test.

It runs on a thread or in a process of its own, with its own event loop, so neither side blocks the
other. The plain methods may be called from any thread; `aio` has the same calls as coroutines for
any event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Unpack, cast

from groupd.coordinator.faults.errors import HarnessError
from groupd.testing.acl_rules import AclRule, parse
from groupd.testing.answers import GroupDescription, GroupEvent, GroupSummary
from groupd.testing.arguments import check_arguments
from groupd.testing.calls import BrokerHost, Coroutines, on_a_loop, result_of
from groupd.testing.child_process import ChildProcess
from groupd.testing.client_calls import ClientCalls
from groupd.testing.engine import HarnessOptions
from groupd.testing.handles import FaultHandle, FaultOptions, Faults, RecipeCalls
from groupd.testing.loop_thread import LoopThread
from groupd.testing.offset_operations import Places
from groupd.testing.operations import Operations
from groupd.testing.records import RecordLike, TestRecord
from groupd.testing.security import MECHANISMS, Mechanism, SecurityOptions, SecurityProtocol
from groupd.testing.starting import Starting, StartOptions
from groupd.testing.topic_reader import READ_COMMITTED, Isolation
from groupd.testing.watch import TIMEOUT_S

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""


class HarnessClock:
    """The coordinator's time; the modes are described in docs/testing.md."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def __repr__(self) -> str:
        if self._coordinator.closed:
            return "<Clock of a closed broker>"
        factor = self._coordinator._call("clock_factor")
        mode = {0: "frozen", 1: "real"}.get(factor, f"{factor:g} times as fast")
        return f"<Clock {mode}, {datetime.fromtimestamp(self.now_ms / 1000, UTC):%F %T} UTC>"

    def advance(self, ms: int, *, keep_connected: bool = True) -> int:
        """See `Operations.advance`."""
        return int(self._coordinator._call("advance", ms, keep_connected=keep_connected))

    def freeze(self) -> None:
        """Time stands still; only `advance` moves it."""
        self._coordinator._call("set_clock", "frozen")

    def run(self, factor: float = 1.0) -> None:
        """Let the time run, at real speed or `factor` times as fast."""
        self._coordinator._call("set_clock", factor)

    @property
    def now_ms(self) -> int:
        """The coordinator's wall clock, in milliseconds since 1970."""
        return int(self._coordinator._call("now")[1])


class GroupCoordinator(ClientCalls):
    """A running broker: `with GroupCoordinator.start(topics={"orders": 6}) as c:`.

    A `with` block that ends without an error checks the invariants (`check`). Each method is
    described at the method of the same name in `Operations`.
    """

    def __init__(self, options: HarnessOptions, *, process: bool = False) -> None:
        self._host: BrokerHost = ChildProcess(options) if process else LoopThread(options)
        self._addresses = (("", 0), ("", 0))
        self._closed = False
        self.clock = HarnessClock(self)
        self.faults = Faults(self._call)
        self.recipes = RecipeCalls(self._call)
        self.aio = cast(Operations, Coroutines(self._host))
        """The same methods as coroutines: `await c.aio.wait_stable("billing", members=2)`."""

    def __repr__(self) -> str:
        where = "closed" if self._closed else self.bootstrap_servers
        return f"<GroupCoordinator {where}>"

    # Life

    @classmethod
    def start(
        cls,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, object] | None = None,
        *,
        clock: str | float = "real",
        profile: str = "test",
        process: bool = False,
        listen: tuple[str, int] = ("127.0.0.1", 0),
        admin: tuple[str, int] | None = None,
        control: bool = False,
        record: str | PathLike[str] | None = None,
        security: SecurityProtocol = "PLAINTEXT",
        users: Mapping[str, str] | None = None,
        mechanisms: Iterable[Mechanism] = MECHANISMS,
        acls: Iterable[AclRule] | None = None,
    ) -> GroupCoordinator:
        """Start a broker in memory and wait until it serves.

        `topics`: name -> number of partitions. `config`: settings by Kafka's keys, over the profile
        (`groupd config` lists them). `clock`: "real", "frozen" or a factor. `process`: run in a
        process of its own. `admin`: the address of the admin port; None = no admin port. `control`:
        offer the control API on the admin port, on a free port if `admin` names none. `record`: a
        new file for the recording.

        `security`: the security protocol of the listener; certificates are made on the fly.
        `users`: name -> password; with SSL each has a certificate instead. `mechanisms`: those of
        SASL. `acls`: rules such as "billing may READ topic orders-*"; None = everybody may do
        everything. Raises coordinator.daemon.CannotStart,
        coordinator.config.ConfigError.
        """
        given = {
            "clock": clock,
            "profile": profile,
            "process": process,
            "listen": listen,
            "admin": admin,
            "control": control,
            "record": record,
            "security": security,
            "users": users,
            "mechanisms": mechanisms,
            "acls": acls,
        }
        check_arguments(START, (topics, config), given)
        return cls._started(_options(topics, config, given), process)

    @classmethod
    def _started(cls, options: HarnessOptions, process: bool) -> GroupCoordinator:
        try:
            made = cls(options, process=process)
        except ValueError as error:  # a wrong setting or clock mode
            raise error.with_traceback(None) from None
        try:
            result_of(made._host.start())
            made._addresses = made._call("addresses")
        except BaseException:
            made.close()
            raise
        return made

    @classmethod
    def start_async(
        cls,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, object] | None = None,
        **options: Unpack[StartOptions],
    ) -> Starting[GroupCoordinator]:
        """`start` for coroutines: `async with GroupCoordinator.start_async(...) as c:`, or `await`
        it and call `close_async` yourself."""
        return Starting(lambda: cls.start(topics, config, **options))

    @property
    def closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """Stop the broker. A second call does nothing."""
        if not self._closed:
            self._closed = True
            self._host.close()

    async def close_async(self) -> None:
        """`close` without blocking the caller's loop."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> GroupCoordinator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None and not self._closed:
                self.check()
        finally:
            self.close()

    # Where it is

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, such as "127.0.0.1:34567"."""
        host, port = self._addresses[0]
        return f"{host}:{port}"

    @property
    def host(self) -> str:
        return self._addresses[0][0]

    @property
    def port(self) -> int:
        return self._addresses[0][1]

    @property
    def admin_url(self) -> str | None:
        """The base of the admin port's URLs; None without an admin port."""
        host, port = self._addresses[1]
        return f"http://{host}:{port}" if port else None

    # Topics and records

    def create_topic(
        self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None
    ) -> None:
        self._call("create_topic", name, partitions, config)

    def create_topics(self, topics: Mapping[str, int]) -> None:
        self._call("create_topics", topics)

    def delete_topic(self, name: str) -> None:
        self._call("delete_topic", name)

    def topics(self) -> dict[str, int]:
        return cast("dict[str, int]", self._call("topics"))

    def produce(self, topic: str, records: Iterable[RecordLike]) -> list[TestRecord]:
        check_arguments(Operations.produce, (topic, records), {})
        return cast("list[TestRecord]", self._call("produce", topic, list(records)))

    def records(
        self, topic: str, partition: int | None = None, *, isolation: Isolation = READ_COMMITTED
    ) -> list[TestRecord]:
        found = self._call("records", topic, partition, isolation=isolation)
        return cast("list[TestRecord]", found)

    # Groups and offsets

    def commit(self, group: str, offsets: Places) -> None:
        self._call("commit", group, offsets)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        return cast("dict[tuple[str, int], int]", self._call("committed", group))

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        return cast("dict[tuple[str, int], int]", self._call("lag", group))

    def groups(self) -> list[GroupSummary]:
        return cast("list[GroupSummary]", self._call("groups"))

    def describe(self, group: str) -> GroupDescription:
        return cast("GroupDescription", self._call("describe", group))

    def events(self, group: str) -> list[GroupEvent]:
        return cast("list[GroupEvent]", self._call("events", group))

    def rebalances(self, group: str) -> int:
        return cast(int, self._call("rebalances", group))

    def report(self) -> str:
        return cast(str, self._call("report"))

    # Waiting

    def wait_stable(
        self, group: str, members: int | None = None, timeout: float = TIMEOUT_S
    ) -> GroupDescription:
        return cast("GroupDescription", self._wait("wait_stable", group, members, timeout))

    def wait_members(self, group: str, count: int, timeout: float = TIMEOUT_S) -> list[str]:
        return cast("list[str]", self._wait("wait_members", group, count, timeout))

    def wait_epoch(self, group: str, member: str, epoch: int, timeout: float = TIMEOUT_S) -> int:
        return cast(int, self._wait("wait_epoch", group, member, epoch, timeout))

    def wait_released(
        self,
        group: str,
        topic: str,
        partition: int,
        member: str | None = None,
        timeout: float = TIMEOUT_S,
    ) -> str | None:
        found = self._wait("wait_released", group, topic, partition, member, timeout)
        return cast("str | None", found)

    def wait_owned(self, group: str, topic: str, partition: int, timeout: float = TIMEOUT_S) -> str:
        return cast(str, self._wait("wait_owned", group, topic, partition, timeout))

    def wait_committed(
        self, group: str, topic: str, partition: int, offset: int, timeout: float = TIMEOUT_S
    ) -> int:
        return cast(int, self._wait("wait_committed", group, topic, partition, offset, timeout))

    def wait_lag(
        self, group: str, at_most: int = 0, timeout: float = TIMEOUT_S
    ) -> dict[tuple[str, int], int]:
        found = self._wait("wait_lag", group, at_most, timeout)
        return cast("dict[tuple[str, int], int]", found)

    def wait_records(
        self,
        topic: str,
        count: int,
        *,
        partition: int | None = None,
        isolation: Isolation = READ_COMMITTED,
        timeout: float = TIMEOUT_S,
    ) -> list[TestRecord]:
        given = {"partition": partition, "isolation": isolation, "timeout": timeout}
        return cast("list[TestRecord]", self._wait("wait_records", topic, count, **given))

    def wait_rebalances(self, group: str, count: int, timeout: float = TIMEOUT_S) -> int:
        return cast(int, self._wait("wait_rebalances", group, count, timeout))

    # Trouble

    def check(self) -> None:
        self._call("check")

    def fault(self, action: str, **given: Unpack[FaultOptions]) -> FaultHandle:
        """The same as `faults.add`: `with c.fault("drop", api="OffsetCommit") as fault:`."""
        return self.faults.add(action, **given)

    def settle(self) -> None:
        self._call("settle")

    def restart(self, *, lose_memory: bool = False) -> None:
        self._call("restart", lose_memory=lose_memory)

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        check_arguments(getattr(Operations, name), args, options)
        return result_of(self._host.call(name, *args, **options))

    def _wait(self, name: str, *args: Any, **options: Any) -> Any:
        """Refuse to wait on an event loop, as that would block the clients that it waits for."""
        if on_a_loop():
            raise HarnessError(
                f"{name} would block the running event loop: await c.aio.{name}(...)"
            )
        return self._call(name, *args, **options)


def _options(
    topics: Mapping[str, int] | None, config: Mapping[str, object] | None, given: Mapping[str, Any]
) -> HarnessOptions:
    """The options from the arguments of `GroupCoordinator.start`. Raises HarnessError."""
    admin, record, acls = given["admin"], given["record"], given["acls"]
    if given["control"] and admin is None:
        admin = ("127.0.0.1", 0)
    return HarnessOptions(
        topics=topics or {},
        config=config or {},
        profile=given["profile"],
        clock=given["clock"],
        listen=given["listen"],
        admin=admin,
        control=given["control"],
        record=None if record is None else str(Path(record).absolute()),
        security=SecurityOptions(
            given["security"],
            given["users"] or {},
            tuple(given["mechanisms"]),
            None if acls is None else tuple(parse(acls)),
        ),
    )


class GroupCoordinatorFactory(Protocol):
    """The type of the fixture `groupd_factory`: `GroupCoordinator.start`, for brokers that are
    closed at the end of the test."""

    def __call__(
        self,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, object] | None = None,
        **options: Unpack[StartOptions],
    ) -> GroupCoordinator: ...


START: Callable[..., Any] = vars(GroupCoordinator)["start"].__func__
"""`GroupCoordinator.start` as a plain function, for `check_arguments`."""
