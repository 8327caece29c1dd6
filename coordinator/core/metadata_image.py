"""Topic metadata as an input of the core: an immutable image and what changed since the last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from msgspec import Struct, field

from groupd.protocol.messages import TopicId


class TopicImage(Struct, frozen=True):
    """`racks`: per partition the sorted racks of its replicas; () when nothing is known."""

    topic_id: TopicId
    name: str
    partitions: int
    internal: bool = False
    racks: tuple[tuple[str, ...], ...] = ()


class MetadataImage:
    """Topics by name and id at one `version`; `created_version` is the newest version that
    added a topic (it decides when regular expressions are resolved again)."""

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


class MetadataDelta(Struct, frozen=True):
    """What differs between two images. `deleted`: (name, id) of topics gone (a re-created topic
    is in `deleted` with its old id and in `created`). `changed`: names whose partitions or racks
    changed."""

    image: MetadataImage
    created: frozenset[str] = field(default_factory=frozenset)
    changed: frozenset[str] = field(default_factory=frozenset)
    deleted: tuple[tuple[str, TopicId], ...] = ()
