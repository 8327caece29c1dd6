"""The records of a commit (docs/spec/offsets-and-log.md#5.1), one for each partition.

They have the same group, time and expire time, and those of a topic the same topic id. So they are
kept by column, and records without metadata are packed with one layout, without a line of Python
for each. `runtime.commit_runs` reads them back in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import repeat
from struct import Struct as Layout

from msgspec import Struct

from groupd.protocol.messages import TopicId
from groupd.protocol.records.batch_builder import NO_HEADERS, RECORD_OVERHEAD_BYTES
from groupd.protocol.records.offset_records import (
    BARE_VALUE_BYTES,
    BARE_VALUE_START,
    bare_value_end,
    key_start,
)
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record
from groupd.protocol.records.varints import zigzag, zigzags

_ATTRIBUTES_AND_TIME = b"\x00\x00"
_PARTITION_BYTES = 4
_FIRST_WIDER = {width: 1 << 7 * width - 1 for width in range(1, 6)}
"""The first offset delta whose varint has more bytes than this."""


class TopicCommits(Struct, frozen=True):
    """The offsets of one topic: `partitions[i]` has `offsets[i]`. `metadata` None: none has
    metadata."""

    topic: str
    topic_id: TopicId
    partitions: Sequence[int]
    offsets: Sequence[int]
    leader_epochs: Sequence[int]
    metadata: Sequence[str] | None = None


class CommitRecords(Struct, frozen=True):
    """The records of one commit, `count` in all. `expire_ms` -1: they have no expire time. `bare`:
    all have a topic id, and neither metadata nor an expire time; only then `size_bytes` and
    `packed` may be used."""

    group: str
    commit_ms: int
    expire_ms: int
    topics: Sequence[TopicCommits]
    count: int
    bare: bool

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Record]:
        for topic in self.topics:
            metadata = topic.metadata or repeat("")
            offsets, epochs = topic.offsets, topic.leader_epochs
            rows = zip(topic.partitions, offsets, epochs, metadata, strict=False)
            for partition, offset, epoch, text in rows:
                key = OffsetCommitKey(self.group, topic.topic, partition)
                times = self.commit_ms, self.expire_ms
                yield Record(key, OffsetCommitValue(offset, epoch, text, *times, topic.topic_id))

    def size_bytes(self) -> int:
        """An upper bound of the size of all records. Raises ValueError for a string of more than
        32767 bytes."""
        size = self.count * (RECORD_OVERHEAD_BYTES + _PARTITION_BYTES + BARE_VALUE_BYTES)
        for topic in self.topics:
            size += len(topic.partitions) * len(key_start(self.group, topic.topic))
        return size

    def packed(self, first_delta: int) -> bytes:
        """The records in a batch; `first_delta`: the first record's offset minus the batch's base
        offset."""
        packed: list[bytes] = []
        for topic in self.topics:
            start = key_start(self.group, topic.topic)
            key = zigzag(len(start) + _PARTITION_BYTES) + start
            end = bare_value_end(self.commit_ms, topic.topic_id) + NO_HEADERS
            at, count = 0, len(topic.partitions)
            while at < count:
                # All records whose offset deltas take equally many bytes have the same layout.
                width = len(zigzag(first_delta))
                to = min(count, at + _FIRST_WIDER[width] - first_delta)
                pack, front = _layout(width, len(key), len(end))
                rows = zip(
                    zigzags(first_delta, to - at),
                    topic.partitions[at:to],
                    topic.offsets[at:to],
                    topic.leader_epochs[at:to],
                    strict=True,
                )
                packed += [
                    pack(front, delta, key, partition, BARE_VALUE_START, offset, epoch, end)
                    for delta, partition, offset, epoch in rows
                ]
                first_delta += to - at
                at = to
        return b"".join(packed)


@lru_cache(maxsize=1024)
def _layout(width: int, key: int, end: int) -> tuple[Callable[..., bytes], bytes]:
    """Returns a function that packs a record, and its first argument, the front: the length of the
    record, its attributes and timestamp delta. The other arguments: offset delta, `width` bytes;
    size and start of the key, `key` bytes; partition; size and version of the value; offset; leader
    epoch; the rest, `end` bytes."""
    layout = f"{width}s{key}si{len(BARE_VALUE_START)}sqi{end}s"
    length = Layout(f">{layout}").size + len(_ATTRIBUTES_AND_TIME)
    front = zigzag(length) + _ATTRIBUTES_AND_TIME
    return Layout(f">{len(front)}s{layout}").pack, front
