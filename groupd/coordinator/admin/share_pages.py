"""The page `/groups/{id}/share` of a share group: who holds which records, what waits for a lock,
how often records were delivered, and what has become of them lately.

The share coordinator tells the start offsets of all partitions. What is in flight only the leader
of a partition knows: it is shown for the partitions that this node leads, and the others have the
id of the node that leads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import nlargest
from operator import attrgetter
from typing import Any

from msgspec import Struct

from groupd.coordinator.core.blocked import topic_name
from groupd.coordinator.core.group import Group
from groupd.coordinator.core.group_type import Positions
from groupd.coordinator.core.slices import Pace, Steps, dict_in_steps, smallest
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant
from groupd.coordinator.lag.growth import MINUTE_MS, MINUTES
from groupd.coordinator.lag.share_offsets import ShareOffsets, SharePosition
from groupd.coordinator.share_partitions.counts import ShareEvent
from groupd.coordinator.share_partitions.group_settings import ShareGroupSettings, settings_of
from groupd.coordinator.share_partitions.in_flight_types import InFlightRange
from groupd.coordinator.share_partitions.runs import ACQUIRED, STATE_NAMES
from groupd.coordinator.share_partitions.share_partition import SharePartition
from groupd.coordinator.share_partitions.share_requests import ShareRequests
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.topics.layout import NO_LEADER
from groupd.protocol.messages import TopicPartition
from groupd.protocol.messages.share_state import ACKNOWLEDGED, AVAILABLE

RANGES_SHOWN = 50
"""How many ranges of records are shown of a share-partition: the first one, and those that were
delivered most often."""
STARTS_SHOWN = 500
"""A page shows the start offsets of the last hour for at most so many share-partitions."""
EVENTS_SHOWN = 200


class SharePages(Struct, frozen=True):
    """What the page is made of."""

    shares: ShareRequests
    offsets: ShareOffsets
    plane: DataPlane

    def page(
        self,
        state: ShardState,
        group: Group,
        positions: Positions,
        now: Instant,
        after: TopicPartition | None,
        limit: int,
    ) -> Steps[tuple[dict[str, Any], bool]]:
        """Returns the page, and whether more partitions follow: these have pages of their own,
        without the rest. A group of another type has no partitions on it."""
        settings = settings_of(state.config, state.group_configs.get(group.group_id))
        led = yield from dict_in_steps(
            ((topic_name(one.partition.topic_id, state.image), one.partition.partition), one)
            for one in self.shares.leaders.of_group(group.group_id)
        )
        places = yield from smallest(
            _places(positions, led), limit + 1, None if after is None else lambda one: one > after
        )
        rows: list[dict[str, Any]] = []
        pace = Pace()
        for place in places[:limit]:
            topic, number = place
            known = positions.get(topic, {}).get(number)
            many = len(rows) >= STARTS_SHOWN
            row = {
                "topic": topic,
                "partition": number,
                "start_offset": known.start_offset if isinstance(known, SharePosition) else None,
                "starts": None if many else self.offsets.starts(group.group_id, topic, number),
                "leader": self._leader(topic, number),
            }
            rows.append({**row, **_of_leader(led.get(place), settings, now)})
            if place in led or pace.due():
                yield
        shown: dict[str, Any] = {"group_id": group.group_id, "partitions": rows}
        if after is None:
            last_ms = now.wall_ms - now.monotonic_ms % MINUTE_MS
            shown |= {
                "now_ms": now.wall_ms,
                # Tuples, because only lists are cut at the limit.
                "times_ms": tuple([last_ms - at * MINUTE_MS for at in reversed(range(MINUTES))]),
                "delivery_count_limit": settings.delivery_count_limit,
                "lock_duration_ms": settings.lock_duration_ms,
                "events": tuple(self._events(state, group.group_id)),
            }
        return shown, len(places) > limit

    def _leader(self, topic_name: str, partition: int) -> int | None:
        """The id of the node that leads a partition; None if there is none."""
        topic = self.plane.catalogue.topic(topic_name)
        leader = NO_LEADER if topic is None else self.plane.layout.leader(topic, partition)
        return None if leader == NO_LEADER else leader

    def _events(self, state: ShardState, group_id: str) -> list[dict[str, Any]]:
        """The latest events of the group, oldest first: half of them of archived records."""
        counts = self.shares.counts
        found: list[ShareEvent] = []
        for events in (counts.archived_events, counts.events):
            found += [one for one in events if one.group_id == group_id][-EVENTS_SHOWN // 2 :]
        found.sort(key=lambda one: one.wall_ms)
        return [
            {
                "timestamp_ms": one.wall_ms,
                "topic": topic_name(one.topic_id, state.image),
                "partition": one.partition,
                "first_offset": one.first_offset,
                "last_offset": one.last_offset,
                "what": one.what,
                "why": one.why,
                "delivery_count": one.delivery_count,
            }
            for one in found
        ]


def _places(positions: Positions, led: dict[TopicPartition, Any]) -> Iterator[TopicPartition]:
    yield from led
    for topic in list(positions):
        for number in list(positions.get(topic, ())):
            yield topic, number


def _of_leader(
    share: SharePartition | None, settings: ShareGroupSettings, now: Instant
) -> dict[str, Any]:
    """What the leader knows: the start offset, which it knows first, numbers of records, and ranges
    of records that are not accepted. Elsewhere, and until it is loaded, numbers are None."""
    if share is None or share.records is None:
        unknown = ("end_offset", "next_offset", "finished", "locked", "waiting", "lock_timeouts")
        return {**dict.fromkeys(unknown), "in_flight": [], "left_out": 0}
    records = share.records
    counts: Counter[int] = Counter()
    shown: list[InFlightRange] = []
    for one in records.ranges():
        if not one.write_pending:
            counts[one.state] += one.last_offset - one.first_offset + 1
        if one.state != ACKNOWLEDGED or one.write_pending:
            shown.append(one)
    most = nlargest(RANGES_SHOWN - 1, shown[1:], key=attrgetter("delivery_count"))
    most = sorted([*shown[:1], *most], key=attrgetter("first_offset"))
    return {
        "start_offset": records.start_offset,
        "end_offset": records.start_offset + records.in_flight - 1,
        "next_offset": records.next_offset,
        "finished": records.delivery_complete_count,
        "locked": counts[ACQUIRED],
        "waiting": counts[AVAILABLE],
        "lock_timeouts": share.lock_timeouts,
        "in_flight": [_range(one, settings, now) for one in most],
        "left_out": len(shown) - len(most),
    }


def _range(one: InFlightRange, settings: ShareGroupSettings, now: Instant) -> dict[str, Any]:
    """`held_ms`: since the records were acquired or their lock was renewed, if the duration of
    locks has not changed meanwhile."""
    left_ms = None if one.lock_until_ms is None else max(0, one.lock_until_ms - now.monotonic_ms)
    return {
        "first_offset": one.first_offset,
        "last_offset": one.last_offset,
        "state": STATE_NAMES[one.state],
        "delivery_count": one.delivery_count,
        "member_id": one.member_id,
        "held_ms": None if left_ms is None else max(0, settings.lock_duration_ms - left_ms),
        "lock_left_ms": left_ms,
        "write_pending": one.write_pending,
        "why": None if one.end is None else one.end.value,
    }
