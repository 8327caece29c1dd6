"""What the leaders of share-partitions count for metrics, and the latest events for people
(docs/spec/share-group.md#7)."""

from __future__ import annotations

from collections import Counter, deque

from msgspec import Struct

from groupd.coordinator.share_partitions.runs import DeliveryEnd
from groupd.protocol.messages import TopicId

EVENTS_MAX = 1000
"""How many events are kept."""


class ShareEvent(Struct, frozen=True):
    """Records have reached a state. `what`: "accepted", "released", "expired" or "archived", and
    for archived records `why`."""

    wall_ms: int
    group_id: str
    topic_id: TopicId
    partition: int
    first_offset: int
    last_offset: int
    what: str
    why: str = ""


class ShareCounts:
    """Counts since the start. `acknowledged`: records by type of acknowledgement. `finished`:
    records that are not delivered any more, by the reason."""

    def __init__(self) -> None:
        self.fetch_requests = self.failed_fetch_requests = 0
        self.acknowledge_requests = self.failed_acknowledge_requests = 0
        self.acknowledged: Counter[int] = Counter()
        self.finished: Counter[DeliveryEnd] = Counter()
        self.lock_timeouts = 0
        self.sessions_evicted = 0
        """Sessions that have ended with their connection."""
        self.polls_expired = 0
        """ShareFetch requests that were answered because their wait was over."""
        self.loads = self.load_ms = 0
        """How many share-partitions were loaded, and the milliseconds that this took together."""
        self.dead_letters = self.dead_letter_requests = self.failed_dead_letter_requests = 0
        self.events: deque[ShareEvent] = deque(maxlen=EVENTS_MAX)
