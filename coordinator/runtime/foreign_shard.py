"""A shard that another node of the cluster serves: whoever asks here asks the wrong node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from groupd.coordinator.core.types import RequestContext, RequestToken
from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.producers.transactions import Marker
from groupd.coordinator.runtime.shard_state import REFUSALS, ShardState
from groupd.coordinator.runtime.waiting import WaitingRequests


class ForeignShard:
    """Stands where a `ShardRuntime` would; refuses everything with NOT_COORDINATOR, at which
    clients look for the coordinator again."""

    state = ShardState.CLOSED

    def __init__(self, partition: int, waiting: WaitingRequests) -> None:
        self.partition = partition
        self.producers = ProducerStates()
        self._waiting = waiting

    def handle(self, context: RequestContext, request: Any) -> None:
        self._waiting.fail(context.token, REFUSALS[self.state])

    def write_marker(self, marker: Marker, token: RequestToken) -> None:
        self._waiting.fail(token, REFUSALS[self.state])

    def set_group_configs(self, group_id: str, configs: Mapping[str, str]) -> None:
        """The other node hears of them too."""
