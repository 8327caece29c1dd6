"""A share group at rest: records that it has not read, and members that have their partitions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from groupd.protocol.records.batch_builder import encode_batch
from tests.bench import frames
from tests.bench.load.generator import LoadFailed, once
from tests.support.kio_entities import read_response, request_bytes
from tests.support.wire_client import WireClient

TOPIC = "bench"
PARTITIONS = 10
RECORD_BYTES = 100
PRODUCED_AT_ONCE = 100
"""Records of a batch: some 11 KB, of the 16 KB that a Java producer fills by default."""
SETTLE_S = 60.0
PAUSE_S = 0.05
"""The pause between rounds of heartbeats: partitions are initialised in the background."""
GROUP_RESOURCE = 32
PRODUCE, PRODUCE_VERSION = 0, 9
MAX_BYTES = 50 << 20
MAX_WAIT_MS = 500
RECORD_LIMIT = 1
TAGS = 1
"""The bytes of the tagged fields before the body of a reply: there are none."""
SHARE_FETCH, SHARE_FETCH_VERSION = 78, 2
SETTINGS: Mapping[str, str] = {
    "group.share.assignment.interval.ms": "0",
    "group.share.partition.max.record.locks": "10000",
    "group.share.max.partition.max.record.locks": "10000",
}
"""A target at every change, and so many locks that a hundred consumers do not wait for them."""

Address = tuple[str, int]
Assigned = Mapping[bytes, tuple[int, ...]]
"""Partitions by topic id."""


@dataclass(frozen=True, slots=True)
class ShareMember:
    group: str
    name: str
    assigned: Assigned

    def fetch(self, records: int, epoch: int = 0, max_wait_ms: int = MAX_WAIT_MS) -> bytes:
        """A ShareFetch of all its partitions, as a whole frame, with the limits of a Java consumer.
        `records`: how many it asks for; one alone is asked for in the mode that gives no more."""
        fields = {
            "group_id": self.group,
            "member_id": self.name,
            "share_session_epoch": epoch,
            "max_wait": max_wait_ms,
            "min_bytes": 1,
            "max_bytes": MAX_BYTES,
            "max_records": records,
            "batch_size": records,
            "share_acquire_mode": RECORD_LIMIT if records == 1 else 0,
            "topics": [
                {"topic_id": topic, "partitions": [{"partition_index": p} for p in partitions]}
                for topic, partitions in self.assigned.items()
            ],
        }
        return _frame("ShareFetch", SHARE_FETCH, SHARE_FETCH_VERSION, fields)


def _frame(name: str, key: int, version: int, fields: Mapping[str, Any]) -> bytes:
    body = request_bytes(name, version, fields)
    return frames.request_frame(key, version, body, flexible=True)


def produce(address: Address, records: int) -> None:
    """Appends so many records of 100 bytes, evenly, in batches as a producer makes them. Raises
    LoadFailed."""
    batch = encode_batch(
        0, -1, time.time_ns() // 1_000_000, [(None, bytes(RECORD_BYTES))] * PRODUCED_AT_ONCE
    )
    data = [{"index": index, "records": batch} for index in range(PARTITIONS)]
    topics = [{"name": TOPIC, "partition_data": data}]
    fields = {"acks": -1, "timeout": 10_000, "topic_data": topics}
    frame = _frame("Produce", PRODUCE, PRODUCE_VERSION, fields)
    asked = [frame] * -(-records // (PARTITIONS * PRODUCED_AT_ONCE))
    for reply in once(address, asked, PARTITIONS).replies:
        told = read_response("Produce", PRODUCE_VERSION, reply[TAGS:])
        partitions = told["responses"][0]["partition_responses"]
        if failed := [one["error_code"] for one in partitions if one["error_code"]]:
            raise LoadFailed(f"error {failed[0]} of Produce")


def share_members(address: Address, group: str, count: int) -> Sequence[ShareMember]:
    """The members of a new group that reads from the begin of the topic, when all have the
    partitions that they are to have. Raises LoadFailed."""
    with WireClient(*address) as client:
        _read_from_the_begin(client, group)
        members = [_Joining(group, f"{group}-{index:04d}") for index in range(count)]
        deadline = time.monotonic() + SETTLE_S
        while True:
            for member in members:
                member.beat(client)
            if _complete(members):
                return [ShareMember(group, one.name, dict(one.assigned)) for one in members]
            if time.monotonic() > deadline:
                raise LoadFailed("members of the share group do not come to rest")
            time.sleep(PAUSE_S)


def _read_from_the_begin(client: WireClient, group: str) -> None:
    setting = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": [setting]}
    reply = client.call("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
    if code := reply["responses"][0]["error_code"]:
        raise LoadFailed(f"error {code} of the configs of the share group")


@dataclass(slots=True)
class _Joining:
    """A member until it has its partitions."""

    group: str
    name: str
    epoch: int = 0
    assigned: Assigned | None = None

    def beat(self, client: WireClient) -> None:
        reply = client.call(
            "ShareGroupHeartbeat",
            1,
            group_id=self.group,
            member_id=self.name,
            member_epoch=self.epoch,
            subscribed_topic_names=None if self.epoch else [TOPIC],
        )
        if code := reply["error_code"]:
            raise LoadFailed(f"error {code} of ShareGroupHeartbeat")
        self.epoch = reply["member_epoch"]
        if (given := reply["assignment"]) is not None:
            found = given["topic_partitions"]
            self.assigned = {one["topic_id"]: tuple(one["partitions"]) for one in found}


def _complete(members: Sequence[_Joining]) -> bool:
    """Whether all are at one epoch, have a partition, and all partitions are given to somebody."""
    given = [{p for parts in (m.assigned or {}).values() for p in parts} for m in members]
    complete = all(given) and set().union(*given) == set(range(PARTITIONS))
    return complete and len({member.epoch for member in members}) == 1
