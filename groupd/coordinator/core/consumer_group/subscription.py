"""The subscriptions of members, and what the group derives from them
(docs/spec/consumer-group.md#3, #4, #6).

The effective subscription of a member is its names together with the topics of its resolved regular
expression; an unresolved expression adds nothing. All functions are pure. They see the state before
the operation, and the operation's own change as a `TopicsChange`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field

from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import ConsumerGroupMember
from groupd.coordinator.core.counts import move
from groupd.coordinator.core.epochs import refresh_soon
from groupd.coordinator.core.metadata_image import MetadataDelta, MetadataImage, topics_hash
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.core.types import Instant, Outcome
from groupd.protocol.messages import TopicId


class TopicsChange(Struct):
    """How an operation changes the number of subscriptions (names and expressions together) of each
    topic. Topics that it does not change are absent."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, topics: Iterable[str], by: int) -> None:
        for topic in topics:
            self.counts[topic] = self.counts.get(topic, 0) + by

    def names(self, before: ConsumerGroupMember, after: ConsumerGroupMember) -> None:
        """Count a member's change from the names of `before` to those of `after`."""
        if before.subscribed_topic_names != after.subscribed_topic_names:
            self.add(before.subscribed_topic_names, -1)
            self.add(after.subscribed_topic_names, 1)

    def appeared_and_gone(self, group: ConsumerGroup) -> tuple[set[str], set[str]]:
        """The topics that get their first subscription, and those that lose their last."""
        appeared: set[str] = set()
        gone: set[str] = set()
        for topic, by in self.counts.items():
            before = group.name_subscribers.get(topic, 0) + group.regexes.topics.get(topic, 0)
            if before == 0 < by:
                appeared.add(topic)
            elif before > 0 >= before + by:
                gone.add(topic)
        return appeared, gone


def metadata_hash(group: ConsumerGroup, image: MetadataImage, change: TopicsChange) -> int:
    """`topics_hash` of the topics that are subscribed after `change`. If these do not change, the
    hash is cached, because in a large group most joins change no topic."""
    appeared, gone = change.appeared_and_gone(group)
    if appeared or gone:
        return topics_hash(image, (group.subscribed_topics() | appeared) - gone)
    cached = group.hash_cache
    if cached is not None and cached[0] is image and cached[1] == group.topics_version:
        return cached[2]
    computed = topics_hash(image, group.subscribed_topics())
    group.hash_cache = (image, group.topics_version, computed)
    return computed


def preferred_assignor(votes: Mapping[str, int], default: str) -> str:
    """The assignor that most members prefer, or `default` if no member prefers any. If votes are
    equal, the smallest name wins."""
    if not votes:
        return default
    return min(votes, key=lambda name: (-votes[name], name))


def preferred_assignor_after(
    group: ConsumerGroup, before: ConsumerGroupMember, after: ConsumerGroupMember, default: str
) -> str:
    """The assignor that the group prefers once a member's vote has changed."""
    if before.server_assignor == after.server_assignor:
        return preferred_assignor(group.assignor_votes, default)
    votes = dict(group.assignor_votes)
    move(votes, before.server_assignor, after.server_assignor)
    return preferred_assignor(votes, default)


class EffectiveSubscription:
    """The ids of the existing topics that a member subscribes to. It looks up only the ids that it
    is asked for, because a member with thousands of names owns partitions of a few topics."""

    __slots__ = ("_image", "_matched", "_names")

    def __init__(
        self, group: ConsumerGroup, member: ConsumerGroupMember, image: MetadataImage
    ) -> None:
        self._names = frozenset(member.subscribed_topic_names)
        self._matched = frozenset(group.regexes.topics_of(member.subscribed_topic_regex))
        self._image = image

    def __contains__(self, topic_id: object) -> bool:
        topic = self._image.by_id.get(topic_id) if isinstance(topic_id, bytes) else None
        return topic is not None and (topic.name in self._names or topic.name in self._matched)

    def is_empty(self) -> bool:
        """Whether the member has no names and no matches, existing topics or not."""
        return not self._names and not self._matched

    def topic_ids(self) -> frozenset[TopicId]:
        by_name = self._image.by_name
        names = self._names | self._matched
        return frozenset(by_name[name].topic_id for name in names if name in by_name)


def on_metadata(state: ShardState, delta: MetadataDelta, now: Instant) -> Outcome:
    """Let the next heartbeat refresh every group that subscribes to a topic which the delta
    touches. Soft state."""
    touched = delta.touched()
    if not touched:
        return Outcome()
    for group in state.groups.values():
        if isinstance(group, ConsumerGroup) and any(map(group.is_subscribed_to, touched)):
            refresh_soon(group)
    return Outcome()
