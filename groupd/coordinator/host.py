"""What a daemon stands on: time, identifiers, the store, and the loop that its work runs on.

`Host` is the plain one: everything as it is, nothing in between. A recorder
(`coordinator.recording.recorder`) and a replay put another one in its place; what a daemon does
then depends on its inputs alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime import clock as system
from groupd.coordinator.runtime.clock import Clock, SystemClock, elapsed_ns
from groupd.coordinator.server.connection import Connection
from groupd.protocol.messages import TopicId
from groupd.storage.log import Store

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

T = TypeVar("T")


class Host:
    """Uses the running event loop and the operating system's entropy."""

    connection: Callable[..., Connection] = Connection
    """Makes the protocol object of an accepted socket."""

    slices: Callable[[], int] = staticmethod(elapsed_ns)
    """The clock, in nanoseconds, that cuts long work into slices."""

    def clock(self, clock: Clock) -> Clock:
        """The time of groups, offsets and records, made from the given one. The same clock gives
        the same object."""
        return clock

    def elapsed(self) -> Callable[[], Instant]:
        """The clock of real time. Long polls are measured by it, as their clients do."""
        return SystemClock().now

    def new_id(self) -> str:
        return system.new_id()

    def new_topic_id(self) -> TopicId:
        return system.new_topic_id()

    async def open(self, store: Store, config: CoordinatorConfig) -> Store:
        """Start the store. Returns the one for the broker. Raises StoreRefused, LogError."""
        await store.start()
        return store

    async def run(
        self, name: str, work: Callable[[], Coroutine[Any, Any, T]], **facts: object
    ) -> T:
        """Run a stage of the daemon's life. Returns or raises what `work()` does. `facts`: what it
        depends on beside the store."""
        return await work()

    def call(self, name: str, act: Callable[[], T], **facts: object) -> T:
        """Make an intervention from outside, such as a fault: gives or raises what `act()` does."""
        return act()

    async def wait_for(self, name: str, work: Callable[[], Awaitable[T]], **facts: object) -> T:
        """Does what `call` does, for an intervention that takes a while."""
        return await work()

    def answered(self, resolve: Callable[[Any], None]) -> Callable[[Any], None]:
        """`resolve` for the reply to the request that is just being made by `call`."""
        return resolve

    def collectors(self) -> list[Callable[[], Collector]]:
        """Makers of the host's own metrics."""
        return []

    async def close(self) -> None:
        """Called after the last daemon has stopped."""
