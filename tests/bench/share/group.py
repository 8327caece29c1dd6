"""A share group at rest: records that it has not read, and members that have their partitions."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.share_fetch import (
    ACCEPT,
    BATCH_OPTIMIZED,
    RECORD_LIMIT,
    AcknowledgedPartition,
    AcknowledgedTopic,
    AcknowledgementBatch,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
)
from groupd.protocol.records.batch_builder import encode_batch
from groupd.protocol.wire.api.share_fetch import SHARE_ACKNOWLEDGE, SHARE_FETCH
from groupd.protocol.wire.registry import Api
from tests.bench import frames
from tests.bench.load.generator import LoadFailed, once
from tests.support.kio_entities import read_response, request_bytes
from tests.support.wire_client import WireClient

TOPIC = "bench"
PARTITIONS = 10
RECORD_BYTES = 100
PRODUCED_AT_ONCE = 100
"""Records of a batch as a producer makes them: some 11 KB, of the 16 KB that a Java producer fills
by default."""
SETTLE_S = 60.0
PAUSE_S = 0.05
"""The pause between rounds of heartbeats: partitions are initialised in the background."""
GROUP_RESOURCE = 32
PRODUCE, PRODUCE_VERSION = 0, 9
VERSION = 2
"""Of ShareFetch and ShareAcknowledge."""
TAGS = 1
"""The bytes of the tagged fields before the body of a reply: there are none."""
MAX_BYTES = 50 << 20
MAX_WAIT_MS = 500
SETTINGS: Mapping[str, str] = {
    "group.share.assignment.interval.ms": "0",
    "group.share.partition.max.record.locks": "10000",
    "group.share.max.partition.max.record.locks": "10000",
}
"""A target at every change, and so many locks that a hundred consumers do not wait for them."""

Address = tuple[str, int]
Assigned = Mapping[bytes, tuple[int, ...]]
"""Partitions by topic id."""


class Range(NamedTuple):
    """Acquired records of a partition, both ends included."""

    topic_id: bytes
    partition: int
    first: int
    last: int

    @property
    def records(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class ShareMember:
    group: str
    name: str
    assigned: Assigned

    def fetch(self, records: int, epoch: int = 0, accepted: Sequence[Range] = ()) -> bytes:
        """A ShareFetch with the limits of a Java consumer, as a whole frame. It acknowledges the
        `accepted` records; without them it names all partitions of the member. `records`: how many
        it asks for; one alone is asked for in the mode that gives no more."""
        request = ShareFetchRequest(
            self.group,
            self.name,
            epoch,
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            max_records=records,
            batch_size=records,
            acquire_mode=RECORD_LIMIT if records == 1 else BATCH_OPTIMIZED,
            topics=_acknowledging(accepted, bytes((ACCEPT,))) if accepted else self._all(),
        )
        return _frame(SHARE_FETCH, request)

    def acknowledge(self, ranges: Sequence[Range], types: bytes, epoch: int) -> bytes:
        """A ShareAcknowledge, as a whole frame. `types`: one for each range as a whole, or those of
        its records, which are repeated as often as it takes."""
        topics = _acknowledging(ranges, types)
        return _frame(
            SHARE_ACKNOWLEDGE, ShareAcknowledgeRequest(self.group, self.name, epoch, topics=topics)
        )

    def _all(self) -> tuple[AcknowledgedTopic, ...]:
        return tuple(
            AcknowledgedTopic(topic_id, tuple(map(AcknowledgedPartition, partitions)))
            for topic_id, partitions in self.assigned.items()
        )


def _acknowledging(ranges: Sequence[Range], types: bytes) -> tuple[AcknowledgedTopic, ...]:
    topics = []
    for one in ranges:
        told = types if len(types) == 1 else (types * one.records)[: one.records]
        batch = AcknowledgementBatch(one.first, one.last, told)
        partition = AcknowledgedPartition(one.partition, (batch,))
        topics.append(AcknowledgedTopic(one.topic_id, (partition,)))
    return tuple(topics)


def _frame(api: Api, request: Any) -> bytes:
    body = api.encode_request(request, VERSION)
    return frames.request_frame(api.key, VERSION, body, flexible=True)


def acquired(reply: bytes) -> list[Range]:
    """What a ShareFetch acquired. Its reply begins with the tagged fields. Raises LoadFailed."""
    told = SHARE_FETCH.decode_reply(reply, TAGS, VERSION)
    _check(told.error, "ShareFetch")
    found = []
    for topic in told.topics:
        for one in topic.partitions:
            _check(one.error, "ShareFetch")
            for entry in one.acquired:
                place = topic.topic_id, one.partition
                found.append(Range(*place, entry.first_offset, entry.last_offset))
    return found


def check_acknowledged(reply: bytes) -> None:
    """Checks the reply to a ShareAcknowledge. Raises LoadFailed."""
    told = SHARE_ACKNOWLEDGE.decode_reply(reply, TAGS, VERSION)
    _check(told.error, "ShareAcknowledge")
    for topic in told.topics:
        for one in topic.partitions:
            _check(one.error, "ShareAcknowledge", one.error_message)


def _check(code: int, api: str, message: str | None = None) -> None:
    if code:
        raise LoadFailed(f"error {ErrorCode(code).name} of {api}: {message or 'no message'}")


def produce(address: Address, records: int, batch_records: int = PRODUCED_AT_ONCE) -> None:
    """Appends so many records of 100 bytes, evenly, in batches. Raises LoadFailed."""
    pairs = [(None, bytes(RECORD_BYTES))] * batch_records
    batch = encode_batch(0, -1, time.time_ns() // 1_000_000, pairs)
    data = [{"index": index, "records": batch} for index in range(PARTITIONS)]
    topics = [{"name": TOPIC, "partition_data": data}]
    fields = {"acks": -1, "timeout": 10_000, "topic_data": topics}
    body = request_bytes("Produce", PRODUCE_VERSION, fields)
    frame = frames.request_frame(PRODUCE, PRODUCE_VERSION, body, flexible=True)
    asked = [frame] * -(-records // (PARTITIONS * batch_records))
    for reply in once(address, asked, PARTITIONS).replies:
        told = read_response("Produce", PRODUCE_VERSION, reply[TAGS:])
        for one in told["responses"][0]["partition_responses"]:
            _check(one["error_code"], "Produce")


def set_config(client: WireClient, group: str, name: str, value: str) -> None:
    """Sets a config of a group. Raises LoadFailed."""
    setting = {"name": name, "config_operation": 0, "value": value}
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": [setting]}
    reply = client.call("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
    _check(reply["responses"][0]["error_code"], "IncrementalAlterConfigs")


def share_members(
    address: Address, group: str, count: int, partitions: int = PARTITIONS
) -> Sequence[ShareMember]:
    """The members of a new group that reads from the begin of the topic, when all have what they
    are to have of its partitions. Raises LoadFailed."""
    with WireClient(*address) as client:
        set_config(client, group, "share.auto.offset.reset", "earliest")
        members = [_Joining(group, f"{group}-{index:04d}") for index in range(count)]
        deadline = time.monotonic() + SETTLE_S
        while True:
            for member in members:
                member.beat(client)
            if _complete(members, partitions):
                return [ShareMember(group, one.name, dict(one.assigned)) for one in members]
            if time.monotonic() > deadline:
                raise LoadFailed("members of the share group do not come to rest")
            time.sleep(PAUSE_S)


@dataclass(slots=True)
class _Joining:
    """A member until it has its partitions; epoch 0: it is not in the group yet."""

    group: str
    name: str
    epoch: int = 0
    assigned: Assigned = field(default_factory=dict)

    def beat(self, client: WireClient) -> None:
        reply = client.call(
            "ShareGroupHeartbeat",
            1,
            group_id=self.group,
            member_id=self.name,
            member_epoch=self.epoch,
            subscribed_topic_names=None if self.epoch else [TOPIC],
        )
        _check(reply["error_code"], "ShareGroupHeartbeat")
        self.epoch = reply["member_epoch"]
        if (given := reply["assignment"]) is not None:
            found = given["topic_partitions"]
            self.assigned = {one["topic_id"]: tuple(one["partitions"]) for one in found}


def _complete(members: Sequence[_Joining], partitions: int) -> bool:
    """Whether all are at one epoch, each has partitions, and every partition is given to
    somebody."""
    given = [{p for parts in member.assigned.values() for p in parts} for member in members]
    complete = all(given) and set().union(*given) == set(range(partitions))
    return complete and len({member.epoch for member in members}) == 1
