"""Translates the topic ids of another cluster into those of this one.

A topic id belongs to one cluster. Clients that fetch by id (OffsetFetch v10) cannot see an offset
that carries the id of another topic, so ids are translated by topic name:

- The topic exists here: its id here replaces the foreign id.
- The topic will be created: it is created with the foreign id, so that everything still matches,
  also the members' assignments.
- The topic does not exist here: offsets are kept by name only (no id), and are found under any id
  that a topic with that name gets later. Assignments have no names, so they keep the foreign id;
  the group drops it at its first heartbeat.

An id that is not the newest for its name belongs to a deleted topic and stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.json import decode, encode
from msgspec.json import format as indented
from msgspec.structs import replace

from groupd.coordinator.logtools.entries import LogToolError
from groupd.coordinator.logtools.latest import Kept
from groupd.coordinator.logtools.record_json import id_bytes, id_text
from groupd.coordinator.logtools.segments import partition_of
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.records.codec import encode_value
from groupd.protocol.records.schema import (
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
    ShareGroupStatePartitionsValue,
)

TOPICS_FILE = "topics.json"
"""The file beside a consumed copy: `{name: {"id": id or null, "partitions": n}}`."""


class ForeignTopic(Struct):
    """A topic of the source. `partitions`: the smallest possible count; `certain`: its id is not a
    guess from commits; `used`: a group uses it; `ends`: the highest committed offset by
    partition."""

    name: str
    topic_id: TopicId = NO_TOPIC_ID
    partitions: int = 0
    certain: bool = False
    used: bool = False
    ends: dict[int, int] = field(default_factory=dict)
    _commit_ms: int = -1

    def see_commit(self, partition: int, value: OffsetCommitValue, timestamp_ms: int) -> None:
        self.partitions = max(self.partitions, partition + 1)
        self.ends[partition] = max(self.ends.get(partition, 0), value.offset)
        if value.topic_id != NO_TOPIC_ID and not self.certain and timestamp_ms >= self._commit_ms:
            self.topic_id, self._commit_ms = value.topic_id, timestamp_ms


def write_topics(directory: Path, topics: Iterable[tuple[str, TopicId, int]]) -> None:
    """Write `TOPICS_FILE`. `topics`: name, id and number of partitions of each."""
    known = {
        name: {"id": None if topic_id == NO_TOPIC_ID else id_text(topic_id), "partitions": count}
        for name, topic_id, count in topics
    }
    (directory / TOPICS_FILE).write_bytes(indented(encode(known), indent=1) + b"\n")


def described_topics(path: Path) -> dict[str, ForeignTopic]:
    """The topics that are described beside the logs: in the `topics.json` of a consumed copy, and
    in the `partition.metadata` of other topics' directories in a broker's log directory. Raises
    LogToolError."""
    if not path.is_dir():
        return {}
    topics: dict[str, ForeignTopic] = {}
    listed = path / TOPICS_FILE
    try:
        if listed.is_file():
            for name, known in decode(listed.read_bytes()).items():
                topic_id = NO_TOPIC_ID if known["id"] is None else id_bytes(known["id"])
                topics[name] = ForeignTopic(name, topic_id, known["partitions"], True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LogToolError(f"{listed}: {error}") from error
    for directory in path.iterdir():
        named = partition_of(directory)
        metadata = directory / "partition.metadata"
        if named is None or not metadata.is_file():
            continue
        topic = topics.setdefault(named[0], ForeignTopic(named[0]))
        topic.partitions = max(topic.partitions, named[1] + 1)
        for line in metadata.read_text().splitlines():
            label, _, text = line.partition(":")
            if label == "topic_id":
                topic.topic_id, topic.certain = id_bytes(text.strip()), True
    return topics


def gather_topics(topics: dict[str, ForeignTopic], kept: Iterable[Kept]) -> None:
    """Add to `topics` what the records say: topics in commits and subscriptions, and topic ids in
    assignments."""
    assigned: dict[TopicId, int] = {}
    for one in kept:
        record = one.record
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
            topic = topics.setdefault(key.topic, ForeignTopic(key.topic))
            topic.used = True
            topic.see_commit(key.partition, value, one.timestamp_ms)
        for name in getattr(value, "subscribed_topic_names", ()):
            topics.setdefault(name, ForeignTopic(name)).used = True
        if isinstance(value, ShareGroupStatePartitionsValue):
            for known in (*value.initializing, *value.initialized):
                topic = topics.setdefault(known.topic_name, ForeignTopic(known.topic_name))
                topic.used = True
                if topic.topic_id == NO_TOPIC_ID:
                    topic.topic_id = known.topic_id
        for part in _with_topic_id(value):
            last = max(part.partitions, default=-1)
            assigned[part.topic_id] = max(assigned.get(part.topic_id, 0), last + 1)
    for topic in topics.values():
        topic.partitions = max(topic.partitions, assigned.get(topic.topic_id, 0))


def _with_topic_id(value: Any) -> Iterator[Any]:
    """The parts of a record's value, of any type, that have a topic id and partitions."""
    if isinstance(value, tuple) and value and isinstance(value[0], Struct):
        for item in value:
            yield from _with_topic_id(item)
    elif isinstance(value, Struct):
        if "topic_id" in value.__struct_fields__:
            yield value
        for name in value.__struct_fields__:
            yield from _with_topic_id(getattr(value, name))


class Translation:
    """Translates topic ids. `here`: the ids of the target's topics by name, including new
    topics."""

    def __init__(self, topics: Mapping[str, ForeignTopic], here: Mapping[str, TopicId]) -> None:
        self._topics = topics
        self._here = here
        self._by_id = {
            topic.topic_id: here[topic.name]
            for topic in topics.values()
            if topic.topic_id != NO_TOPIC_ID and topic.name in here
        }

    def topic_id(self, foreign: TopicId) -> TopicId:
        """The id in the target; `foreign` itself if the target has no such topic."""
        return self._by_id.get(foreign, foreign)

    def apply(self, one: Kept) -> Kept:
        """The record with the ids of the target. Returns the same object if nothing changes."""
        record = one.record
        value: Any = record.value
        changed = self._value(record, value)
        if changed == value:
            return one
        encoded = encode_value(Record(record.key, changed))
        assert encoded is not None
        return one._replace(value=encoded)

    def _value(self, record: Record, value: Any) -> Any:
        if isinstance(value, OffsetCommitValue) and isinstance(record.key, OffsetCommitKey):
            return value._replace(topic_id=self._offset_id(record.key.topic, value.topic_id))
        return self._translated(value)

    def _translated(self, value: Any) -> Any:
        """The value, of any type, with translated ids wherever it has a `topic_id`."""
        if isinstance(value, tuple) and value and isinstance(value[0], Struct):
            items = [self._translated(item) for item in value]
            if "topic_id" in items[0].__struct_fields__:
                items.sort(key=attrgetter("topic_id"))
            return tuple(items)
        if not isinstance(value, Struct):
            return value
        fields = {name: self._translated(getattr(value, name)) for name in value.__struct_fields__}
        if "topic_id" in fields:
            fields["topic_id"] = self.topic_id(fields["topic_id"])
        if isinstance(value, ShareGroupStatePartitionsValue):
            fields["deleting"] = tuple(
                (self.topic_id(topic_id), name) for topic_id, name in value.deleting
            )
        return replace(value, **fields)

    def _offset_id(self, name: str, topic_id: TopicId) -> TopicId:
        foreign = self._topics.get(name)
        if topic_id == NO_TOPIC_ID or foreign is None or topic_id != foreign.topic_id:
            return topic_id
        return self._here.get(name, NO_TOPIC_ID)
