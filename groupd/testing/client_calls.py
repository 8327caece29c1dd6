"""The clients under test. `GroupCoordinator.consumer` and `producer` make clients of
confluent-kafka and aiokafka, which are closed with the broker or before; `client_config` gives
settings for others.

A library is imported only when a test asks for a client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from threading import Thread
from typing import Any

from groupd.coordinator.faults.errors import HarnessError, WrongType
from groupd.coordinator.suggest import did_you_mean
from groupd.testing.arguments import check_arguments
from groupd.testing.calls import Call, SpellingHints, on_a_loop
from groupd.testing.client_security import as_properties, security_settings
from groupd.testing.client_settings import (
    CLASSIC,
    DEFAULT_LIBRARY,
    LIBRARIES,
    ClientRole,
    GroupProtocol,
    client_config,
)
from groupd.testing.security import MechanismName

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""

AIOKAFKA = "aiokafka"
MODULES = {"confluent-kafka": "confluent_kafka", AIOKAFKA: "aiokafka"}
"""The client libraries and their modules. The first installed one is used by default."""

CLOSE_S = 10.0
"""How many seconds the end of a test waits for a client to close."""
_POLLS, _POLL_S = 5, 0.02
"""How many times `poll` is called at most, and for how long each time, until a consumer has left
its group. It is limited, because a consumer that got its partitions by `assign` keeps them."""


def library_for(wanted: str | None) -> str:
    """The library to use: `wanted`, or the first that is installed. Raises HarnessError for an
    unknown library, and if none is installed."""
    if wanted is not None and wanted not in MODULES:
        hint = did_you_mean(wanted, MODULES)
        raise HarnessError(f"library {wanted!r}{hint}: must be {' or '.join(MODULES)}")
    for library in MODULES if wanted is None else (wanted,):
        if find_spec(MODULES[library]) is not None:
            return library
    names = wanted or " or ".join(MODULES)
    raise HarnessError(f"{names} is not installed: pip install {wanted or next(iter(MODULES))}")


def spelled(library: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the names that the library uses. The names of confluent-kafka have dots
    where keywords have underscores, except those of callbacks (`error_cb`) and `logger`."""
    if library == AIOKAFKA:
        return dict(settings)
    return {
        name if callable(value) or name == "logger" else name.replace("_", "."): value
        for name, value in settings.items()
    }


class OwnClients:
    """The open clients of one broker."""

    def __init__(self) -> None:
        self._closing: list[Callable[[], object]] = []
        self._loops: list[tuple[asyncio.AbstractEventLoop, Any]] = []

    def consumer(self, library: str, topics: Iterable[str], settings: dict[str, Any]) -> Any:
        """A consumer that subscribes to `topics`."""
        if library == AIOKAFKA:
            return self._of_loop("AIOKafkaConsumer", *topics, **settings)
        made = import_module(MODULES[library]).Consumer(settings)
        self._closing.append(lambda: leave_and_close(made))
        if topics:
            made.subscribe(list(topics))
        return made

    def share_consumer(self, topics: Iterable[str], settings: dict[str, Any]) -> Any:
        """A share consumer of confluent-kafka that subscribes to `topics`."""
        made = import_module(MODULES[DEFAULT_LIBRARY]).ShareConsumer(settings)
        self._closing.append(made.close)
        if topics:
            made.subscribe(list(topics))
        return made

    def producer(self, library: str, settings: dict[str, Any]) -> Any:
        if library == AIOKAFKA:
            return self._of_loop("AIOKafkaProducer", **settings)
        made = import_module(MODULES[library]).Producer(settings)
        self._closing.append(lambda: made.flush(CLOSE_S))
        return made

    def _of_loop(self, name: str, *topics: str, **settings: Any) -> Any:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise HarnessError("a client of aiokafka can only be made in a coroutine") from None
        made = getattr(import_module(AIOKAFKA), name)(*topics, **settings)
        self._loops.append((loop, made))
        return made

    @property
    def any_open(self) -> bool:
        return bool(self._closing)

    def close(self) -> None:
        """Close the clients that need no event loop, all at the same time. A client that does not
        close within `CLOSE_S` is left behind. A client that the test has already closed is
        ignored."""
        threads = [Thread(target=_quietly, args=(one,), daemon=True) for one in self._closing]
        self._closing.clear()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(CLOSE_S)

    def close_on_loops(self) -> None:
        """Stop the clients whose event loop is open but does not run, as after a coroutine test."""
        for loop, client in self._loops:
            if not loop.is_closed() and not loop.is_running():
                loop.run_until_complete(_stopped(client))
        self._loops.clear()

    async def close_here(self) -> None:
        """Stop the clients that were made on the running event loop."""
        here = asyncio.get_running_loop()
        await asyncio.gather(*[_stopped(client) for loop, client in self._loops if loop is here])
        self._loops = [(loop, client) for loop, client in self._loops if loop is not here]


