"""What the demo shows: group state from the admin port, offsets and lag through a real client."""

from __future__ import annotations

import http.client
import json
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from msgspec import Struct, field

TIMEOUT_S = 5.0


class Snapshot(Struct):
    """One look at the group. `committed` and `ends` by partition."""

    state: str = "-"
    group_epoch: int = 0
    assignment_epoch: int = 0
    members: list[dict[str, Any]] = field(default_factory=list)
    committed: dict[int, int] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)

    @property
    def lag(self) -> int:
        return sum(max(0, end - self.committed.get(p, 0)) for p, end in self.ends.items())

    def owned(self) -> dict[int, str]:
        """Partition -> client id of its owner."""
        return {
            partition: member["client_id"]
            for member in self.members
            for partitions in member["owned"].values()
            for partition in partitions
        }


class Watcher:
    """Reads snapshots of one group and topic."""

    def __init__(
        self, bootstrap: str, admin: tuple[str, int], group: str, topic: str, partitions: int
    ) -> None:
        self._admin = admin
        self._group = group
        self._partitions = [TopicPartition(topic, p) for p in range(partitions)]
        # A consumer that never subscribes: it only reads offsets.
        self._reader = Consumer({"bootstrap.servers": bootstrap, "group.id": group})

    def look(self) -> Snapshot:
        shot = Snapshot()
        group = self._describe()
        if group is not None:
            shot.state = group["state"]
            shot.group_epoch = group["group_epoch"]
            shot.assignment_epoch = group["assignment_epoch"]
            shot.members = sorted(group["members"], key=lambda m: m["client_id"])
        try:
            for part in self._reader.committed(self._partitions, timeout=TIMEOUT_S):
                if part.offset >= 0:
                    shot.committed[part.partition] = part.offset
            for part in self._partitions:
                _, high = self._reader.get_watermark_offsets(part, timeout=TIMEOUT_S, cached=False)
                shot.ends[part.partition] = high
        except KafkaException:
            pass  # shown again in a moment
        return shot

    def close(self) -> None:
        self._reader.close()

    def _describe(self) -> dict[str, Any] | None:
        connection = http.client.HTTPConnection(*self._admin, timeout=TIMEOUT_S)
        try:
            connection.request("GET", f"/groups/{self._group}")
            reply = connection.getresponse()
            body = reply.read()
        finally:
            connection.close()
        if reply.status != 200:
            return None
        group: dict[str, Any] = json.loads(body)
        return group
