"""The end of a transaction in one shard: pending offsets are decided, the marker is written.

As with any write, memory changes at once, and the answer waits for the log. Whoever reads one of
the groups concerned waits for the marker too. If the append fails the shard is rebuilt from the
log, so there is nothing to take back here.
"""

from __future__ import annotations

from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.types import Instant, RequestToken
from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.producers.transactions import Marker
from groupd.coordinator.runtime.journal import Journal
from groupd.protocol.errors import ErrorCode


def end_transaction(
    marker: Marker,
    token: RequestToken,
    shard: GroupCoordinatorShard,
    producers: ProducerStates,
    journal: Journal,
    now: Instant,
) -> None:
    """`token` gets NONE once the marker is durable. Raises ApiError INVALID_PRODUCER_EPOCH or
    TRANSACTION_COORDINATOR_FENCED before anything has changed."""
    producers.check_marker(marker)
    groups = shard.groups_in_transaction(marker.producer_id)
    shard.replay_marker(marker.producer_id, marker.committed)
    producers.marked(marker, journal.next_offset, now.wall_ms)
    journal.accept_marker(marker, groups, [(token, ErrorCode.NONE)], now.monotonic_ms)
