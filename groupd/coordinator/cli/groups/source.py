"""Where a group's log is read from: from the store itself, or from any cluster that serves
`__consumer_offsets`. Both are only read, up to where the log ended at the start, and give batches
in order."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from groupd.coordinator.cli.errors import UsageError
from groupd.coordinator.cli.groups.flags import LogLocation
from groupd.coordinator.cli.kafka import calls
from groupd.coordinator.cli.kafka.client_config import open_cluster
from groupd.coordinator.cli.kafka.cluster import KafkaCluster
from groupd.coordinator.cli.kafka.connection import BlockingConnection, KafkaError
from groupd.coordinator.core.partitioning import OFFSETS_TOPIC, offsets_log_name, partition_for
from groupd.coordinator.history.replay import GroupLog
from groupd.coordinator.history.stream import header_of, split
from groupd.storage.log import LogState, StoreRefused
from groupd.storage.open import create_reader
from groupd.storage.reader import StoreReader

_OFFSETS_LOG = re.compile(re.escape(OFFSETS_TOPIC) + r"-\d+")
READ_BYTES = 4 * 1024 * 1024


@asynccontextmanager
async def open_source(place: LogLocation, group_id: str) -> AsyncIterator[GroupLog]:
    """Raises UsageError when there is nothing to read from."""
    if place.bootstrap is not None:
        with open_cluster(place.bootstrap, place.command_config) as cluster:
            yield cluster_source(cluster, group_id)
        return
    try:
        reader = create_reader(place.store, place.data_dir)
        await reader.start()
    except StoreRefused as error:
        raise UsageError(str(error)) from None
    try:
        yield await _store_source(reader, group_id)
    finally:
        await reader.close()


async def _store_source(reader: StoreReader, group_id: str) -> GroupLog:
    logs = {s.name: s for s in await reader.states() if _OFFSETS_LOG.fullmatch(s.name)}
    if not logs:
        raise UsageError("the store has no groups yet: no daemon has ever served from it")
    return _StoreSource(reader, logs[offsets_log_name(partition_for(group_id, len(logs)))])


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
    """The group's log in a cluster. Raises KafkaError."""
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
                return  # the rest has been compacted away
