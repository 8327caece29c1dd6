"""What a daemon gets from outside: time, identifiers, the store, and the event loop.

`Host` uses the real ones directly. A recorder (`coordinator.recording.recorder`) or a replay puts
another host in its place, so that what the daemon does depends only on its inputs.
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
    """Makes the protocol object for an accepted socket."""

    slices: Callable[[], int] = staticmethod(elapsed_ns)
    """The clock in nanoseconds by which long work is cut into slices."""

    def clock(self, clock: Clock) -> Clock:
        """The clock for groups, offsets and records, made from `clock`. The same clock gives the
        same object."""
        return clock

    def elapsed(self) -> Callable[[], Instant]:
        """The clock of real time. It measures long polls, as clients do."""
        return SystemClock().now

    def new_id(self) -> str:
        return system.new_id()

    def new_topic_id(self) -> TopicId:
        return system.new_topic_id()

    async def open(self, store: Store, config: CoordinatorConfig) -> Store:
        """Start the store. Returns the store that the broker is to use. Raises StoreRefused,
        LogError."""
        await store.start()
        return store

    async def run(
        self, name: str, work: Callable[[], Coroutine[Any, Any, T]], **facts: object
    ) -> T:
        """Run a stage of the daemon's life. Returns or raises what `work()` does. `facts`: what the
        stage depends on besides the store."""
        return await work()

    def call(self, name: str, act: Callable[[], T], **facts: object) -> T:
        """Make an intervention from outside, such as a fault. Returns or raises what `act()`
        does."""
        return act()

    async def wait_for(self, name: str, work: Callable[[], Awaitable[T]], **facts: object) -> T:
        """Like `call`, for an intervention that takes a while."""
        return await work()

    def answered(self, resolve: Callable[[Any], None]) -> Callable[[Any], None]:
        """Returns the callback for the reply to the request that `call` is making: here `resolve`
        itself."""
        return resolve

    def collectors(self) -> list[Collector]:
        """The metrics of the host itself."""
        return []

    async def close(self) -> None:
        """Release what the host holds. Called after the last daemon has stopped."""
