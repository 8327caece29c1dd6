"""The records of a share group, as the leaders of its partitions and the harness know them, and as
text for people."""

from __future__ import annotations

from collections.abc import Iterator

from groupd.coordinator.core.slices import LISTED_MAX
from groupd.coordinator.faults.errors import HarnessError
from groupd.coordinator.share_partitions.in_flight_types import InFlightRange
from groupd.coordinator.share_partitions.runs import ACQUIRED, STATE_NAMES, DeliveryEnd
from groupd.coordinator.share_partitions.share_partition import SharePartition
from groupd.protocol.records.share_state_records import SharePartitionKey
from groupd.testing import share_history
from groupd.testing.answers import ShareRecord
from groupd.testing.engine import Engine
from groupd.testing.explain import check_group, find_topic
from groupd.testing.topic_operations import partitions_of

RANGES_SHOWN = 5


class ShareView:
    """The records of one share group, or only those of a topic or a partition."""

    def __init__(
        self, engine: Engine, group: str, topic: str | None = None, partition: int | None = None
    ) -> None:
        self._engine = engine
        self.group = group
        self._topic = topic
        self._partition = partition

    def check(self) -> None:
        """As `check_place`. Also raises NotFound if there is no such group, and HarnessError if it
        is no share group."""
        check_group(self._engine, self.group)
        shown = self._engine.describe(self.group)
        if shown is not None and shown["type"] != "share":
            raise HarnessError(f"group {self.group} is a {shown['type']} group, not a share group")
        self.check_place()

    def check_place(self) -> None:
        """Raises NotFound if there is no such topic, HarnessError if it has no such partition."""
        if self._topic is not None:
            partitions_of(find_topic(self._engine, self._topic), self._partition)

    @property
    def where(self) -> str:
        """Where the records are, as the end of a sentence."""
        numbered = "" if self._partition is None else f"-{self._partition}"
        return f" in {self._topic or '*'}{numbered}" if self._topic or numbered else ""

    def shares(self) -> Iterator[SharePartition]:
        """What members read, by topic and partition."""
        shares = self._engine.share_partitions(self.group) if self._engine.running else ()
        return (share for share in shares if self._is_wanted(_key(share)))

    def place(self, key: SharePartitionKey) -> tuple[str, int]:
        return self._engine.topic_name(key.topic_id), key.partition

    def under_way(self, state: str | None = None) -> list[ShareRecord]:
        """The records in flight, or those of them that are in `state`; at most `LISTED_MAX`."""
        found: list[ShareRecord] = []
        for share in self.shares():
            for one in ranges_of(share):
                if state not in (None, _state_of(one)):
                    continue
                last = min(one.last_offset, one.first_offset + LISTED_MAX - len(found) - 1)
                found += [self._in_flight(share, one, n) for n in range(one.first_offset, last + 1)]
        return found

    def count(self, what: str) -> int:
        """How many records are in the state `what`; for "released", how often records were."""
        if what != share_history.ACQUIRED:
            return sum(self._engine.shares.count(key, what) for key in self._keys())
        ranges = (one for share in self.shares() for one in ranges_of(share))
        return sum(
            one.last_offset - one.first_offset + 1 for one in ranges if _state_of(one) == what
        )

    def in_state(self, state: str) -> list[ShareRecord]:
        """The records that members hold, or those that came to another state last, by topic,
        partition and offset."""
        if state == share_history.ACQUIRED:
            return self.under_way(state)
        return [
            self._remembered(key, offset)
            for key in self._keys()
            for offset, seen in sorted(self._engine.shares.of(key).items())
            if seen.state == state
        ]

    def record(self, offset: int) -> ShareRecord | None:
        """One record; None if no member has had it."""
        for share in self.shares():
            for one in ranges_of(share):
                if one.first_offset <= offset <= one.last_offset:
                    return self._in_flight(share, one, offset)
        for key in self._keys():
            if offset in self._engine.shares.of(key):
                return self._remembered(key, offset)
        return None

    def text(self) -> str:
        """What is under way, in a few lines; "" if nobody reads anything."""
        now_ms = self._engine.clock.monotonic_ms()
        lines = []
        for share in self.shares():
            topic, partition = self.place(_key(share))
            if share.records is None:
                lines.append(f"  {topic}-{partition} is being loaded")
                continue
            start, end = share.records.start_offset, share.partition.high_watermark
            line = f"  {topic}-{partition}: begins at {start}, the log ends at {end}"
            if 0 < start == end and not self._engine.shares.of(_key(share)):
                line += "; nobody has had any of its records: unless share.auto.offset.reset is "
                line += f'earliest, a group begins at the end (groupd.share("{self.group}", '
                line += 'from_="earliest"))'
            lines.append(line)
            ranges = list(ranges_of(share))
            lines += [f"    {_range_text(one, now_ms)}" for one in ranges[:RANGES_SHOWN]]
            if len(ranges) > RANGES_SHOWN:
                lines.append(f"    ... {len(ranges) - RANGES_SHOWN} more ranges")
        return "\n".join(lines)

    def _keys(self) -> Iterator[SharePartitionKey]:
        """The share-partitions of which the harness has seen records."""
        if self._engine.running:
            yield from filter(self._is_wanted, self._engine.shares.partitions(self.group))

    def _is_wanted(self, key: SharePartitionKey) -> bool:
        topic, partition = self.place(key)
        return self._topic in (None, topic) and self._partition in (None, partition)

    def _in_flight(self, share: SharePartition, one: InFlightRange, offset: int) -> ShareRecord:
        seen = self._engine.shares.of(_key(share)).get(offset, share_history.UNSEEN)
        state = _state_of(one)
        why = seen.why if one.end is None else one.end.value
        left_ms = None
        if one.lock_until_ms is not None:
            left_ms = max(0, one.lock_until_ms - self._engine.clock.monotonic_ms())
        topic, partition = self.place(_key(share))
        return ShareRecord(
            topic=topic,
            partition=partition,
            offset=offset,
            state=state,
            delivery_count=one.delivery_count,
            member_id=one.member_id or seen.member_id,
            lock_left_ms=left_ms,
            why=None if state == share_history.ACQUIRED else why,
        )

    def _remembered(self, key: SharePartitionKey, offset: int) -> ShareRecord:
        topic, partition = self.place(key)
        seen = self._engine.shares.of(key)[offset]
        return ShareRecord(
            topic=topic,
            partition=partition,
            offset=offset,
            state=seen.state,
            delivery_count=seen.delivery_count,
            member_id=seen.member_id,
            lock_left_ms=None,
            why=seen.why,
        )


def _state_of(one: InFlightRange) -> str:
    # What is not durable yet may still fail. Until then the member holds the record.
    held = one.state == ACQUIRED or (one.write_pending and one.member_id is not None)
    return STATE_NAMES[ACQUIRED if held else one.state]


def ranges_of(share: SharePartition) -> Iterator[InFlightRange]:
    """What is in flight, without offsets that have no record."""
    ranges = () if share.records is None else share.records.ranges()
    return (one for one in ranges if one.end is not DeliveryEnd.GAP)


def _key(share: SharePartition) -> SharePartitionKey:
    return SharePartitionKey(share.group_id, share.partition.topic_id, share.partition.partition)


def _range_text(one: InFlightRange, now_ms: int) -> str:
    several = f" to {one.last_offset}" if one.last_offset > one.first_offset else ""
    state = STATE_NAMES[one.state]
    text = f"{one.first_offset}{several}: {state}, delivery count {one.delivery_count}"
    if one.member_id is not None and one.lock_until_ms is not None:
        text += f", held by {one.member_id} for {one.lock_until_ms - now_ms} ms"
    return text + (", not durable yet" if one.write_pending else "")
