"""What became of each record of share groups, for `record` and the waits, and the promises that the
coordinator keeps about it:

    locks      no record is given to a member while another one, or the same one, holds it
    ends       no record is given out that was accepted or archived, and none is accepted twice

The history outlives restarts of the broker. A new state of a share-partition (its offset was
altered or deleted, or its group) begins a new one. It is bounded: the partition that has been quiet
for longest forgets its oldest records first.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from msgspec import Struct

from groupd.coordinator.share_partitions.counts import ACQUIRED_BY_MEMBER, LOADED, ShareEvent
from groupd.coordinator.share_partitions.runs import DeliveryEnd
from groupd.protocol.records.share_state_records import (
    SharePartitionKey,
    ShareSnapshot,
    ShareStateValue,
)

RECORDS_MAX = 200_000
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = "available", "acquired", "acknowledged", "archived"
RELEASED = "released"
RELEASES = frozenset({"released", "expired"})


class SeenRecord(Struct, frozen=True, gc=False):
    """The last that is known of a record. `member_id`: who has or had it. `why`: "released",
    "expired", "accepted" or why it was archived; None while it is acquired."""

    state: str
    delivery_count: int
    member_id: str | None
    why: str | None


UNSEEN = SeenRecord("", 0, None, None)


class ShareHistory:
    """The records of all share groups. `violated(group, what)` is called for a broken promise."""

    def __init__(self, violated: Callable[[str, str], None]) -> None:
        self._violated = violated
        self._seen: OrderedDict[SharePartitionKey, dict[int, SeenRecord]] = OrderedDict()
        self._epochs: dict[SharePartitionKey, int] = {}
        self._counts: dict[SharePartitionKey, Counter[str]] = {}
        self._count = 0

    def of(self, key: SharePartitionKey) -> Mapping[int, SeenRecord]:
        """The records of a share-partition by offset."""
        return MappingProxyType(self._seen.get(key, {}))

    def partitions(self, group_id: str) -> Iterator[SharePartitionKey]:
        """The share-partitions of a group of which something is known."""
        return (key for key in sorted(self._seen) if key.group_id == group_id)

    def count(self, key: SharePartitionKey, what: str) -> int:
        """How many records are in the state `what`; for "released", how often records were
        released, or their locks have expired."""
        return self._counts.get(key, Counter())[what]

    def on_event(self, event: ShareEvent) -> None:
        key = SharePartitionKey(event.group_id, event.topic_id, event.partition)
        if event.what == LOADED:
            self._unlock(key)
            return
        seen = self._seen.setdefault(key, {})
        counts = self._counts.setdefault(key, Counter())
        self._seen.move_to_end(key)
        if event.what in RELEASES:
            counts[RELEASED] += event.last_offset - event.first_offset + 1
        self._check(event, seen)
        for offset in range(event.first_offset, event.last_offset + 1):
            if event.why == DeliveryEnd.GAP.value:
                self._drop(key, offset)  # there is no record
            else:
                self._put(key, offset, _after(event, seen.get(offset)))
        while self._count > RECORDS_MAX:
            self._forget_one()

    def on_state(self, key: SharePartitionKey, value: ShareStateValue) -> None:
        """A record of the share coordinator is durable."""
        if value is None:
            self._epochs.pop(key, None)
            self._forget(key)
        elif isinstance(value, ShareSnapshot):
            if value.state_epoch != self._epochs.get(key, value.state_epoch):
                self._forget(key)
            self._epochs[key] = value.state_epoch

    def locks_gone(self, group_id: str | None = None) -> None:
        """The leaders of the partitions of the group (None = of all groups) have ended, and all
        locks with them."""
        for key in self._seen:
            if group_id in (None, key.group_id):
                self._unlock(key)

    def reset(self) -> None:
        """Forget what the logs held: they are empty again."""
        self._seen.clear()
        self._epochs.clear()
        self._counts.clear()
        self._count = 0

    def _check(self, event: ShareEvent, seen: Mapping[int, SeenRecord]) -> None:
        """Report the first record with which the event breaks a promise."""
        for offset in range(event.first_offset, event.last_offset + 1):
            known = seen.get(offset)
            if known is None:
                continue
            what = f"record {offset} of partition {event.partition} of topic id "
            what += event.topic_id.hex()
            ended = known.state in (ACKNOWLEDGED, ARCHIVED)
            if event.what == ACQUIRED_BY_MEMBER and known.state == ACQUIRED:
                what += f" was given to {event.member_id} while {known.member_id} held it"
            elif event.what == ACQUIRED_BY_MEMBER and ended:
                what += f" was given to {event.member_id} although it was {known.state} before"
            elif event.what == "accepted" and known.state == ACKNOWLEDGED:
                what += " was accepted twice"
            else:
                continue
            self._violated(event.group_id, what)
            return

    def _unlock(self, key: SharePartitionKey) -> None:
        why = "the leader began anew"
        for offset, known in self._seen.get(key, {}).items():
            if known.state == ACQUIRED:
                record = SeenRecord(AVAILABLE, known.delivery_count, known.member_id, why)
                self._put(key, offset, record)

    def _put(self, key: SharePartitionKey, offset: int, record: SeenRecord) -> None:
        seen, counts = self._seen[key], self._counts[key]
        before = seen.get(offset)
        if before is None:
            self._count += 1
        else:
            counts[before.state] -= 1
        counts[record.state] += 1
        seen[offset] = record

    def _drop(self, key: SharePartitionKey, offset: int) -> None:
        known = self._seen[key].pop(offset, None)
        if known is not None:
            self._counts[key][known.state] -= 1
            self._count -= 1

    def _forget(self, key: SharePartitionKey) -> None:
        self._count -= len(self._seen.pop(key, {}))
        self._counts.pop(key, None)

    def _forget_one(self) -> None:
        key, seen = next(iter(self._seen.items()))
        if not seen:
            del self._seen[key]
            return
        self._drop(key, next(iter(seen)))


def _after(event: ShareEvent, known: SeenRecord | None) -> SeenRecord:
    """The record after the event."""
    if event.what == ACQUIRED_BY_MEMBER:
        return SeenRecord(ACQUIRED, event.delivery_count, event.member_id, None)
    member_id = None if known is None else known.member_id
    if event.what == "accepted":
        return SeenRecord(ACKNOWLEDGED, event.delivery_count, member_id, event.what)
    if event.what == "archived":
        return SeenRecord(ARCHIVED, event.delivery_count, member_id, event.why)
    return SeenRecord(AVAILABLE, event.delivery_count, member_id, event.what)
