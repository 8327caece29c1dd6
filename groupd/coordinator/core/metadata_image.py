"""Topic metadata as an input of the core: an immutable image, and what has changed since the last
one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from hashlib import blake2b
from struct import pack
from types import MappingProxyType

from msgspec import Struct, field

from groupd.protocol.messages import TopicId


class TopicImage(Struct, frozen=True):
    """`racks`: for each partition the sorted racks of its replicas; () if nothing is known."""

    topic_id: TopicId
    name: str
    partitions: int
    internal: bool = False
    racks: tuple[tuple[str, ...], ...] = ()


class MetadataImage:
    """Topics by name and id at one `version`. `created_version` is the newest version that added a
    topic; it decides when regular expressions are resolved again."""

    __slots__ = ("by_id", "by_name", "created_version", "version")

    def __init__(
        self,
        topics: Iterable[TopicImage] = (),
        version: int = 0,
        created_version: int | None = None,
    ) -> None:
        by_name = {topic.name: topic for topic in topics}
        self.by_name: Mapping[str, TopicImage] = MappingProxyType(by_name)
        self.by_id: Mapping[TopicId, TopicImage] = MappingProxyType(
            {topic.topic_id: topic for topic in by_name.values()}
        )
        self.version = version
        self.created_version = version if created_version is None else created_version


class TopicDeletion(Struct, frozen=True):
    """A topic that was deleted at `at_ms`, wall-clock time."""

    name: str
    topic_id: TopicId
    at_ms: int


class MetadataDelta(Struct, frozen=True):
    """What differs between two images. `deleted`: (name, id) of the topics that are gone (a
    re-created topic is in `deleted` with its old id, and in `created`). `changed`: names of topics
    whose partitions or racks have changed."""

    image: MetadataImage
    created: frozenset[str] = field(default_factory=frozenset)
    changed: frozenset[str] = field(default_factory=frozenset)
    deleted: tuple[tuple[str, TopicId], ...] = ()

    def touched(self) -> set[str]:
        """The names of all topics in which something has changed."""
        return {*self.created, *self.changed, *(name for name, _ in self.deleted)}

    def deleted_at(self, wall_ms: int) -> list[TopicDeletion]:
        """The deleted topics, with `wall_ms` as the time of their deletion."""
        return [TopicDeletion(name, topic_id, wall_ms) for name, topic_id in self.deleted]


def topics_hash(image: MetadataImage, names: Collection[str]) -> int:
    """Hash of the metadata of those topics that exist; 0 if none does. A signed 64-bit number over
    the topics in the order of their names: id, name, partition count, racks of each partition."""
    topics = [image.by_name[name] for name in sorted(names) if name in image.by_name]
    if not topics:
        return 0
    digest = blake2b(digest_size=8)
    for topic in topics:
        digest.update(_encode(topic))
    return int.from_bytes(digest.digest(), "big", signed=True)


def _encode(topic: TopicImage) -> bytes:
    """A topic as unambiguous bytes: every variable part is preceded by its length or count."""
    parts = [topic.topic_id, _text(topic.name), pack(">ii", topic.partitions, len(topic.racks))]
    for racks in topic.racks:
        parts.append(pack(">i", len(racks)))
        parts.extend(_text(rack) for rack in sorted(racks))
    return b"".join(parts)


def _text(text: str) -> bytes:
    raw = text.encode()
    return pack(">i", len(raw)) + raw
