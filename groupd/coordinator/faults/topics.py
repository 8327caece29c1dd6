"""The topics that a request is about, for faults that are for a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from groupd.coordinator.share_partitions.share_requests import ShareRequests
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.data import FetchRequest
from groupd.protocol.messages.share_fetch import ShareFetchRequest

TopicsOf = Callable[[Any], Iterable[str]]
"""Returns the names of the topics that a request is about."""


def topics_of(request: Any, plane: DataPlane, shares: ShareRequests) -> Iterator[str]:
    """The names of the topics that the request names. Within a session a Fetch or a ShareFetch
    names only what changes: then these are the topics that the session reads, too."""
    for holder in (request, *getattr(request, "groups", ())):
        for topic in getattr(holder, "topics", None) or ():
            yield from _names(topic, plane)
    session: Any = None
    if isinstance(request, ShareFetchRequest):
        session = shares.sessions.get((request.group_id, request.member_id))
    elif isinstance(request, FetchRequest):
        session = plane.fetch_sessions.get(request.session_id)
    if session is not None:
        for topic in dict.fromkeys(topic for topic, _ in session.targets):
            yield from _names(topic, plane)


def _names(topic: Any, plane: DataPlane) -> Iterator[str]:
    """`topic`: a name, an id, a pair of both, or an object that has at least one of them."""
    if isinstance(topic, tuple):
        name, topic_id = (*topic, None)[:2]
    elif isinstance(topic, str | bytes):
        name = topic_id = topic
    else:
        name, topic_id = getattr(topic, "name", None), getattr(topic, "topic_id", None)
    if isinstance(name, str) and name:
        yield name
    elif isinstance(topic_id, bytes) and (known := plane.catalogue.topic_by_id(TopicId(topic_id))):
        yield known.name
