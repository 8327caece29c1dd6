"""Operations on share groups: what their members hold, what became of records, where the groups
begin, and waits for all that.

What is under way is the leader's view. What became of records is what the harness has seen since
the broker was started for the first time (`share_history`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from groupd.coordinator.core.share_group.configs import AUTO_OFFSET_RESET
from groupd.coordinator.faults.errors import NotFound, check_code
from groupd.protocol.messages.share_group import (
    DescribeShareGroupOffsetsRequest,
    ShareOffsetsGroup,
)
from groupd.protocol.messages.topics import (
    RESOURCE_GROUP,
    AlterConfig,
    AlterResource,
    IncrementalAlterConfigsRequest,
)
from groupd.testing import share_history
from groupd.testing.answers import ShareRecord
from groupd.testing.engine import Engine
from groupd.testing.explain import explain_group
from groupd.testing.share_view import ShareView
from groupd.testing.watch import TIMEOUT_S

SET = 0
ALTER_CONFIGS_VERSION = 1
DESCRIBE_OFFSETS_VERSION = 1

Found = TypeVar("Found", int, list[ShareRecord])


class ShareOperations:
    """The operations on share groups of one engine. `topic`, `partition`: only there; None =
    everywhere. Errors are NotFound for a group that never existed, and HarnessError for one that is
    no share group. The examples use `groupd.share`, a handle with these operations of one group."""

    _engine: Engine

    async def configure_share(self, group: str, config: Mapping[str, str]) -> None:
        """Set configs of the group, which need not exist yet: Kafka's `share.*` and
        `errors.deadletterqueue.*`. Raises RequestRefused.

        >>> groupd.share("workers").configure({"share.delivery.count.limit": "2"})
        """
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

    async def share_records(
        self, group: str, topic: str | None = None, partition: int | None = None
    ) -> list[ShareRecord]:
        """The records that are under way, from the start offset on, at most 10,000: those that were
        delivered and are not over, and those that are over behind one that is not.

        >>> _ = groupd.produce("orders", ["coffee", "tea"])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> messages = consumer.poll(10)
        >>> share = groupd.share("workers")
        >>> [(one["state"], one["delivery_count"]) for one in share.records()]
        [('acquired', 1), ...]
        """
        view = ShareView(self._engine, group, topic, partition)
        view.check()
        return view.under_way()

    async def share_record(
        self, group: str, topic: str, partition: int, offset: int
    ) -> ShareRecord:
        """One record, under way or over. Raises NotFound if no member has had it.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> (message,) = consumer.poll(10)
        >>> _ = consumer.commit_sync()
        >>> groupd.share("workers").record("orders", message.partition(), 0)["why"]
        'accepted'
        """
        view = ShareView(self._engine, group, topic, partition)
        view.check()
        found = view.record(offset)
        if found is None:
            what = f"record {topic}-{partition}@{offset}: no member of {group} has had it"
            raise NotFound(f"{what}\n{view.text()}")
        return found

    async def share_start_offsets(self, group: str) -> dict[tuple[str, int], int]:
        """Where each partition begins: all records before it are over. Partitions that no member
        has read yet are left out.

        >>> _ = groupd.produce("orders", [{"value": "coffee", "partition": 1}])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> messages = consumer.poll(10)
        >>> groupd.share("workers").start_offsets()["orders", 1]
        0
        """
        return {place: start for place, (start, _) in (await self._positions(group)).items()}

    async def share_lag(self, group: str) -> dict[tuple[str, int], int]:
        """How many offsets of each partition are not over, as Kafka counts them: with those of
        transaction markers. Partitions that no member has read yet are left out.

        >>> _ = groupd.produce("orders", [{"value": "coffee", "partition": 1}])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> messages = consumer.poll(10)
        >>> groupd.share("workers").lag()["orders", 1]
        1
        """
        return {place: lag for place, (_, lag) in (await self._positions(group)).items()}

    # Waits

    async def wait_share_acquired(
        self,
        group: str,
        count: int,
        topic: str | None = None,
        partition: int | None = None,
        timeout: float = TIMEOUT_S,
    ) -> list[ShareRecord]:
        """Wait until members hold at least `count` records at the same time; returns these.
        `timeout` is in seconds. Raises WaitTimeout, and NotFound for a topic that does not exist.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> messages = consumer.poll(10)
        >>> groupd.share("workers").wait_acquired(1)[0]["lock_left_ms"] > 0
        True
        """
        view = ShareView(self._engine, group, topic, partition)
        return await self._wait_in(view, share_history.ACQUIRED, count, timeout)

    async def wait_share_acknowledged(
        self,
        group: str,
        count: int,
        topic: str | None = None,
        partition: int | None = None,
        timeout: float = TIMEOUT_S,
    ) -> list[ShareRecord]:
        """Wait until at least `count` records were accepted; returns them.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> (message,) = consumer.poll(10)
        >>> _ = consumer.commit_sync()
        >>> len(groupd.share("workers").wait_acknowledged(1))
        1
        """
        view = ShareView(self._engine, group, topic, partition)
        return await self._wait_in(view, share_history.ACKNOWLEDGED, count, timeout)

    async def wait_share_archived(
        self,
        group: str,
        count: int,
        topic: str | None = None,
        partition: int | None = None,
        timeout: float = TIMEOUT_S,
    ) -> list[ShareRecord]:
        """Wait until at least `count` records were given up: rejected, or delivered as often as
        allowed. Returns them, and `why`: "rejected", "delivery limit", "aborted" for records of
        aborted transactions, or "log start" for records that were deleted.

        >>> from confluent_kafka import AcknowledgeType
        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.share_consumer(
        ...     "workers", "orders", share_acknowledgement_mode="explicit"
        ... )
        >>> (message,) = consumer.poll(10)
        >>> consumer.acknowledge(message, AcknowledgeType.REJECT)
        >>> _ = consumer.commit_sync()
        >>> groupd.share("workers").wait_archived(1)[0]["why"]
        'rejected'
        """
        view = ShareView(self._engine, group, topic, partition)
        return await self._wait_in(view, share_history.ARCHIVED, count, timeout)

    async def wait_share_released(
        self,
        group: str,
        count: int,
        topic: str | None = None,
        partition: int | None = None,
        timeout: float = TIMEOUT_S,
    ) -> int:
        """Wait until records have become available again at least `count` times, because a member
        has released them, or has gone, or a lock has ended. Returns how often it was.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> messages = consumer.poll(10)
        >>> fired = groupd.clock.advance(30_000)
        >>> groupd.share("workers").wait_released(1)
        1
        """
        view = ShareView(self._engine, group, topic, partition)
        what = share_history.RELEASED
        return await self._wait(view, what, count, lambda: view.count(what), timeout)

    async def _wait_in(
        self, view: ShareView, state: str, count: int, timeout: float
    ) -> list[ShareRecord]:
        return await self._wait(view, state, count, lambda: view.in_state(state), timeout)

    async def _wait(
        self, view: ShareView, what: str, count: int, found: Callable[[], Found], timeout: float
    ) -> Found:
        """Returns what is `found` as soon as there are so many. Raises as `check_place`."""
        view.check_place()

        def ready() -> Found | None:
            return found() if view.count(what) >= count else None

        def explain() -> str:
            wanted = f"{count} records {what}{view.where}; there are {view.count(what)}"
            text, under_way = explain_group(self._engine, view.group, wanted), view.text()
            return f"{text}\nrecords under way:\n{under_way}" if under_way else text

        return await self._engine.watch.until(ready, timeout, explain)

    async def _positions(self, group: str) -> dict[tuple[str, int], tuple[int, int]]:
        """The start offset and the lag of each partition. What no member has read is left out."""
        view = ShareView(self._engine, group)
        view.check()
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
        for share in view.shares():
            # What is durable is one write behind, and says nothing before the first one.
            if (records := share.records) is not None:
                log = share.partition
                left = log.high_watermark - records.start_offset - records.delivery_complete_count
                place = self._engine.topic_name(log.topic_id), log.partition
                found[place] = records.start_offset, left
        return dict(sorted(found.items()))
