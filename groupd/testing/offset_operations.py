"""Operations on the committed offsets of groups and on their lag."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from groupd.coordinator.faults.errors import HarnessError, check_code
from groupd.protocol.messages.offsets import (
    CommitPartition,
    OffsetCommitRequest,
    commit_topic,
)
from groupd.testing.engine import Engine
from groupd.testing.explain import check_group, explain_group
from groupd.testing.topic_operations import READ_COMMITTED, PartitionReader
from groupd.testing.watch import TIMEOUT_S

OffsetsByPartition = Mapping[tuple[str, int], int] | Mapping[str, Mapping[int, int]]
"""Offsets by partition: {("orders", 0): 5} or {"orders": {0: 5}}."""

OFFSET_COMMIT_VERSION = 9


class OffsetOperations:
    """The offset operations of one engine. Errors are RequestRefused, and NotFound for a group that
    never existed."""

    _engine: Engine

    async def commit(self, group: str, offsets: OffsetsByPartition) -> None:
        """Commit offsets from outside the group: {("orders", 0): 5} or {"orders": {0: 5}}. Raises
        RequestRefused while the group has members, as Kafka refuses its tools.

        >>> groupd.commit("billing", {("orders", 0): 5})
        """
        by_topic: dict[str, list[CommitPartition]] = {}
        for (topic, partition), offset in _flat(offsets).items():
            by_topic.setdefault(topic, []).append(CommitPartition(partition, offset))
        topics = tuple(commit_topic(name, tuple(parts)) for name, parts in by_topic.items())
        request = OffsetCommitRequest(group, topics)
        reply = await self._engine.ask(request, OFFSET_COMMIT_VERSION)
        for topic in reply.topics:
            for part in topic.partitions:
                check_code(f"offset of {topic.name}-{part.partition}", part.error, None)

    async def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The durable offsets of a group by (topic, partition); {} when it has committed nothing.

        >>> groupd.commit("billing", {("orders", 0): 5})
        >>> groupd.committed("billing")
        {('orders', 0): 5}
        """
        check_group(self._engine, group)
        return self._committed(group)

    async def lag(self, group: str) -> dict[tuple[str, int], int]:
        """How many records the group has not committed yet, by (topic, partition), for all
        partitions of the topics that the group has committed to or subscribes to. It counts the
        records that a read_committed consumer would still get. Raises HarnessError for a group
        without topics.

        >>> _ = groupd.produce("orders", ["coffee", "tea"])
        >>> groupd.commit("billing", {("orders", 0): 1})
        >>> groupd.lag("billing")
        {('orders', 0): 0, ('orders', 1): 1, ('orders', 2): 0}
        """
        check_group(self._engine, group)
        await self._engine.end_transactions()
        found = {reader.place: await reader.count() for reader in self._readers(group)}
        if not found:
            raise HarnessError(
                f"group {group} has no lag: it has committed nothing, and nobody in it subscribes "
                "to a topic that is there"
            )
        return found

    async def wait_lag(
        self, group: str, at_most: int = 0, timeout: float = TIMEOUT_S
    ) -> dict[tuple[str, int], int]:
        """Wait until the lag of all the group's partitions together is at most `at_most` records.
        Returns the lag by partition, as `lag` does.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.consumer("billing", "orders", auto_commit_interval_ms=50)
        >>> consumer.poll(10).value()
        b'coffee'
        >>> sum(groupd.wait_lag("billing").values())
        0
        """
        last: dict[tuple[str, int], int] = {}
        readers: list[PartitionReader] = []

        async def look(changed: asyncio.Event) -> dict[tuple[str, int], int] | None:
            if not self._engine.running:
                return None
            before = readers.copy()
            readers[:] = self._readers(group, changed)
            last.clear()
            last.update({reader.place: await reader.count() for reader in readers})
            _close(before)
            return last if last and sum(last.values()) <= at_most else None

        def explain() -> str:
            behind = ", ".join(f"{topic}-{at}: {n}" for (topic, at), n in last.items() if n)
            what = f"at most {at_most} behind; its lag is {sum(last.values())} ({behind})"
            return explain_group(
                self._engine, group, what if last else f"at most {at_most} behind; it has no lag"
            )

        try:
            return await self._engine.watch.until_read(look, timeout, explain)
        finally:
            _close(readers)

    def _committed(self, group: str) -> dict[tuple[str, int], int]:
        return {
            (topic, partition): value.offset
            for (of, topic, partition), value in sorted(self._engine.offsets.items())
            if of == group
        }

    def _readers(self, group: str, changed: asyncio.Event | None = None) -> list[PartitionReader]:
        """A reader for each partition, from the committed offset on; none when the group's topics
        are not known. `changed` is set when something happens to the logs, until the readers are
        closed."""
        committed = self._committed(group)
        topics = {topic for topic, _ in committed} | self._subscribed(group)
        catalogue = self._engine.daemon.parts.data_plane.catalogue
        known = [found for name in sorted(topics) if (found := catalogue.topic(name)) is not None]
        return [
            PartitionReader(
                self._engine,
                topic,
                partition,
                READ_COMMITTED,
                committed.get((topic.name, partition)),
                changed,
            )
            for topic in known
            for partition in range(topic.partitions)
        ]

    def _subscribed(self, group: str) -> set[str]:
        """The topics that the members own partitions of or subscribe to, by name or by regular
        expression."""
        shown = self._engine.describe(group)
        if shown is None:
            return set()
        resolved = shown.get("resolved_regexes", {})
        found = {topic for topics in resolved.values() for topic in topics}
        for member in shown["members"]:
            found |= {*member["owned"], *member["subscribed_topic_names"]}
        return found


def _close(readers: Iterable[PartitionReader]) -> None:
    for reader in readers:
        reader.close()


def _flat(offsets: OffsetsByPartition) -> dict[tuple[str, int], int]:
    found: dict[tuple[str, int], int] = {}
    for key, value in offsets.items():
        if isinstance(key, str) and isinstance(value, Mapping):
            found.update({(key, int(partition)): offset for partition, offset in value.items()})
        elif isinstance(key, tuple) and isinstance(value, int):
            found[key] = value
        else:
            raise HarnessError('offsets are {("orders", 0): 5} or {"orders": {0: 5}}')
    return found
