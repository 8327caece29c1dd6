"""Soft state that a feature keeps with the leader of a partition, and its timers. It is in no log.

It is made on first use and lives as long as the partition's log stays open here. It is dropped when
another node is to lead the partition, when the node's lease is over, when the topic is deleted,
after a failed append, and when the node stops. The next leader begins with new state, and with what
the feature has made durable elsewhere.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

import structlog

from groupd.coordinator.core.deadlines import DeadlineKey, Deadlines
from groupd.coordinator.core.types import Instant
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.shard_timers import DeadlineTimer
from groupd.coordinator.topics.partition import PartitionLog
from groupd.coordinator.topics.partitions import Partitions
from groupd.protocol.errors import ApiError, ErrorCode

log = structlog.get_logger("groupd.topics")


class PartitionState(ABC):
    """The state that one feature keeps for one partition. A subclass limits what clients can put
    into it, and the deadlines that it sets."""

    def __init__(self, partition: PartitionLog, clock: Clock) -> None:
        self.partition = partition
        self.deadlines = Deadlines()
        """See `core.deadlines`; the group in a key may be any name. Call `arm` after a change."""
        self._timer = DeadlineTimer(clock, self._running, self._expire)

    @abstractmethod
    def expire(self, key: DeadlineKey, now: Instant) -> None:
        """A deadline is over, and is no longer set. If this raises, the deadline comes again."""

    @abstractmethod
    def dropped(self) -> None:
        """The partition has another leader, or its log was closed. No more deadlines come. Answer
        the requests that wait for this state."""

    def arm(self) -> None:
        """Set the timer for the earliest deadline."""
        self._timer.arm()

    def drop(self) -> None:
        """Give the state up. Only `PartitionStates` calls it."""
        self._timer.cancel()
        try:
            self.dropped()
        except Exception:
            # The caller still has to drop the states of other features.
            log.exception("the state of a partition cannot be given up", log=self.partition.name)

    def _running(self) -> Deadlines | None:
        return None if self.partition.closed else self.deadlines

    def _expire(self, key: DeadlineKey, now: Instant) -> bool:
        try:
            self.expire(key, now)
        except Exception:
            log.exception("a deadline failed", log=self.partition.name, key=key)
            return False
        return True


P = TypeVar("P", bound=PartitionState)


class PartitionStates(Generic[P]):
    """The states of one feature, at most one for each open partition. `make(partition)` makes a
    state."""

    def __init__(self, partitions: Partitions, make: Callable[[PartitionLog], P]) -> None:
        self._make = make
        self._states: dict[PartitionLog, P] = {}
        partitions.on_drop.append(self._on_drop)

    def __len__(self) -> int:
        return len(self._states)

    def get(self, partition: PartitionLog) -> P | None:
        """The state, if it was used before."""
        return self._states.get(partition)

    def of(self, partition: PartitionLog) -> P:
        """The state, which is made on first use. Raises ApiError NOT_LEADER_OR_FOLLOWER if the
        partition was closed since the caller looked it up."""
        state = self._states.get(partition)
        if state is None:
            if partition.closed:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the partition was closed")
            state = self._states[partition] = self._make(partition)
        return state

    def _on_drop(self, partition: PartitionLog) -> None:
        state = self._states.pop(partition, None)
        if state is not None:
            state.drop()
