"""`GroupCoordinator`: a broker that runs beside the code under test.

It runs on a thread or in a process of its own, with its own event loop, so neither side blocks the
other. The plain methods may be called from any thread; `aio` has the same calls as coroutines for
any event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypedDict, Unpack, cast

from groupd.testing.arguments import check_arguments
from groupd.testing.broker_hosts import ChildProcess, LoopThread
from groupd.testing.calls import Coroutines, blocking, call_checked, result_of
from groupd.testing.client_calls import ClientCalls, OwnClients
from groupd.testing.engine import HarnessOptions
from groupd.testing.handles import FaultHandle, FaultOptions, Faults, HarnessClock, RecipeCalls
from groupd.testing.operations import Operations
from groupd.testing.security import MECHANISMS, MechanismName, ProtocolName, SecurityOptions
from groupd.testing.share_handles import ShareHandle
from groupd.testing.users_and_acls import AclRule, parse

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""


class StartOptions(TypedDict, total=False):
    """The options of `GroupCoordinator.start` beside topics and config."""

    clock: str | float
    profile: str
    process: bool
    listen: tuple[str, int]
    admin: tuple[str, int] | None
    control: bool
    record: str | PathLike[str] | None
    security: ProtocolName
    users: Mapping[str, str] | None
    mechanisms: Iterable[MechanismName]
    acls: Iterable[AclRule] | None


class GroupCoordinator(ClientCalls):
    """A running broker for tests: the fixture `groupd`, or without pytest

    >>> with GroupCoordinator.start(topics={"orders": 6}) as c:
    ...     c.topics()
    {'orders': 6}

    A `with` block that ends without an error checks the invariants (`check`). Beside its methods it
    has `clock` (time), `faults` and `recipes` (what goes wrong), and `aio`, the same methods as
    coroutines. docs/testing.md is the reference. Errors: HarnessError; RequestRefused when the
    broker refuses, NotFound for names that do not exist, WrongType for arguments.
    """

    def __init__(self, options: HarnessOptions, *, process: bool = False) -> None:
        self._host = ChildProcess(options) if process else LoopThread(options)
        self._addresses = (("", 0), ("", 0))
        self._closed = False
        self._own_clients = OwnClients()
        self.clock = HarnessClock(self._call)
        self.faults = Faults(self._call)
        self.recipes = RecipeCalls(self._call)
        self.aio = cast(Operations, Coroutines(self._host))
        """The same methods as coroutines: `await c.aio.wait_stable("billing", members=2)`."""

    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        return result_of(call_checked(self._host, name, args, options))

    def __repr__(self) -> str:
        where = "closed" if self._closed else self.bootstrap_servers
        return f"<GroupCoordinator {where}>"

    # The operations. Their docstrings are in `Operations`

    create_topic = blocking(Operations.create_topic)
    create_topics = blocking(Operations.create_topics)
    delete_topic = blocking(Operations.delete_topic)
    topics = blocking(Operations.topics)
    produce = blocking(Operations.produce)
    records = blocking(Operations.records)
    wait_records = blocking(Operations.wait_records)

    groups = blocking(Operations.groups)
    describe = blocking(Operations.describe)
    events = blocking(Operations.events)
    rebalances = blocking(Operations.rebalances)
    report = blocking(Operations.report)
    commit = blocking(Operations.commit)
    committed = blocking(Operations.committed)
    lag = blocking(Operations.lag)

    wait_stable = blocking(Operations.wait_stable)
    wait_members = blocking(Operations.wait_members)
    wait_epoch = blocking(Operations.wait_epoch)
    wait_released = blocking(Operations.wait_released)
    wait_owned = blocking(Operations.wait_owned)
    wait_committed = blocking(Operations.wait_committed)
    wait_lag = blocking(Operations.wait_lag)
    wait_rebalances = blocking(Operations.wait_rebalances)

    users = blocking(Operations.users)
    add_user = blocking(Operations.add_user)
    remove_user = blocking(Operations.remove_user)
    token = blocking(Operations.token)
    acls = blocking(Operations.acls)
    add_acls = blocking(Operations.add_acls)
    remove_acls = blocking(Operations.remove_acls)

    check = blocking(Operations.check)
    settle = blocking(Operations.settle)
    restart = blocking(Operations.restart)

    def fault(self, action: str, **given: Unpack[FaultOptions]) -> FaultHandle:
        """Add a fault, as `faults.add` does; a `with` block removes it at the end.

        >>> with groupd.fault("drop", api="OffsetCommit", group="billing", count=2) as fault:
        ...     fault.hits
        0
        """
        return self.faults.add(action, **given)

    def share(self, group: str, *, from_: str | None = None) -> ShareHandle:
        """The share group of that name, which need not exist yet. `from_`: where it begins in
        partitions that no member has read yet ("earliest", "latest" or "by_duration:PT1H"); it is
        set as the group's config `share.auto.offset.reset`, whose default in Kafka is latest. None:
        it stays as it is.

        >>> share = groupd.share("workers", from_="earliest")
        >>> share
        <Share group workers>
        """
        check_arguments(GroupCoordinator.share, (group,), {"from_": from_})
        handle = ShareHandle(self._call, group)
        if from_ is not None:
            handle.configure({"share.auto.offset.reset": from_})
        return handle

    # Start and close

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
        security: ProtocolName = "PLAINTEXT",
        users: Mapping[str, str] | None = None,
        mechanisms: Iterable[MechanismName] = MECHANISMS,
        acls: Iterable[AclRule] | None = None,
    ) -> GroupCoordinator:
        """Start a broker in memory and wait until it serves.

        `topics`: name -> number of partitions. `config`: settings by Kafka's keys, which override
        the profile (`groupd config` lists them). `clock`: "real", "frozen" or a factor. `process`:
        run in a process of its own. `admin`: the address of the admin port; None = no admin port.
        `control`: offer the control API on the admin port, on a free port if `admin` names none.
        `record`: a new file for the recording.

        `security`: the security protocol of the listener; certificates are made on the fly.
        `users`: name -> password; with SSL each has a certificate instead. `mechanisms`: those of
        SASL. `acls`: rules such as "billing may READ topic orders-*"; None = every client may do
        everything. Raises coordinator.daemon.daemon.CannotStart,
        coordinator.config.settings.ConfigError.

        >>> c = GroupCoordinator.start({"orders": 6}, {"num.partitions": 3}, clock="frozen")
        >>> c.clock
        <Clock frozen, ... UTC>
        >>> c.close()
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
            made._addresses = result_of(made._host.start())
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
    ) -> Starting:
        """`start` for coroutines: `async with` it, or `await` it and call `close_async` yourself.

        >>> async def test_it():
        ...     async with GroupCoordinator.start_async({"orders": 6}) as c:
        ...         return await c.aio.topics()
        >>> asyncio.run(test_it())
        {'orders': 6}
        """
        return Starting(lambda: cls.start(topics, config, **options))

    @property
    def closed(self) -> bool:
        """Whether `close` was called.

        >>> groupd.closed
        False
        """
        return self._closed

    def close(self) -> None:
        """Close the clients of `consumer` and `producer`, then stop the broker. A second call does
        nothing.

        >>> groupd.close()
        >>> groupd.closed
        True
        """
        if not self._closed:
            self.close_clients()
            self._closed = True
            self._host.close()

    async def close_async(self) -> None:
        """`close` without blocking the caller's loop.

        >>> asyncio.run(groupd.close_async())
        >>> groupd.closed
        True
        """
        await self._own_clients.close_here()
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
            self.close_clients()
            if error is None and not self._closed:
                self.check()
        finally:
            self.close()

    # Addresses

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients.

        >>> groupd.bootstrap_servers
        '127.0.0.1:...'
        """
        host, port = self._addresses[0]
        return f"{host}:{port}"

    @property
    def host(self) -> str:
        """The host of `bootstrap_servers`.

        >>> groupd.host
        '127.0.0.1'
        """
        return self._addresses[0][0]

    @property
    def port(self) -> int:
        """The port of `bootstrap_servers`.

        >>> groupd.bootstrap_servers == f"{groupd.host}:{groupd.port}"
        True
        """
        return self._addresses[0][1]

    @property
    def admin_url(self) -> str | None:
        """The base of the admin port's URLs; None without an admin port.

        >>> groupd.admin_url is None
        True
        """
        host, port = self._addresses[1]
        return f"http://{host}:{port}" if port else None


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


class Starting:
    """A broker that is about to start; await it, or use it in `async with`."""

    def __init__(self, start: Callable[[], GroupCoordinator]) -> None:
        self._start = start
        self._started: GroupCoordinator | None = None

    def __await__(self) -> Generator[Any, None, GroupCoordinator]:
        return self._begin().__await__()

    async def __aenter__(self) -> GroupCoordinator:
        self._started = await self._begin()
        return self._started

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        started = self._started
        if started is None:
            return
        try:
            if error is None:
                await started.aio.check()
        finally:
            await started.close_async()

    async def _begin(self) -> GroupCoordinator:
        return await asyncio.to_thread(self._start)


class GroupCoordinatorFactory(Protocol):
    """The type of the fixture `groupd_factory`: `GroupCoordinator.start`, for brokers that are
    closed at the end of the test.

    >>> east = groupd_factory(topics={"orders": 6})
    >>> east.topics()
    {'orders': 6}
    """

    def __call__(
        self,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, object] | None = None,
        **options: Unpack[StartOptions],
    ) -> GroupCoordinator:
        """Start a broker; see `GroupCoordinator.start`."""
        ...


START: Callable[..., Any] = vars(GroupCoordinator)["start"].__func__
"""`GroupCoordinator.start` as a plain function, for `check_arguments`."""
