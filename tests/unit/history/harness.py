"""A real shard whose every outcome becomes a batch of bytes, as the journal makes them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

from crc32c import crc32c

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.shard import GroupCoordinatorShard
from groupd.coordinator.core.shard_requests import DeleteGroup
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import AppliedAt, Instant, RequestContext
from groupd.coordinator.history import replay as history
from groupd.coordinator.history.changes import Change
from groupd.coordinator.history.replay import Extent
from groupd.protocol.consumer_protocol import EmbeddedAssignment, encode_assignment
from groupd.protocol.errors import ApiError
from groupd.protocol.messages.offsets import (
    CommitPartition,
    FetchTopic,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    TxnOffsetCommitRequest,
    commit_topic,
)
from groupd.protocol.records.batch import decode_marker, iter_records, parse_header
from groupd.protocol.records.batch_builder import encode_batch, encode_marker
from groupd.protocol.records.codec import encode_key, encode_value
from groupd.protocol.records.schema import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    Record,
)

T_ID = b"t" * 16
START_MS = 1_772_366_400_000
RETENTION_MINUTES = 60
Answer = dict[tuple[str, int], tuple[int, int, str]]


class LoggedShard:
    """`batches` is the log; `now_ms` the clock, which every write moves on."""

    def __init__(self) -> None:
        config = CoordinatorConfig(offsets_retention_minutes=RETENTION_MINUTES)
        self.shard = GroupCoordinatorShard(ShardState(config, new_id=lambda: "id", assignors={}))
        self.batches: list[bytes] = []
        self.end = 0
        self.now_ms = START_MS

    @property
    def now(self) -> Instant:
        return Instant(self.now_ms, self.now_ms)

    def write(self, records: Sequence[Record], producer_id: int = -1) -> None:
        """Writes one batch; nothing if there are no records."""
        if not records:
            return
        self.now_ms += 1000
        for index, record in enumerate(records):
            self.shard.replay(record, AppliedAt(self.end + index, producer_id, 0))
        self.batches.append(
            encode_batch(
                self.end,
                0,
                self.now_ms,
                [(encode_key(record.key), encode_value(record)) for record in records],
                producer_id,
                0 if producer_id >= 0 else -1,
                transactional=producer_id >= 0,
            )
        )
        self.end += len(records)

    def request(self, request: Any) -> Any:
        """The reply to a request, whose records are written."""
        outcome = self.shard.handle(RequestContext(7, 9), request, self.now)
        self.write(outcome.logged, outcome.transaction[0] if outcome.transaction else -1)
        ((_, reply),) = outcome.replies
        return reply

    def commit(self, group: str, partition: int, offset: int, **fields: Any) -> Any:
        entry = CommitPartition(partition, offset, 1, f"m{offset}")
        topic = commit_topic("t", (entry,), T_ID)
        return self.request(OffsetCommitRequest(group, (topic,), **fields))

    def txn_commit(self, group: str, partition: int, offset: int, producer_id: int) -> None:
        topic = commit_topic("t", (CommitPartition(partition, offset),), T_ID)
        self.request(TxnOffsetCommitRequest("tid", group, producer_id, 0, (topic,)))

    def marker(self, producer_id: int, *, commit: bool) -> None:
        self.now_ms += 1000
        self.shard.replay_marker(producer_id, commit)
        self.batches.append(
            encode_marker(self.end, 0, self.now_ms, producer_id, 0, 1, commit=commit)
        )
        self.end += 1

    def delete(self, group: str, partition: int) -> None:
        self.request(OffsetDeleteRequest(group, (FetchTopic("t", (partition,)),)))

    def delete_group(self, group: str) -> None:
        """Deletes the group, if that may be."""
        with suppress(ApiError):
            self.request(DeleteGroup(group))

    def sweep(self, after_ms: int = 0) -> None:
        self.now_ms += after_ms
        self.write(self.shard.offsets.sweep(self.now).records)

    def members(self, group: str, generation: int, **assigned: tuple[int, ...]) -> None:
        """Makes a rebalance: `members("g", 3, m1=(0, 1))`; without members the group is Empty."""
        value = GroupMetadataValue(
            "consumer",
            generation,
            "range" if assigned else None,
            min(assigned) if assigned else None,
            self.now_ms,
            tuple(
                GroupMetadataMember(
                    member_id,
                    None,
                    f"client-{member_id}",
                    "/127.0.0.1",
                    30000,
                    10000,
                    b"\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff",
                    encode_assignment(EmbeddedAssignment(1, (("t", partitions),))),
                )
                for member_id, partitions in sorted(assigned.items())
            ),
        )
        self.write([Record(GroupMetadataKey(group), value)])

    def answer(self, group: str) -> Answer:
        """What OffsetFetch answers for all partitions: offset, leader epoch, metadata."""
        fetched = self.request(OffsetFetchGroup(group, None))
        return {
            (topic.name, entry.partition): (entry.offset, entry.leader_epoch, entry.metadata)
            for topic in fetched.topics
            for entry in topic.partitions
        }


async def stream(batches: Sequence[bytes]) -> AsyncIterator[bytes]:
    for payload in batches:
        yield payload


async def state_at(log: LoggedShard, group: str, cut: int) -> Answer:
    state = await history.state_at(stream(log.batches), group, cut)
    return {
        (entry.topic, entry.partition): (entry.offset, entry.leader_epoch, entry.metadata)
        for entry in state.offsets
    }


async def survey(
    batches: Sequence[bytes], at_ms: int | None = None, start: int = 0, group: str = "g"
) -> Extent:
    return await history.survey(lambda: stream(batches), start, group, at_ms)


async def changes(log: LoggedShard, group: str) -> list[Change]:
    extent = await survey(log.batches)
    retention_ms = RETENTION_MINUTES * 60_000
    found = history.changes(stream(log.batches), group, extent, retention_ms=retention_ms)
    return [change async for change in found]


def compacted(
    batches: Sequence[bytes], below: int, *, drop_tombstones: bool = False
) -> list[bytes]:
    """What compaction leaves (docs/spec/offsets-and-log.md#8): below an offset, and below the
    first transaction that is open there, only the newest record of each key, at its place. What
    was aborted goes. Batches that become empty go too, but the last keeps its header."""
    outcomes, below = _transactions(batches, below)
    newest: dict[bytes, int] = {}
    dropped: set[int] = set()
    for payload in batches:
        header = parse_header(payload)
        for raw in iter_records(payload):
            if raw.offset >= below or header.is_control:
                continue
            assert raw.key is not None
            if outcomes.get(raw.offset) is False:
                dropped.add(raw.offset)
                continue
            dropped.add(newest.get(raw.key, -1))
            newest[raw.key] = raw.offset
            if raw.value is None and drop_tombstones:
                dropped.add(raw.offset)
    return [
        left
        for payload in batches
        for left in _without(payload, dropped, is_last=payload is batches[-1])
    ]


def _transactions(batches: Sequence[bytes], below: int) -> tuple[dict[int, bool], int]:
    """For each transactional record, by offset, whether it was committed, as of `below`. And
    `below`, or the first record that is undecided there."""
    outcomes: dict[int, bool] = {}
    pending: dict[int, list[int]] = {}
    for payload in batches:
        header = parse_header(payload)
        if header.base_offset >= below:
            break
        for raw in iter_records(payload):
            if header.is_control:
                marker = decode_marker(raw)
                assert marker is not None
                ended = pending.pop(header.producer_id, [])
                outcomes.update(dict.fromkeys(ended, marker.committed))
            elif header.is_transactional:
                pending.setdefault(header.producer_id, []).append(raw.offset)
    return outcomes, min([below, *(offset for part in pending.values() for offset in part)])


def _without(payload: bytes, dropped: set[int], *, is_last: bool) -> list[bytes]:
    header = parse_header(payload)
    records = list(iter_records(payload))
    left = [record for record in records if record.offset not in dropped]
    if len(left) == len(records):
        return [payload]
    if not left:
        emptied = payload[:57] + bytes(4)
        emptied = emptied[:8] + (len(emptied) - 12).to_bytes(4) + emptied[12:]
        return [with_crc(emptied)] if is_last else []
    return [
        encode_batch(
            record.offset,
            0,
            record.timestamp_ms,
            [(record.key, record.value)],
            header.producer_id,
            header.producer_epoch,
            transactional=header.is_transactional,
        )
        for record in left
    ]


def with_crc(payload: bytes) -> bytes:
    """The batch with its checksum made right."""
    return payload[:17] + crc32c(payload[21:]).to_bytes(4) + payload[21:]