def _check_names(call: str, topics: Iterable[object]) -> None:
    for topic in topics:
        if not isinstance(topic, str):
            raise WrongType(f"{call}(): topics are names, not {type(topic).__name__}")


def leave_and_close(consumer: Any) -> None:
    """Make a consumer of confluent-kafka leave its group, then close it. If an assignment arrives
    while it closes, librdkafka 2.16.1 may wait for ever and hold Python's global lock. Then the
    whole process stands still (docs/clients.md). Partitions are paused first, because a record that
    `poll` returns counts as read."""
    try:
        consumer.pause(consumer.assignment())
        consumer.unsubscribe()
        consumer.poll(0)
        for _ in range(_POLLS):
            if not consumer.assignment():
                break
            consumer.poll(_POLL_S)
    finally:
        consumer.close()


def _quietly(close: Callable[[], object]) -> None:
    with suppress(Exception):  # already closed, or it cannot be closed: the test has ended
        close()


async def _stopped(client: Any) -> None:
    with suppress(Exception):  # as in `_quietly`
        async with asyncio.timeout(CLOSE_S):
            await client.stop()


class ClientCalls(SpellingHints):
    """Calls that make clients, or settings for clients. They raise HarnessError for unknown users
    and libraries."""

    _own_clients: OwnClients
    _call: Call

    @property
    def bootstrap_servers(self) -> str:
        raise NotImplementedError

    def consumer(
        self,
        group: str,
        *topics: str,
        library: str | None = None,
        protocol: GroupProtocol = CLASSIC,
        user: str | None = None,
        mechanism: MechanismName | None = None,
        settings: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        """A consumer of the group that subscribes to `topics` and is closed at the end of the test.

        `library`: "confluent-kafka" or "aiokafka"; None = the first of them that is installed. A
        consumer of aiokafka is made in a coroutine, and started by `async with` or `await
        consumer.start()`. `protocol`: "classic" or "consumer". `user`, `mechanism`: how it logs in.

        It has the settings of `client_config`, and begins at the earliest record. Further settings
        are keywords, with underscores where confluent-kafka has dots, or a dictionary `settings`.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.consumer("billing", "orders", enable_auto_commit=False)
        >>> consumer.poll(10).value()
        b'coffee'

        >>> async def read():
        ...     async with groupd.consumer("audit", "orders", library="aiokafka") as consumer:
        ...         return (await consumer.getone()).value
        >>> asyncio.run(read())
        b'coffee'
        """
        check_arguments(ClientCalls.consumer, (group,), {"library": library})
        _check_names("consumer", topics)
        used = library_for(library)
        made = self.client_config(used, user=user, mechanism=mechanism, protocol=protocol)
        made |= spelled(used, {"group_id": group, "auto_offset_reset": "earliest"} | more)
        return self._own_clients.consumer(used, topics, made | dict(settings or {}))

    def share_consumer(
        self,
        group: str,
        *topics: str,
        user: str | None = None,
        mechanism: MechanismName | None = None,
        settings: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        """A ShareConsumer of confluent-kafka, a member of the share group, that subscribes to
        `topics` and is closed at the end of the test. The group begins at the earliest record
        unless its config `share.auto.offset.reset` is set. The other arguments are those of
        `consumer`. Raises HarnessError if confluent-kafka is not installed, or too old (before
        2.15).

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> [message.value() for message in consumer.poll(10)]
        [b'coffee']
        """
        check_arguments(ClientCalls.share_consumer, (group,), {"user": user})
        _check_names("share_consumer", topics)
        used = library_for(DEFAULT_LIBRARY)
        if not hasattr(import_module(MODULES[used]), "ShareConsumer"):
            raise HarnessError(f"{used} has no ShareConsumer: pip install '{used}>=2.15'")
        made = self.client_config(used, user=user, mechanism=mechanism, protocol="share")
        made |= spelled(used, {"group_id": group} | more) | dict(settings or {})
        self._call("begin_share", group)
        return self._own_clients.share_consumer(topics, made)

    def producer(
        self,
        *,
        library: str | None = None,
        user: str | None = None,
        mechanism: MechanismName | None = None,
        settings: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Any:
        """A producer that is flushed and closed at the end of the test; the arguments are those of
        `consumer`. To put records into a topic without a client, use `produce`.

        >>> producer = groupd.producer(linger_ms=0)
        >>> producer.produce("orders", b"coffee")
        >>> producer.flush(10)
        0
        """
        used = library_for(library)
        made = self.client_config(used, user=user, mechanism=mechanism, role="producer")
        made |= spelled(used, more) | dict(settings or {})
        return self._own_clients.producer(used, made)

    def close_clients(self) -> None:
        """Close the clients of `consumer` and `producer` now, not at the end of the test. Faults
        are removed first, because a client that waits for an answer does not close.

        >>> consumer = groupd.consumer("billing", "orders")
        >>> groupd.close_clients()
        """
        if self._own_clients.any_open:
            with suppress(HarnessError):  # a broker whose process is gone has no faults
                self._call("remove_faults")
                self._call("release_appends")
            self._own_clients.close()
        if not on_a_loop():
            self._own_clients.close_on_loops()

    def client_config(
        self,
        library: str,
        *,
        user: str | None = None,
        mechanism: MechanismName | None = None,
        protocol: GroupProtocol = CLASSIC,
        role: ClientRole = "consumer",
    ) -> dict[str, Any]:
        """Settings for a client that the code under test makes. docs/testing.md lists the
        libraries, and their settings with the reasons.

        `user`, `mechanism`: how the client logs in. The first argument may also be a user, as in
        `client_config("billing")`: then the library is confluent-kafka.

        >>> consumer = Consumer(groupd.client_config("confluent-kafka") | {"group.id": "billing"})
        >>> groupd.client_config("aiokafka", role="producer")
        {'bootstrap_servers': '127.0.0.1:...', 'retry_backoff_ms': 20}
        """
        given = {"user": user, "mechanism": mechanism, "protocol": protocol, "role": role}
        check_arguments(ClientCalls.client_config, (library,), given)
        if user is None and library not in LIBRARIES and library in self._call("users"):
            library, user = DEFAULT_LIBRARY, library
        made = client_config(library, self.bootstrap_servers, protocol=protocol, role=role)
        login = self._call("login", user, mechanism)
        token = partial(self._call, "token", user)
        token_file = partial(self._call, "token_file", user)
        return made | security_settings(library, login, token, token_file)

    def client_properties(self, user: str | None = None, **given: Any) -> str:
        """The text of a `.properties` file for the Java client, and for Kafka's tools with
        --command-config. The other arguments are those of `client_config`.

        >>> print(groupd.client_properties(role="producer"))
        bootstrap.servers=127.0.0.1:...
        """
        return as_properties(self.client_config("java", user=user, **given))
