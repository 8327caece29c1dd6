"""Finds the point of a group's past that the flags name, and the log to read it from: in the store,
or in any cluster that serves `__consumer_offsets`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from groupd.coordinator.cli.command_errors import fail
from groupd.coordinator.cli.groups.flags import LogLocation
from groupd.coordinator.cli.kafka import calls
from groupd.coordinator.cli.kafka.cluster import KafkaCluster, open_cluster
from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.coordinator.cli.parse import UsageError, now_ms, parse_time, show_time
from groupd.coordinator.core.partitioning import OFFSETS_TOPIC, partition_for
from groupd.coordinator.history.changes import OffsetChange
from groupd.coordinator.history.replay import (
    BeforeHistory,
    Extent,
    GroupLog,
    GroupState,
    extent_of,
    state_at,
)
from groupd.coordinator.history.share_starts import ShareStarts
from groupd.coordinator.history.stream import UnreadableLog, header_of, split
from groupd.coordinator.logtools.logs import OFFSETS_LOG, SHARE_STATE_LOG
from groupd.storage.log import LogError, LogState, StoreRefused
from groupd.storage.open import create_reader
from groupd.storage.reader import StoreReader

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs `work` to its end. If something cannot be read or a broker does not answer, the command
    prints one line and ends with exit code 1. A UsageError passes and leads to exit code 2."""
    try:
        return asyncio.run(work)
    except (KafkaError, UnreadableLog, LogError) as error:
        fail(str(error))


def time_of(at: str | None) -> int | None:
    """Parses a time, None stays None. Raises UsageError."""
    return None if at is None else parse_time(at, now_ms())


async def extent_at(source: GroupLog, group_id: str, at_ms: int | None) -> Extent:
    """Returns the part of the log to read for the state at `at_ms`; None = up to its end. Raises
    UsageError for a time before the history that the log still has."""
    try:
        return await extent_of(source, group_id, at_ms)
    except BeforeHistory as error:
        earliest_ms = error.earliest_ms
        raise UsageError(
            f"{show_time(at_ms or 0)} is before the history that {source.name} still has: the "
            f"earliest time that can be answered is {show_time(earliest_ms)} ({earliest_ms})"
        ) from None


async def past_state(
    source: GroupLog, group_id: str, at_ms: int | None, at_log_offset: int | None = None
) -> GroupState:
    """Returns the state at a time, after the record at a log offset, or now. Raises UsageError."""
    if at_ms is not None and at_log_offset is not None:
        raise UsageError("--at and --at-log-offset name two points: give one of them")
    extent = await extent_at(source, group_id, at_ms)
    cut_offset = extent.cut_offset
    if at_log_offset is not None:
        cut_offset = at_log_offset + 1
        if cut_offset < extent.complete_from:
            raise UsageError(
                f"log offset {at_log_offset} of {source.name} is compacted: the earliest that can "
                f"be answered is {extent.complete_from - 1}"
            )
        if cut_offset > extent.end_offset:
            raise UsageError(
                f"log offset {at_log_offset} of {source.name} is not written yet: the last one is "
                f"{extent.end_offset - 1}"
            )
    return await state_at(source.batches(), group_id, cut_offset)


READ_BYTES = 4 * 1024 * 1024


@asynccontextmanager
async def open_source(place: LogLocation, group_id: str) -> AsyncIterator[GroupLog]:
    """Yields the log with the group's history. Raises UsageError if there is no log to read."""
    if place.bootstrap is not None:
        with open_cluster(place.bootstrap, place.command_config) as cluster:
            yield cluster_source(cluster, group_id)
        return
    async with _open_reader(place) as reader:
        yield await _store_source(reader, group_id)


@asynccontextmanager
async def _open_reader(place: LogLocation) -> AsyncIterator[StoreReader]:
    try:
        reader = create_reader(place.store, place.data_dir)
        await reader.start()
    except StoreRefused as error:
        raise UsageError(str(error)) from None
    try:
        yield reader
    finally:
        await reader.close()


async def share_changes(
    place: LogLocation, group_id: str, until_ms: int | None
) -> AsyncIterator[OffsetChange]:
    """Yields the changes of a share group's start offsets, one log of the share coordinator after
    the other: all those of a share-partition are in one log. Raises UsageError for a cluster, whose
    brokers do not serve these logs to everybody."""
    if place.bootstrap is not None:
        raise UsageError(
            f"{group_id} is a share group, whose start offsets can be read from a store only: "
            "name it with --data-dir or --store"
        )
    async with _open_reader(place) as reader:
        names = {one.topic_id: one.name for one in await reader.topics()}
        for state in await reader.states():
            if SHARE_STATE_LOG.partition_in_store(state.name) is None:
                continue
            starts = ShareStarts(group_id, names, pruned=state.start_offset > 0)
            async for payload in _StoreSource(reader, state).batches():
                for change in starts.changes(payload):
                    if until_ms is None or change.time_ms <= until_ms:
                        yield change


async def _store_source(reader: StoreReader, group_id: str) -> GroupLog:
    logs = {OFFSETS_LOG.partition_in_store(state.name): state for state in await reader.states()}
    logs.pop(None, None)
    if not logs:
        raise UsageError("the store has no groups yet: no daemon has ever served from it")
    return _StoreSource(reader, logs[partition_for(group_id, len(logs))])


class _StoreSource:
    def __init__(self, reader: StoreReader, state: LogState) -> None:
        self.name = state.name
        self.start_offset = state.start_offset
        self._end_offset = state.next_offset
        self._reader = reader

    async def batches(self) -> AsyncIterator[bytes]:
        offset = self.start_offset
        while offset < self._end_offset:
            found = await self._reader.read(self.name, offset, READ_BYTES)
            if not found:
                return
            for stored in found:
                if stored.base_offset >= self._end_offset:
                    return
                for payload in split(stored.payload):
                    yield payload
            offset = found[-1].last_offset + 1


def cluster_source(cluster: KafkaCluster, group_id: str) -> GroupLog:
    """Returns the group's log in a cluster. Raises KafkaError."""
    topic = cluster.topics([OFFSETS_TOPIC]).get(OFFSETS_TOPIC)
    if topic is None:
        raise KafkaError(f"the cluster has no {OFFSETS_TOPIC} yet: nobody has committed anything")
    partition = partition_for(group_id, len(topic.partitions))
    return _ClusterSource(cluster.leader(OFFSETS_TOPIC, partition), partition)


class _ClusterSource:
    def __init__(self, leader: BlockingConnection, partition: int) -> None:
        self.name = f"{OFFSETS_TOPIC}-{partition}"
        self._leader = leader
        self._partition = partition
        self.start_offset = self._bound(calls.EARLIEST)
        self._end_offset = self._bound(calls.LATEST)

    def _bound(self, which: int) -> int:
        at = (OFFSETS_TOPIC, self._partition)
        found = calls.list_offsets(self._leader, [at], which)
        if at not in found:
            raise KafkaError(f"{self.name} cannot be read now: is its coordinator still loading?")
        return found[at]

    async def batches(self) -> AsyncIterator[bytes]:
        offset = self.start_offset
        while offset < self._end_offset:
            data = calls.fetch(self._leader, OFFSETS_TOPIC, self._partition, offset, READ_BYTES)
            before = offset
            for payload in split(data, whole=False):
                header = header_of(payload)
                if header.base_offset >= self._end_offset:
                    return
                if header.next_offset > offset:
                    yield payload
                    offset = header.next_offset
            if offset == before:
                return  # the rest was compacted away
