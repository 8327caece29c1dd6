"""Forgets idle producers, in the logs of topics and of shards.

The rule is Kafka's: every `producer_id_expiration_check_interval_ms` a producer is forgotten if it
has no open transaction and if its last batch is `producer.id.expiration.ms` old by its timestamps.
If it writes again it is treated like a new producer. Logs are checked in slices.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.runtime.clock import Alarm, Clock

TURN_PRODUCERS = 2000
"""How many producers, or logs without any, are checked between two turns for other work: below a
millisecond."""

Logs = Callable[[], Iterable[ProducerStates]]


class ProducerExpiry:
    """Forgets idle producers between `start` and `close`. `logs`: functions that return the
    producers of each log at the time of a check. More functions may be added."""

    def __init__(self, config: CoordinatorConfig, clock: Clock, logs: Logs) -> None:
        self.logs: list[Logs] = [logs]
        self.expired = 0
        self._config = config
        self._clock = clock
        self._alarm = Alarm(clock, self._check)
        self._checking: asyncio.Task[None] | None = None

    def start(self) -> None:
        interval_ms = self._config.producer_id_expiration_check_interval_ms
        self._alarm.at_latest(self._clock.now().monotonic_ms + interval_ms)

    async def close(self) -> None:
        self._alarm.cancel()
        if self._checking is not None:
            self._checking.cancel()
            await asyncio.wait([self._checking])

    def _check(self) -> None:
        self._checking = asyncio.get_running_loop().create_task(self._expire())

    async def _expire(self) -> None:
        before_ms = self._clock.now().wall_ms - self._config.producer_id_expiration_ms
        looked_at = 0
        for producers in [each for logs in self.logs for each in logs()]:
            looked_at += 1 + producers.count
            self.expired += producers.expire(before_ms)
            if looked_at >= TURN_PRODUCERS:
                looked_at = 0
                await asyncio.sleep(0)
        self._checking = None
        self.start()
