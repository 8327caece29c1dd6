"""The states of a shard, the error for each of them, what shards share, and what stands for a shard
that is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from enum import Enum
from typing import Any

from msgspec import Struct, field

from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.types import Event, RequestContext
from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.producers.transactions import Marker
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.outside_calls import OutsideCalls
from groupd.coordinator.runtime.stats import Durations
from groupd.coordinator.runtime.waiting import Waiter
from groupd.coordinator.runtime.writer import LogWriter
from groupd.protocol.errors import ErrorCode
from groupd.storage.log import PartitionLogs


class CoordinatorState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


REFUSALS = {
    CoordinatorState.LOADING: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    CoordinatorState.FAILED: ErrorCode.NOT_COORDINATOR,
    CoordinatorState.CLOSED: ErrorCode.NOT_COORDINATOR,
}


def count_states(states: Iterable[CoordinatorState]) -> dict[str, int]:
    """How many shards are in each state, without those that are closed."""
    counts = dict.fromkeys(("loading", "active", "failed"), 0)
    for state in states:
        if state is not CoordinatorState.CLOSED:
            counts[state.value] += 1
    return counts


def _no_events(number: int, events: list[Event]) -> None:
    pass


class RuntimeParts(Struct, frozen=True):
    """What all shards of a kind share. `on_progress(number)`: the high watermark of a shard has
    moved, or its state has changed. `may_answer()`: whether this node may answer from memory now;
    None: it always may.
    `on_events(number, events)`: takes the events of a machine. `processing`: how long requests
    took. `work`: where tasks run. `calls`: what answers the calls of machines."""

    writer: LogWriter
    clock: Clock
    on_progress: Callable[[int], None]
    may_answer: Callable[[], bool] | None
    on_events: Callable[[int, list[Event]], None] = _no_events
    processing: Durations = field(default_factory=Durations)
    work: LongWork = field(default_factory=LongWork)
    calls: OutsideCalls = field(default_factory=OutsideCalls)


class GroupShardParts(Struct, frozen=True):
    """What all shards of groups share: the `parts` of every shard, and more."""

    make_shard: Callable[[], GroupCoordinatorShard]
    bring_up_to_date: Callable[[GroupCoordinatorShard], None]
    logs: PartitionLogs
    parts: RuntimeParts


class AbsentShard:
    """Takes the place of a `GroupLogShard` that this process does not have, and refuses every
    request. CLOSED: another node of the cluster serves it; with NOT_COORDINATOR clients look for
    the coordinator again. LOADING: its log is not open yet."""

    def __init__(self, partition: int, state: CoordinatorState) -> None:
        self.partition = partition
        self.state = state
        self.producers = ProducerStates()

    def handle(self, context: RequestContext, request: Any) -> None:
        context.token.fail(REFUSALS[self.state])

    def write_marker(self, marker: Marker, waiter: Waiter) -> None:
        waiter.fail(REFUSALS[self.state])

    def topics_of(self, group_id: str) -> Mapping[str, Sized]:
        """Returns no topics: this process does not have the groups of this shard."""
        return {}
