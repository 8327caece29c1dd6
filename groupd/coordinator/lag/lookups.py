"""When records were written that were there before the first round: looked up in the logs.

Each look-up reads one batch from the store, so a round makes only as many as a part of the time
between rounds allows, one after the other. The partitions of the groups with the most lag come
first. Until a partition has had its turn, its records count as old as the first round.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import structlog
from msgspec import Struct

from groupd.coordinator.core.slices import Pace, Steps, sorted_in_steps
from groupd.coordinator.lag.growth import Growth, LogEnds
from groupd.coordinator.lag.judgement import monotonic_of
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.long_work import LongWork
from groupd.protocol.messages import TopicPartition
from groupd.storage.log import LogCorrupt, LogError

log = structlog.get_logger("groupd.lag")

TIME_SHARE = 5
"""Look-ups may take this part of the time between two rounds: one fifth."""

FAILURES_MAX = 10
"""After so many failures in one round the store is left alone until the next one."""


class _Wanted(Struct, gc=False):
    """The first record whose time is wanted, and the lag of the group that waits for it."""

    offset: int
    lag: int


Growths = Mapping[str, Mapping[int, Growth]]
"""By topic and partition."""


class AgeLookups:
    """`interval_ms`: the time between two rounds. A partition whose look-up fails does not keep the
    others from theirs: it comes last from then on. One whose log is damaged there is not asked
    again."""

    def __init__(self, logs: LogEnds, clock: Clock, work: LongWork, interval_ms: int) -> None:
        self._logs = logs
        self._clock = clock
        self._work = work
        self._time_ms = interval_ms // TIME_SHARE
        self._wanted: dict[TopicPartition, _Wanted] = {}
        self._failed: set[TopicPartition] = set()

    def begin(self) -> Steps[None]:
        """A round begins: what was wanted in the last one and is still wanted is told again."""
        pace = Pace()
        while self._wanted:
            self._wanted.popitem()
            if pace.due():
                yield

    def want(self, place: TopicPartition, offset: int, lag: int) -> None:
        """The time of the record at `offset`, for a group with `lag` records in all."""
        known = self._wanted.get(place)
        if known is None:
            self._wanted[place] = _Wanted(offset, lag)
            return
        known.offset = min(known.offset, offset)
        known.lag = max(known.lag, lag)

    async def run(self, growths: Growths) -> None:
        """Look up as many as there is time for, and tell `growths`."""
        self._failed = {place for place in self._failed if place in self._wanted}
        failures = 0
        until_ms = self._clock.monotonic_ms() + self._time_ms
        for _, _, place in await self._work.run(sorted_in_steps(self._in_order())):
            failures += not await self._look_up(place, growths)
            if failures >= FAILURES_MAX or self._clock.monotonic_ms() >= until_ms:
                return

    def _in_order(self) -> Iterator[tuple[bool, int, TopicPartition]]:
        for place, one in self._wanted.items():
            yield place in self._failed, -one.lag, place

    async def _look_up(self, place: TopicPartition, growths: Growths) -> bool:
        """Whether the store could be asked."""
        (topic, number), offset = place, self._wanted[place].offset
        try:
            written_ms = await self._logs.written_ms(topic, number, offset)
        except LogCorrupt as error:
            log.warning(
                "a record has no known age", topic=topic, partition=number, error=str(error)
            )
            written_ms = None
        except LogError as error:
            if place not in self._failed:
                self._failed.add(place)
                log.warning(
                    "the age of records is not known yet",
                    topic=topic,
                    partition=number,
                    error=str(error),
                )
            return False
        now = self._clock.now()
        growth = growths.get(topic, {}).get(number)
        if growth is not None:
            if written_ms is None or written_ms < 0:
                written_ms = now.wall_ms  # nobody knows: it is as old as the first round
            growth.seed(offset, monotonic_of(written_ms, now))
        return True
