"""Operations on share groups: what their members hold, what became of records, where the groups
begin, and waits for all that.

What is under way is the leader's view. What became of records is what the harness has seen since
the broker was started for the first time (`share_history`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from groupd.coordinator.core.share_group.configs import AUTO_OFFSET_RESET
from groupd.coordinator.core.slices import LISTED_MAX
from groupd.coordinator.faults.errors import HarnessError, NotFound, check_code
from groupd.coordinator.share_partitions.in_flight import InFlightRange
from groupd.coordinator.share_partitions.runs import ACQUIRED, DeliveryEnd
from groupd.coordinator.share_partitions.share_partition import SharePartition
from groupd.protocol.messages.share_group import (
    DescribeShareGroupOffsetsRequest,
    ShareOffsetsGroup,
)
from groupd.protocol.messages.share_state import ACKNOWLEDGED, ARCHIVED, ARCHIVING, AVAILABLE
from groupd.protocol.messages.topics import (
    RESOURCE_GROUP,
    AlterConfig,
    AlterResource,
    IncrementalAlterConfigsRequest,
)
from groupd.protocol.records.share_state_records import SharePartitionKey
from groupd.testing import share_history
from groupd.testing.answers import ShareRecord
from groupd.testing.engine import Engine
from groupd.testing.explain import check_group, explain_group, find_topic
from groupd.testing.topic_operations import partitions_of
from groupd.testing.watch import TIMEOUT_S

SET = 0
ALTER_CONFIGS_VERSION = 1
DESCRIBE_OFFSETS_VERSION = 1
RANGES_SHOWN = 5
STATES: Mapping[int, str] = {
    AVAILABLE: share_history.AVAILABLE,
    ACQUIRED: share_history.ACQUIRED,
    ACKNOWLEDGED: share_history.ACKNOWLEDGED,
    ARCHIVING: "archiving",
    ARCHIVED: share_history.ARCHIVED,
}


class ShareOperations:
    """The operations on share groups of one engine. `topic`, `partition`: only there; None =
    everywhere. Errors are NotFound for a group that never existed, and HarnessError for one that is
    no share group."""

    _engine: Engine

    async def share_records(
        self, group: str, topic: str | None = None, partition: int | None = None
    ) -> list[ShareRecord]:
        """See `ShareHandle.records`."""
        _check(self._engine, group, topic, partition)
        return _under_way(self._engine, group, topic, partition)

    async def share_record(
        self, group: str, topic: str, partition: int, offset: int
    ) -> ShareRecord:
        """See `ShareHandle.record`."""
        _check(self._engine, group, topic, partition)
        for share in _shares(self._engine, group, topic, partition):
            for one in _ranges(share):
                if one.first_offset <= offset <= one.last_offset:
                    return _record(self._engine, share, one, offset)
        for key in _seen(self._engine, group, topic, partition):
            if found := _remembered(self._engine, key, offset):
                return found
        raise NotFound(
            f"record {topic}-{partition}@{offset}: no member of {group} has had it\n"
            + share_text(self._engine, group)
        )

    async def share_start_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """See `ShareHandle.start_offsets`."""
        return {place: start for place, (start, _) in (await self._positions(group)).items()}

    async def share_lag(self, group: str) -> dict[tuple[str, int], int]:
        """See `ShareHandle.lag`."""
        return {place: lag for place, (_, lag) in (await self._positions(group)).items()}

    async def configure_share(self, group: str, config: Mapping[str, str]) -> None:
        """See `ShareHandle.configure`."""
        changes = tuple(AlterConfig(name, SET, value) for name, value in config.items())
        request = IncrementalAlterConfigsRequest((AlterResource(RESOURCE_GROUP, group, changes),))
        reply = await self._engine.ask(request, ALTER_CONFIGS_VERSION)
        for result in reply.results:
            check_code(f"configs of group {group}", result.error, result.error_message)

    async def begin_share(self, group: str) -> None:
        """Let the group begin at the earliest records, unless somebody has set where it begins."""
        overrides = self._engine.daemon.parts.data_plane.group_overrides.of(group)
        if AUTO_OFFSET_RESET.name not in overrides:
            await self.configure_share(group, {AUTO_OFFSET_RESET.name: "earliest"})

    # Waits

    async def wait_share_acquired(
        self,
        group: str,
        count: int,
        topic: str | None = None,
        partition: int | None = None,
        timeout: float = TIMEOUT_S,
    ) -> list[ShareRecord]:
        """See `ShareHandle.wait_acquired`."""

        def found() -> list[ShareRecord]:
            records = _under_way(self._engine, group, topic, partition)
            return [one for one in records if one["state"] == share_history.ACQUIRED]

        return await self._wait(
            group, f"{count} records acquired", count, found, topic, partition, timeout
        )

    async def wait_share_acknowledged(
        self,
        group: str,
        count: int,
        topic: str | None = None,
        partition: int | None = None,
        timeout: float = TIMEOUT_S,
    ) -> list[ShareRecord]:
        """See `ShareHandle.wait_acknowledged`."""
        return await self._wait_ended(
            group, count, share_history.ACKNOWLEDGED, topic, partition, timeout
        )

    async def wait_share_archived(
        self,
        group: str,
        count: int,
        topic: str | None = None,
        partition: int | None = None,
        timeout: float = TIMEOUT_S,
    ) -> list[ShareRecord]:
        """See `ShareHandle.wait_archived`."""
        return await self._wait_ended(
            group, count, share_history.ARCHIVED, topic, partition, timeout
        )

    async def wait_share_released(
        self,
        group: str,
        count: int,
        topic: str | None = None,
        partition: int | None = None,
        timeout: float = TIMEOUT_S,
    ) -> int:
        """See `ShareHandle.wait_released`."""

        def released() -> int:
            keys = _seen(self._engine, group, topic, partition)
            return sum(self._engine.shares.releases(key) for key in keys)

        return await self._engine.watch.until(
            lambda: seen if (seen := released()) >= count else None,
            timeout,
            lambda: _explain(
                self._engine,
                group,
                f"{count} records released{_where(topic, partition)}; there were {released()}",
            ),
        )

    async def _wait_ended(
        self,
        group: str,
        count: int,
        state: str,
        topic: str | None,
        partition: int | None,
        timeout: float,
    ) -> list[ShareRecord]:
        def found() -> list[ShareRecord]:
            return [
                record
                for key in _seen(self._engine, group, topic, partition)
                for offset, seen in sorted(self._engine.shares.of(key).items())
                if seen.state == state and (record := _remembered(self._engine, key, offset))
            ]

        return await self._wait(
            group, f"{count} records {state}", count, found, topic, partition, timeout
        )

    async def _wait(
        self,
        group: str,
        wanted: str,
        count: int,
        found: Callable[[], list[ShareRecord]],
        topic: str | None,
        partition: int | None,
        timeout: float,
    ) -> list[ShareRecord]:
        def ready() -> list[ShareRecord] | None:
            if not self._engine.running:
                return None
            records = found()
            return records if len(records) >= count else None

        def explain() -> str:
            there = len(found()) if self._engine.running else 0
            wait = f"{wanted}{_where(topic, partition)}; there are {there}"
            return _explain(self._engine, group, wait)

        return await self._engine.watch.until(ready, timeout, explain)

    async def _positions(self, group: str) -> dict[tuple[str, int], tuple[int, int]]:
        """The start offset and the lag of each partition. What no member has read is left out."""
        _check(self._engine, group, None, None)
        request = DescribeShareGroupOffsetsRequest((ShareOffsetsGroup(group),))
        reply = await self._engine.ask(request, DESCRIBE_OFFSETS_VERSION)
        found: dict[tuple[str, int], tuple[int, int]] = {}
        for described in reply.groups:
            check_code(f"offsets of group {group}", described.error, described.error_message)
            for topic in described.topics:
                for part in topic.partitions:
                    check_code(f"{topic.name}-{part.partition}", part.error, part.error_message)
                    if part.start_offset >= 0:
                        found[topic.name, part.partition] = part.start_offset, part.lag
        for share in _shares(self._engine, group, None, None):
            # What is durable is one write behind, and says nothing before the first one.
            if (records := share.records) is not None:
                lag = share.partition.high_watermark - records.start_offset
                lag -= records.delivery_complete_count
                found[_place(self._engine, share)] = records.start_offset, lag
        return dict(sorted(found.items()))


def share_text(engine: Engine, group: str) -> str:
    """The share-partitions of a group in a few lines of text; "" if there are none."""
    lines = []
    now_ms = engine.clock.monotonic_ms()
    for share in _shares(engine, group, None, None):
        topic, partition = _place(engine, share)
        records = share.records
        if records is None:
            lines.append(f"  {topic}-{partition} is being loaded")
            continue
        end = share.partition.high_watermark
        line = f"  {topic}-{partition}: begins at {records.start_offset}, the log ends at {end}"
        if records.start_offset == end and end > 0 and not engine.shares.of(_key(share)):
            line += (
                "; nobody has had any of its records: unless share.auto.offset.reset is earliest, "
                f'a group begins at the end (groupd.share("{group}", from_="earliest"))'
            )
        lines.append(line)
        ranges = list(_ranges(share))
        lines += [f"    {_range_text(one, now_ms)}" for one in ranges[:RANGES_SHOWN]]
        if len(ranges) > RANGES_SHOWN:
            lines.append(f"    ... {len(ranges) - RANGES_SHOWN} more ranges")
    return "\n".join(lines)


def _range_text(one: InFlightRange, now_ms: int) -> str:
    several = one.last_offset > one.first_offset
    text = f"{one.first_offset}" + (f" to {one.last_offset}" if several else "")
    text += f": {STATES[one.state]}, delivery count {one.delivery_count}"
    if one.member_id is not None and one.lock_until_ms is not None:
        text += f", held by {one.member_id} for {one.lock_until_ms - now_ms} ms"
    return text + (", not durable yet" if one.write_pending else "")


def _explain(engine: Engine, group: str, wanted: str) -> str:
    text = explain_group(engine, group, wanted)
    shares = share_text(engine, group) if engine.running else ""
    return f"{text}\nrecords under way:\n{shares}" if shares else text


def _where(topic: str | None, partition: int | None) -> str:
    if topic is None:
        return "" if partition is None else f" in partitions {partition}"
    return f" in {topic}" if partition is None else f" in {topic}-{partition}"


def _check(engine: Engine, group: str, topic: str | None, partition: int | None) -> None:
    check_group(engine, group)
    shown = engine.describe(group)
    if shown is not None and shown["type"] != "share":
        raise HarnessError(f"group {group} is a {shown['type']} group, not a share group")
    if topic is not None:
        partitions_of(find_topic(engine, topic), partition)


def _shares(
    engine: Engine, group: str, topic: str | None, partition: int | None
) -> Iterator[SharePartition]:
    for share in engine.share_partitions(group):
        name, number = _place(engine, share)
        if topic in (None, name) and partition in (None, number):
            yield share


def _seen(
    engine: Engine, group: str, topic: str | None, partition: int | None
) -> Iterator[SharePartitionKey]:
    for key in engine.shares.partitions(group):
        if topic in (None, engine.topic_name(key.topic_id)) and partition in (None, key.partition):
            yield key


def _place(engine: Engine, share: SharePartition) -> tuple[str, int]:
    return engine.topic_name(share.partition.topic_id), share.partition.partition


def _key(share: SharePartition) -> SharePartitionKey:
    return SharePartitionKey(share.group_id, share.partition.topic_id, share.partition.partition)


def _ranges(share: SharePartition) -> Iterator[InFlightRange]:
    """What is in flight, without offsets that have no record."""
    if share.records is not None:
        for one in share.records.ranges():
            if one.end is not DeliveryEnd.GAP:
                yield one


def _under_way(
    engine: Engine, group: str, topic: str | None, partition: int | None
) -> list[ShareRecord]:
    found: list[ShareRecord] = []
    for share in _shares(engine, group, topic, partition):
        for one in _ranges(share):
            last = min(one.last_offset, one.first_offset + LISTED_MAX - len(found) - 1)
            found += [
                _record(engine, share, one, offset) for offset in range(one.first_offset, last + 1)
            ]
    return found


def _record(engine: Engine, share: SharePartition, one: InFlightRange, offset: int) -> ShareRecord:
    topic, partition = _place(engine, share)
    left_ms = None
    if one.lock_until_ms is not None:
        left_ms = max(0, one.lock_until_ms - engine.clock.monotonic_ms())
    # What is not durable yet may still fail. Until then the member holds the record.
    held = one.state == ACQUIRED or (one.write_pending and one.member_id is not None)
    seen = engine.shares.of(_key(share)).get(offset)
    why = one.end.value if one.end is not None else None if seen is None else seen.why
    return ShareRecord(
        topic=topic,
        partition=partition,
        offset=offset,
        state=STATES[ACQUIRED if held else one.state],
        delivery_count=one.delivery_count,
        member_id=one.member_id or (None if seen is None else seen.member_id),
        lock_left_ms=left_ms,
        why=None if held else why,
    )


def _remembered(engine: Engine, key: SharePartitionKey, offset: int) -> ShareRecord | None:
    """What the harness remembers of a record."""
    seen = engine.shares.of(key).get(offset)
    if seen is None:
        return None
    return ShareRecord(
        topic=engine.topic_name(key.topic_id),
        partition=key.partition,
        offset=offset,
        state=seen.state,
        delivery_count=seen.delivery_count,
        member_id=seen.member_id,
        lock_left_ms=None,
        why=seen.why,
    )
