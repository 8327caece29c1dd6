"""What the leaders of share-partitions count for metrics, and the latest events for people
(docs/spec/share-group.md#7)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable

from msgspec import Struct

from groupd.coordinator.share_partitions.runs import DeliveryEnd
from groupd.protocol.messages import TopicId

EVENTS_MAX = 1000
"""How many events are kept: of records that were archived, and of others."""


ARCHIVED_EVENT = "archived"
ACQUIRED_BY_MEMBER = "acquired"
"""A member has acquired records. Only listeners get this event."""
LOADED = "loaded"
"""A share-partition was loaded: none of its records is locked. Only listeners get this event."""


class ShareEvent(Struct, frozen=True):
    """Records have reached a state. `what`: "accepted", "released", "expired" or "archived", and
    for archived records `why`. `delivery_count`: 0 if the event does not tell it. `member_id`: who
    has acquired them; "" for other events."""

    wall_ms: int
    group_id: str
    topic_id: TopicId
    partition: int
    first_offset: int
    last_offset: int
    what: str
    why: str = ""
    delivery_count: int = 0
    member_id: str = ""


class ShareCounts:
    """Counts since the start. `acknowledged`: records by type of acknowledgement. `accepted`,
    `archived`: records that are not delivered any more, the archived ones by the reason."""

    def __init__(self) -> None:
        self.fetch_requests = self.failed_fetch_requests = 0
        self.acknowledge_requests = self.failed_acknowledge_requests = 0
        self.acknowledged: Counter[int] = Counter()
        self.accepted = 0
        self.archived: Counter[DeliveryEnd] = Counter()
        self.lock_timeouts = 0
        self.sessions_evicted = 0
        """Sessions that have ended with their connection."""
        self.polls_expired = 0
        """ShareFetch requests that were answered because their wait was over."""
        self.loads = self.load_ms = 0
        """How many share-partitions were loaded, and the milliseconds that this took together."""
        self.dead_letters = self.dead_letter_requests = self.failed_dead_letter_requests = 0
        self.dead_letters_lost = 0
        """Records that have no copy, or one without the key and value that the group wants."""
        self.events: deque[ShareEvent] = deque(maxlen=EVENTS_MAX)
        self.archived_events: deque[ShareEvent] = deque(maxlen=EVENTS_MAX)
        """Those are few, and people look for them: the many others must not push them out."""
        self.listeners: list[Callable[[ShareEvent], None]] = []
        """They get every event at once, also those that are not kept. They must not raise."""

    def tell(self, event: ShareEvent) -> None:
        """Keep an event."""
        (self.archived_events if event.what == ARCHIVED_EVENT else self.events).append(event)
        if self.listeners:
            self.tell_listeners(event)

    def tell_listeners(self, event: ShareEvent) -> None:
        for listener in self.listeners:
            listener(event)
