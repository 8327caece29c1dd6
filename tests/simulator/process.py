"""The broker process under test: started, frozen, stopped and killed at will.

Everything between the sockets and the store is the real thing: routes, front-end checks, shards,
journals, writer, loader. Only the clock, the ids, the event loop and the disk are simulated.
"""

from __future__ import annotations

import traceback
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import structlog

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.assignors.loader import load_assignors
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.state import ShardState as CoreState
from groupd.coordinator.core.types import Instant, RequestContext
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.routes import ROUTES
from groupd.coordinator.runtime.shard_runtime import GroupLogShard
from groupd.coordinator.runtime.waiting import Callback, Waiter, WaitingRequests
from groupd.protocol.wire.apis import API_BY_KEY
from tests.simulator.disk import Disk, DiskClient
from tests.simulator.loop import VirtualLoop, VirtualTimer
from tests.simulator.options import Options
from tests.simulator.world import Violation, World

_FAILURES = {api.request_type: api.failure for api in API_BY_KEY.values()}

EXPECTED_ERRORS = frozenset(
    {
        "append failed",
        "shard cannot be loaded",
        "share-state cannot be loaded",
        "transactions cannot be loaded",
        "the logs of share-partitions cannot be opened",
        "the logs of transactional ids cannot be opened",
    }
)


class LogCapture:
    """Takes the place of the log: an error that is no consequence of a fault is a violation."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def __call__(self, logger: Any, method: str, event: dict[str, Any]) -> Mapping[str, Any]:
        if method == "error" and not self._expected(event):
            cause = traceback.format_exc() if event.pop("exc_info", None) else ""
            self.errors.append(f"{event}\n{cause}")
        raise structlog.DropEvent

    @staticmethod
    def _expected(event: Mapping[str, Any]) -> bool:
        if event["event"] not in EXPECTED_ERRORS or "exc_info" in event:
            return False
        reason = str(event.get("reason"))
        return "simulated" in reason or "unknown" in reason or "fenced" in reason


class StrictWaiting(WaitingRequests):
    """Answering a waiter twice is a violation, not a shrug."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self._over: set[Waiter] = set()

    def pop(self, waiter: Waiter, *default: Any) -> Any:  # type: ignore[override]
        if waiter in self:
            self._over.add(waiter)
        elif waiter in self._over:
            twice = Violation(f"{waiter.request} is answered twice")
            self._world.failure = self._world.failure or twice
        return super().pop(waiter, *default)


class SimulatedClock:
    """The process's clocks: monotonic time starts anywhere and leaves out what the process was
    frozen for, wall time can be set."""

    def __init__(self, world: World, loop: VirtualLoop, base_ms: int) -> None:
        self.wall_offset_ms = 1_800_000_000_000
        self._world = world
        self._loop = loop
        self._base_ms = base_ms

    def now(self) -> Instant:
        return Instant(self.monotonic_ms(), self._world.now_ms + self.wall_offset_ms)

    def monotonic_ms(self) -> int:
        return self._world.now_ms + self._base_ms - self._loop.lost_ms

    def call_at(self, monotonic_ms: int, callback: Callable[[], None]) -> VirtualTimer:
        return VirtualTimer(self._world, self._loop, monotonic_ms - self._base_ms, callback)


class Process:
    """One life of the broker."""

    def __init__(
        self,
        world: World,
        options: Options,
        config: CoordinatorConfig,
        disk: Disk,
        image: MetadataImage,
        group_configs: Mapping[str, Mapping[str, str]],
        wall_offset_ms: int,
    ) -> None:
        self.world = world
        self.alive = True
        self.started_ms = world.now_ms
        self.loop = VirtualLoop(world)
        self.clock = SimulatedClock(world, self.loop, world.between(0, 10**7))
        self.clock.wall_offset_ms = wall_offset_ms
        self.waiting = StrictWaiting(world)
        self._config = config
        self._assignors = load_assignors(config.consumer_assignors)
        self._disk = DiskClient(disk, world, options, self.loop)
        self.broker: Broker
        self.loop.enter(self._start, image, group_configs)

    def _start(self, image: MetadataImage, configs: Mapping[str, Mapping[str, str]]) -> None:
        self.broker = Broker(
            self._config,
            self._make_shard,
            self._disk,  # type: ignore[arg-type]
            self.clock,
            ROUTES,
            work=LongWork(lambda: 0),
        )
        self.broker.waiting = self.waiting
        self.broker.image = image
        for group_id, overrides in sorted(configs.items()):
            self.broker.on_group_configs(group_id, overrides)
        self.broker.start_writer()
        self.loop.create_task(self.broker.load(), name="load")

    def _make_shard(
        self, image: MetadataImage, overrides: Mapping[str, Mapping[str, str]]
    ) -> GroupCoordinatorShard:
        return GroupCoordinatorShard(
            CoreState(
                config=self._config,
                new_id=self._new_id,
                assignors=self._assignors,
                image=image,
                group_configs={group: dict(values) for group, values in overrides.items()},
            )
        )

    def _new_id(self) -> str:
        return str(uuid.UUID(int=self.world.random.getrandbits(128)))

    # Inputs

    def submit(
        self,
        request: Any,
        version: int,
        client_id: str,
        resolve: Callable[[Any], None],
        took: Callable[[Waiter], None],
    ) -> None:
        """Hands a request to the broker, inside `loop.enter`. `took(waiter)` comes after the
        handling."""
        waiter = Callback(request, _FAILURES[type(request)], resolve)
        self.broker.submit(RequestContext(waiter, version, client_id), request)
        took(waiter)

    def on_metadata(self, delta: MetadataDelta) -> None:
        self.loop.enter(lambda: self.broker.on_metadata(delta))

    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        self.loop.enter(lambda: self.broker.on_group_configs(group_id, configs))

    def shard_of(self, group_id: str) -> GroupLogShard | None:
        """None while the logs of the shards are opened."""
        return self.broker.own_shard_of(group_id)

    def group(self, group_id: str) -> Group | None:
        shard = self.shard_of(group_id)
        return None if shard is None else shard.shard.state.groups.get(group_id)

    # Ends

    def stop(self, stopped: Callable[[], None]) -> None:
        """An orderly end: `stopped` runs inside the process when all is written and answered."""

        async def close() -> None:
            await self.broker.close()
            stopped()

        self.loop.enter(lambda: self.loop.create_task(close(), name="close"))

    def kill(self) -> None:
        self.alive = False
        self.loop.kill()
