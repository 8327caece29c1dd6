"""Server-side assignors that do each of the things that an assignor must not do."""

from __future__ import annotations

from collections.abc import Mapping

from groupd.coordinator.core.assignors.api import Assignment, GroupSpec, TopicDescriber


def _first_topic(spec: GroupSpec, topics: TopicDescriber) -> bytes:
    every = {topic_id for member in spec.members.values() for topic_id in member.topic_ids}
    return min(every, key=lambda topic_id: topics.name(topic_id) or "")


class Raises:
    name = "raises"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        raise KeyError("no luck today")


class Twice:
    """Everybody gets the same partition."""

    name = "twice"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        return {one: {_first_topic(spec, topics): (0,)} for one in spec.members}


class NonSubscriber:
    """The first topic by name goes to those who do not subscribe to it."""

    name = "non-subscriber"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        topic_id = _first_topic(spec, topics)
        return {
            one: {topic_id: (0,)}
            for one, member in spec.members.items()
            if topic_id not in member.topic_ids
        }


class Outside:
    """One more partition than the topic has."""

    name = "outside"

    def assign(self, spec: GroupSpec, topics: TopicDescriber) -> Mapping[str, Assignment]:
        topic_id = _first_topic(spec, topics)
        first = min(one for one, its in spec.members.items() if topic_id in its.topic_ids)
        return {first: {topic_id: (topics.num_partitions(topic_id),)}}
