"""Members of share groups under load: a record whose acceptance was answered is not delivered
again, and no record is over about which nothing was said."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from random import Random
from typing import Any

from tests.crash.produces import FETCH, PRODUCERS_TOPIC
from tests.crash.wire import Connection, data_fetch_body, fetched_records

ACCEPT, RELEASE = 1, 2
RETRIABLE = {3, 6, 14, 15, 16, -1}
"""What a daemon says that does not serve yet, or does not serve any more; -1 and 3: of a
share-partition that is not initialized or loaded yet. Nothing was done then."""

PAUSE_S = 0.02


class ShareMember:
    """The only member of a share group, which reads one partition of the producers. It accepts most
    records and releases some; those come again.

    `accepted`: offsets whose acceptance was answered; `asked`: those for which it was sent.
    """

    def __init__(self, group: str, partition: int, seed: int) -> None:
        self.group, self.partition = group, partition
        self.accepted: set[int] = set()
        self.asked: set[int] = set()
        self._random = Random(seed)
        self._topic_id = b""
        self._epoch = 0

    async def run(self, connection: Connection) -> None:
        """Reads and acknowledges until the connection ends."""
        try:
            await self._join(connection)
            self._epoch = 0
            while True:
                await self._cycle(connection)
                await asyncio.sleep(self._random.uniform(0, PAUSE_S))
        except ConnectionError:
            return

    async def _join(self, connection: Connection) -> None:
        if not self._topic_id:
            configs = [
                {"name": name, "config_operation": 0, "value": value}
                for name, value in (
                    ("share.auto.offset.reset", "earliest"),
                    ("share.delivery.count.limit", "10"),
                )
            ]
            resource = {"resource_type": 32, "resource_name": self.group, "configs": configs}
            reply = await connection.ask("IncrementalAlterConfigs", 1, {"resources": [resource]})
            assert reply["responses"][0]["error_code"] == 0, reply
            reply = await connection.ask("Metadata", 12, {"topics": [{"name": PRODUCERS_TOPIC}]})
            self._topic_id = reply["topics"][0]["topic_id"]
        fields = {"member_epoch": 0, "subscribed_topic_names": [PRODUCERS_TOPIC]}
        await self._ask(connection, "ShareGroupHeartbeat", **fields)

    async def _ask(self, connection: Connection, api: str, **fields: Any) -> dict[str, Any]:
        said = {"group_id": self.group, "member_id": f"{self.group}-m", **fields}
        reply = await connection.ask(api, 1, said)
        assert reply["error_code"] in {0, *RETRIABLE}, reply
        return reply

    async def _session(
        self, connection: Connection, api: str, batches: Iterable[Any] = (), **fields: Any
    ) -> list[dict[str, Any]]:
        """One request of the session; the entries of its reply."""
        named = [{"partition_index": self.partition, "acknowledgement_batches": list(batches)}]
        topics = [{"topic_id": self._topic_id, "partitions": named}]
        epoch = {"share_session_epoch": self._epoch}
        reply = await self._ask(connection, api, **epoch, topics=topics, **fields)
        self._epoch = self._epoch + 1 if reply["error_code"] == 0 else 0
        return [one for topic in reply["responses"] for one in topic["partitions"]]

    async def _cycle(self, connection: Connection) -> None:
        limits = {"max_bytes": 1 << 20, "max_records": 20, "batch_size": 20}
        found = await self._session(connection, "ShareFetch", max_wait=10, min_bytes=1, **limits)
        for entry in found:
            assert entry["error_code"] in {0, *RETRIABLE}, entry
            for acquired in entry["acquired_records"]:
                offsets = range(acquired["first_offset"], acquired["last_offset"] + 1)
                again = self.accepted.intersection(offsets)
                assert not again, f"{self.group}: {sorted(again)} were accepted and come again"
                await self._acknowledge(connection, offsets, acquired["delivery_count"])

    async def _acknowledge(self, connection: Connection, offsets: range, count: int) -> None:
        accepts = count > 2 or self._random.random() < 0.8
        batch = {
            "first_offset": offsets[0],
            "last_offset": offsets[-1],
            "acknowledge_types": [ACCEPT if accepts else RELEASE],
        }
        if accepts:
            self.asked.update(offsets)
        (entry,) = await self._session(connection, "ShareAcknowledge", [batch])
        if accepts and entry["error_code"] == 0:
            self.accepted.update(offsets)

    async def check(self, connection: Connection) -> None:
        """Compares what is over with what was said."""
        if not self.accepted:
            return
        topics = [{"topic_name": PRODUCERS_TOPIC, "partitions": [self.partition]}]
        asked = {"groups": [{"group_id": self.group, "topics": topics}]}
        reply = await connection.ask("DescribeShareGroupOffsets", 1, asked)
        (entry,) = reply["groups"][0]["topics"][0]["partitions"]
        body = data_fetch_body(PRODUCERS_TOPIC, self.partition, 0)
        _, end, _ = fetched_records(await connection.call(FETCH, 4, body))
        assert entry["error_code"] == 0, entry
        over = end - entry["lag"]
        assert len(self.accepted) <= over <= len(self.asked), (self.group, entry, end)
