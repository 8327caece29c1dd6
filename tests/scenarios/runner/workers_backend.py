"""A started groupd with workers over TCP: every request goes where a client would send it."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from groupd.coordinator.core.partitioning import partition_for
from tests.scenarios.runner.backend import Names
from tests.scenarios.runner.tcp_backend import TcpBackend
from tests.support.kio_entities import Plain
from tests.support.wire_client import TIMEOUT_S, WireClient

OFFSETS_TOPICS = ("__consumer_offsets", "__consumer_offsets_compacted")
OF_THE_TRANSACTION = ("AddOffsetsToTxn",)
"""APIs that name a group, but go to the coordinator of the transactional id."""
OF_A_LEADER = ("Fetch", "ListOffsets", "DescribeProducers", "OffsetForLeaderEpoch")


class SeveralCoordinators(Exception):
    """A request about groups of several workers: clients send one to each."""


class RoutedClient:
    """Like a `WireClient`, with a connection to each node that it needs."""

    def __init__(self, host: str, port: int, workers: int, names: Names, client_id: str) -> None:
        self._address = (host, port)
        self._workers, self._names = workers, names
        self._client_id = client_id
        self._clients: dict[int, WireClient] = {}
        self._asked: deque[tuple[int, ...]] = deque()

    def send(self, api: str, version: int, fields: Mapping[str, Any]) -> None:
        nodes = self._nodes(api, fields)
        for node in nodes:
            self._client(node).send(api, version, fields)
        self._asked.append(nodes)

    def receive(self, timeout_s: float = TIMEOUT_S) -> Plain:
        replies = [self._client(node).receive(timeout_s) for node in self._asked[0]]
        self._asked.popleft()
        first, *others = replies
        for other in others:
            first["error_code"] = first["error_code"] or other["error_code"]
            first["groups"] = [*first["groups"], *other["groups"]]
        return first

    def call(self, api: str, version: int, **fields: Any) -> Plain:
        self.send(api, version, fields)
        return self.receive()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def _client(self, node: int) -> WireClient:
        if node not in self._clients:
            host, port = self._address
            self._clients[node] = WireClient(host, port + node, self._client_id)
        return self._clients[node]

    def _nodes(self, api: str, fields: Mapping[str, Any]) -> tuple[int, ...]:
        if api == "ListGroups":
            return tuple(range(1, self._workers + 1))
        if api in OF_A_LEADER:
            found = {
                self._of_shard(_number(one)) if topic.get("name") in OFFSETS_TOPICS else 0
                for topic in fields.get("topics", ())
                for one in topic["partitions"]
            }
        elif api in OF_THE_TRANSACTION:
            found = {0}
        else:
            shards = self._names.offsets_partitions
            found = {self._of_shard(partition_for(one, shards)) for one in _groups(fields)}
        if len(found) > 1:
            raise SeveralCoordinators(f"{api} of nodes {sorted(found)}")
        return tuple(found) or (0,)

    def _of_shard(self, shard: int) -> int:
        return shard % self._workers + 1


def _number(partition: Any) -> int:
    if isinstance(partition, int):
        return partition
    return int(partition.get("partition_index", partition.get("partition")))


def _groups(fields: Mapping[str, Any]) -> set[str]:
    """The groups that a request is about, whatever its field is called."""
    found: set[str] = set()
    if isinstance(fields.get("group_id"), str):
        found.add(fields["group_id"])
    for name in ("groups", "group_ids", "groups_names"):
        for one in fields.get(name) or ():
            found.add(one if isinstance(one, str) else one["group_id"])
    return found


class WorkersBackend(TcpBackend):
    def __init__(self, kind: str, host: str, port: int, workers: int) -> None:
        self._workers = workers
        super().__init__(kind, host, port)

    def _client(self, actor: str) -> Any:
        if actor not in self._clients:
            client = RoutedClient(*self._address, self._workers, self.names, actor or "wire")
            # The backend sends and receives, and does not look at where.
            self._clients[actor] = client  # type: ignore[assignment]
        return self._clients[actor]
