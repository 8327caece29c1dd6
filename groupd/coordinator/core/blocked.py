"""What the inspections of all group types share: entries of `blocked`, and topics by name, which
events show, too."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from groupd.coordinator.core.deadlines import DeadlineKey, Deadlines
from groupd.coordinator.core.metadata_image import MetadataImage
from groupd.coordinator.core.slices import Pace, Steps
from groupd.coordinator.core.types import Instant
from groupd.protocol.messages import TopicId

Wait = dict[str, Any]
"""One entry of `blocked`: what a group waits for, in words and numbers."""


def wait(why: str, member_id: str = "", in_ms: int | None = None, **place: Any) -> Wait:
    """Makes an entry of `blocked`. `member_id`: the member that waits or is waited for; "" = the
    group as a whole. `in_ms`: in how many ms the coordinator stops waiting in any case; None =
    never."""
    return {"member_id": member_id, **place, "why": why, "in_ms": in_ms}


def due_in(deadlines: Deadlines, key: DeadlineKey, now: Instant) -> int | None:
    """Milliseconds until a deadline; None if it is not set."""
    at_ms = deadlines.due(key)
    return None if at_ms is None else max(0, at_ms - now.monotonic_ms)


def topic_name(topic: str | TopicId, image: MetadataImage) -> str:
    """The name of a topic id; the id in hex if the topic does not exist any more. A name is
    returned as it is."""
    if isinstance(topic, str):
        return topic
    known = image.by_id.get(topic)
    return topic.hex() if known is None else known.name


def named(
    partitions: Mapping[TopicId, Collection[int]], image: MetadataImage
) -> Steps[dict[str, list[int]]]:
    """Partitions by topic name, both ascending. A generator that stops where other work may run."""
    by_name = {}
    pace = Pace()
    for topic_id, numbers in partitions.items():
        by_name[topic_name(topic_id, image)] = sorted(numbers)
        if pace.due(1 + len(numbers)):
            yield
    return dict(sorted(by_name.items()))
