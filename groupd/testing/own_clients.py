"""Clients of confluent-kafka and aiokafka that `GroupCoordinator.consumer` and `producer` make.
They are closed with the broker, or before.

Neither library is imported before a client is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from threading import Thread
from typing import Any

from groupd.coordinator.faults.errors import HarnessError
from groupd.coordinator.suggest import did_you_mean

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""

AIOKAFKA = "aiokafka"
MODULES = {"confluent-kafka": "confluent_kafka", AIOKAFKA: "aiokafka"}
"""The libraries that clients are made of, and their modules. The first that is installed is used
unless a test names one."""

CLOSE_S = 10.0
"""How many seconds the end of a test waits for a client to close."""
_POLLS, _POLL_S = 5, 0.02
"""How many times a consumer is asked, and for how long each, until it has left its group. There is
an end to it, because a consumer that got its partitions by `assign` keeps them."""


def library_for(wanted: str | None) -> str:
    """The library to use. Raises HarnessError when it, or every one, is missing."""
    if wanted is not None and wanted not in MODULES:
        hint = did_you_mean(wanted, MODULES)
        raise HarnessError(f"library {wanted!r}{hint}: must be {' or '.join(MODULES)}")
    for library in MODULES if wanted is None else (wanted,):
        if find_spec(MODULES[library]) is not None:
            return library
    names = wanted or " or ".join(MODULES)
    raise HarnessError(f"{names} is not installed: pip install {wanted or next(iter(MODULES))}")


def spelled(library: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that were given as keywords, as the library spells them: confluent-kafka has dots
    where Python has underscores, but not in the names of functions (`error_cb`) and of `logger`."""
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
        close in `CLOSE_S` is left behind. One that the test has closed already is no mistake."""
        threads = [Thread(target=_quietly, args=(one,), daemon=True) for one in self._closing]
        self._closing.clear()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(CLOSE_S)

    def close_on_loops(self) -> None:
        """Stop the clients whose event loop is there and does not run, as after a coroutine
        test."""
        for loop, client in self._loops:
            if not loop.is_closed() and not loop.is_running():
                loop.run_until_complete(_stopped(client))
        self._loops.clear()

    async def close_here(self) -> None:
        """Stop the clients of the running event loop."""
        here = asyncio.get_running_loop()
        await asyncio.gather(*[_stopped(client) for loop, client in self._loops if loop is here])
        self._loops = [(loop, client) for loop, client in self._loops if loop is not here]


def leave_and_close(consumer: Any) -> None:
    """Make a consumer of confluent-kafka leave its group, and close it then. If an assignment comes
    while it closes, librdkafka 2.16.1 may wait for ever and keep Python's lock, and the whole
    process stands still (docs/clients.md). Partitions are paused first, because a record
    that `poll` returns counts as read."""
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
    with suppress(Exception):  # closed already, or beyond help: the test has ended
        close()


async def _stopped(client: Any) -> None:
    with suppress(Exception):  # as above
        async with asyncio.timeout(CLOSE_S):
            await client.stop()
