"""The states of a shard at work, what each of them answers, and the shard of another node."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from enum import Enum
from typing import Any

from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.producers.transactions import Marker
from groupd.coordinator.runtime.waiting import Waiter
from groupd.protocol.errors import ErrorCode


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


class ForeignShard:
    """A shard that another node of the cluster serves. It stands where a `ShardRuntime` would and
    refuses everything with NOT_COORDINATOR, so that clients look for the coordinator again."""

    state = CoordinatorState.CLOSED

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.producers = ProducerStates()

    def handle(self, context: RequestContext, request: Any) -> None:
        context.token.fail(REFUSALS[self.state])

    def write_marker(self, marker: Marker, waiter: Waiter) -> None:
        waiter.fail(REFUSALS[self.state])

    def topics_of(self, group_id: str) -> Mapping[str, Sized]:
        """No topics: a shard that is served elsewhere has no groups here."""
        return {}

    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Nothing to do: the other node hears of them too."""
