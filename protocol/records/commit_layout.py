"""The records of a commit whose partitions have been committed before, encoded in one go.

The bytes are those of `codec.encode_contents` and `batch_records.join_contents`; what does not
change from one commit to the next is made once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from struct import Struct

from groupd.protocol.messages import TopicId
from groupd.protocol.records.batch_records import ATTRIBUTES_AND_TIME, zigzag, zigzags
from groupd.protocol.records.offset_records import BARE_VALUE_BYTES, bare_content_parts, key_prefix
from groupd.protocol.records.primitives import INT32

_INT64 = Struct(">q").pack
_PLACE_BYTES_MAX = 5
"""Of an offset delta, which has 32 bits."""


class TopicLayout:
    """Of `count` partitions of one topic, in the order of the commit. `size_bytes`: of their keys
    and values."""

    __slots__ = ("_endings", "_fronts", "_opening", "_starts", "count", "size_bytes")

    def __init__(
        self,
        group: str,
        topic: str,
        topic_id: TopicId,
        partitions: Sequence[int],
        leader_epochs: Sequence[int],
    ) -> None:
        prefix = key_prefix(group, topic)
        key_bytes = len(prefix) + INT32.size
        self._opening = zigzag(key_bytes) + prefix
        parts = [bare_content_parts(leader_epoch, topic_id) for leader_epoch in leader_epochs]
        self._fronts = [
            INT32.pack(partition) + head
            for partition, (head, _, _) in zip(partitions, parts, strict=True)
        ]
        self._endings = [(middle, ending) for _, middle, ending in parts]
        if len(set(self._endings)) == 1:
            del self._endings[1:]  # nearly always: one for all
        value_bytes = len(zigzag(BARE_VALUE_BYTES)) + BARE_VALUE_BYTES
        rest = len(ATTRIBUTES_AND_TIME) + len(self._opening) + INT32.size + value_bytes + 1
        self._starts = [
            zigzag(rest + place_bytes) + ATTRIBUTES_AND_TIME
            for place_bytes in range(_PLACE_BYTES_MAX + 1)
        ]
        self.count = len(partitions)
        self.size_bytes = self.count * (key_bytes + BARE_VALUE_BYTES)

    def parts(
        self, offsets: Iterable[int], stamp: bytes, places: Sequence[bytes]
    ) -> Iterator[Iterable[bytes]]:
        """The bytes of all records, in pieces; `places`: their encoded offset deltas."""
        starts: Iterable[bytes]
        if len(places[0]) == len(places[-1]):
            starts = repeat(self._starts[len(places[0])])
        else:
            starts = map(self._starts.__getitem__, map(len, places))
        endings: Iterable[bytes] = [front + stamp + end for front, end in self._endings]
        if len(self._endings) == 1:
            endings = repeat(*endings)
        return zip(
            starts,
            places,
            repeat(self._opening),
            self._fronts,
            map(_INT64, offsets),
            endings,
            strict=False,
        )


class CommitLayout:
    """Of a whole commit."""

    __slots__ = ("_topics", "count", "size_bytes")

    def __init__(self, topics: Sequence[TopicLayout]) -> None:
        self._topics = topics
        self.count = sum(topic.count for topic in topics)
        self.size_bytes = sum(topic.size_bytes for topic in topics)

    def encode(self, offsets: Sequence[int], commit_timestamp_ms: int, first_delta: int) -> bytes:
        """`batch_records.join_contents` of its records; offsets in the order of the commit."""
        places = zigzags(first_delta, self.count)
        stamp = _INT64(commit_timestamp_ms)
        at = 0
        pieces: list[bytes] = []
        for layout in self._topics:
            end = at + layout.count
            pieces += chain.from_iterable(layout.parts(offsets[at:end], stamp, places[at:end]))
            at = end
        return b"".join(pieces)
