"""A cluster of brokers, and which of them leads a partition or coordinates a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from types import TracebackType

from groupd.client.connection import UNPROTECTED, ClientSecurity
from groupd.coordinator.cli.kafka import calls
from groupd.coordinator.cli.kafka.calls import TopicMetadata
from groupd.coordinator.cli.kafka.connection import BlockingConnection, ClientLoop, KafkaError
from groupd.coordinator.core.offsets.store import TopicPartition


class KafkaCluster:
    """A context manager. Connections are opened when they are first needed, and then kept.
    `servers`: addresses of brokers, of which one has to answer."""

    def __init__(
        self, servers: Sequence[tuple[str, int]], security: ClientSecurity = UNPROTECTED
    ) -> None:
        self._servers = servers
        self._security = security
        self._connections: dict[tuple[str, int], BlockingConnection] = {}
        self._loop: ClientLoop | None = None

    def __enter__(self) -> KafkaCluster:
        try:
            self.any()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connections.clear()
        if self._loop is not None:
            self._loop.close()
            self._loop = None

    def at(self, address: tuple[str, int]) -> BlockingConnection:
        if self._loop is None:
            self._loop = ClientLoop(self._security)
        if address not in self._connections:
            self._connections[address] = self._loop.open(*address)
        return self._connections[address]

    def any(self) -> BlockingConnection:
        """An open connection: the oldest, to the first of the servers that answered. Raises the
        KafkaError of the first one if none does."""
        refused: KafkaError | None = None
        for address in (*self._connections, *self._servers):
            try:
                return self.at(address)
            except KafkaError as error:
                refused = refused or error
        assert refused is not None, "no server"
        raise refused

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

    def bounds(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """The first offset and the end of partitions; a partition that cannot be asked is
        absent."""
        bounds: dict[TopicPartition, tuple[int, int]] = {}
        for connection, led in self._by_leader(set(places)):
            starts = calls.list_offsets(connection, led, calls.EARLIEST)
            ends = calls.list_offsets(connection, led, calls.LATEST)
            bounds.update({at: (starts[at], ends[at]) for at in led if at in starts and at in ends})
        return bounds

    def at_time(self, places: Iterable[TopicPartition], time_ms: int) -> dict[TopicPartition, int]:
        """The offset of the first record of that time or later; a partition that has none, or
        cannot be asked, is absent."""
        found: dict[TopicPartition, int] = {}
        for connection, led in self._by_leader(set(places)):
            answer = calls.list_offsets(connection, led, time_ms)
            found.update({at: offset for at, offset in answer.items() if offset >= 0})
        return found

    def _by_leader(
        self, wanted: Set[TopicPartition]
    ) -> Iterator[tuple[BlockingConnection, list[TopicPartition]]]:
        """The partitions by the broker that leads them, without those whose leader is away."""
        names = sorted({topic for topic, _ in wanted})
        found = calls.metadata(self.any(), names, strict=False)
        by_leader: dict[int, list[TopicPartition]] = {}
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
