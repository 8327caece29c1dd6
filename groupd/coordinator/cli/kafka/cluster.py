"""A cluster of brokers, and which of them leads a partition or coordinates a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from types import TracebackType

from groupd.coordinator.cli.kafka import calls, config_calls, group_calls
from groupd.coordinator.cli.kafka.calls import TopicMetadata
from groupd.coordinator.cli.kafka.connection import (
    UNPROTECTED,
    BlockingConnection,
    ClientSecurity,
    KafkaError,
    first_that_answers,
)
from groupd.coordinator.core.offsets.store import TopicPartition as Place

USED = (
    calls.METADATA,
    calls.FIND_COORDINATOR,
    group_calls.LIST_GROUPS,
    group_calls.DESCRIBE_GROUPS,
    calls.LIST_OFFSETS,
    calls.FETCH,
    calls.OFFSET_COMMIT,
    calls.OFFSET_FETCH,
    calls.OFFSET_DELETE,
    config_calls.DESCRIBE_CONFIGS,
    config_calls.ALTER_CONFIGS,
)


class KafkaCluster:
    """A context manager. Connections are opened when they are first needed, and then kept.
    `servers`: addresses of brokers, of which one has to answer."""

    def __init__(
        self, servers: Sequence[tuple[str, int]], security: ClientSecurity = UNPROTECTED
    ) -> None:
        self._servers = servers
        self._security = security
        self._connections: dict[tuple[str, int], BlockingConnection] = {}

    def __enter__(self) -> KafkaCluster:
        self.any()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        while self._connections:
            self._connections.popitem()[1].close()

    def at(self, address: tuple[str, int]) -> BlockingConnection:
        if address not in self._connections:
            opened = BlockingConnection(*address, USED, security=self._security)
            self._connections[address] = opened.__enter__()
        return self._connections[address]

    def any(self) -> BlockingConnection:
        """An open connection: the oldest, to the first of the servers that answered."""
        for opened in self._connections.values():
            return opened
        return first_that_answers(self._servers, self.at)

    def brokers(self) -> Mapping[int, tuple[str, int]]:
        """The address of each broker, by node id."""
        return calls.metadata(self.any(), ()).brokers

    def coordinator(self, group_id: str) -> BlockingConnection:
        return self.at(calls.find_coordinator(self.any(), group_id))

    def topics(self, names: Sequence[str]) -> Mapping[str, TopicMetadata]:
        """The topics that exist, of those that are asked for."""
        return calls.metadata(self.any(), names).topics

    def leader(self, topic: str, partition: int) -> BlockingConnection:
        found = calls.metadata(self.any(), [topic])
        entry = found.topics.get(topic)
        for at in entry.partitions if entry else ():
            if at.partition == partition and at.leader in found.brokers:
                return self.at(found.brokers[at.leader])
        raise KafkaError(f"{topic}-{partition} has no leader now")

    def bounds(self, places: Iterable[Place]) -> dict[Place, tuple[int, int]]:
        """The first offset and the end of partitions; a partition that cannot be asked is
        absent."""
        bounds: dict[Place, tuple[int, int]] = {}
        for connection, led in self._by_leader(set(places)):
            starts = calls.list_offsets(connection, led, calls.EARLIEST)
            ends = calls.list_offsets(connection, led, calls.LATEST)
            bounds.update({at: (starts[at], ends[at]) for at in led if at in starts and at in ends})
        return bounds

    def at_time(self, places: Iterable[Place], time_ms: int) -> dict[Place, int]:
        """The offset of the first record of that time or later; a partition that has none, or
        cannot be asked, is absent."""
        found: dict[Place, int] = {}
        for connection, led in self._by_leader(set(places)):
            answer = calls.list_offsets(connection, led, time_ms)
            found.update({at: offset for at, offset in answer.items() if offset >= 0})
        return found

    def _by_leader(self, wanted: Set[Place]) -> Iterator[tuple[BlockingConnection, list[Place]]]:
        """The partitions by the broker that leads them, without those whose leader is away."""
        names = sorted({topic for topic, _ in wanted})
        found = calls.metadata(self.any(), names, strict=False)
        by_leader: dict[int, list[Place]] = {}
        for topic in found.topics.values():
            for at in topic.partitions:
                if (topic.name, at.partition) in wanted and at.leader in found.brokers:
                    by_leader.setdefault(at.leader, []).append((topic.name, at.partition))
        for leader, led in by_leader.items():
            try:
                connection = self.at(found.brokers[leader])
            except KafkaError:
                continue
            yield connection, led
