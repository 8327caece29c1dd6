"""Who leads the partitions for which a client has asked the wrong node (KIP-951).

Produce and Fetch replies name the leader of such a partition and give the addresses of these
leaders, so that clients go on there without asking for metadata. As in Kafka the leader is -1 while
there is none, and one that has died a moment ago has no address.
"""

from __future__ import annotations

from collections.abc import Collection

from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.topics.layout import Layout
from groupd.coordinator.topics.topic import Topic
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import Node


class CurrentLeaders:
    """The leaders that one reply names. `since`: the version of its API that has room for them.
    `errors`: with which errors they are told."""

    def __init__(
        self, layout: Layout, context: RequestContext, since: int, errors: Collection[ErrorCode]
    ) -> None:
        self._layout = layout
        self._listener = context.listener
        self._errors = errors if context.api_version >= since else ()
        self._named: set[int] = set()

    def of(self, topic: Topic | None, partition: int, error: ErrorCode) -> tuple[int, int] | None:
        """(leader, leader epoch) of a partition that failed; None if the reply does not say it.
        `topic` None: it was not found."""
        if topic is None or error not in self._errors:
            return None
        found = self._layout.current_leader(topic, partition)
        self._named.add(found[0])
        return found

    @property
    def endpoints(self) -> tuple[Node, ...]:
        """The nodes that were named, as clients of the request's listener reach them."""
        if not self._named:
            return ()
        nodes = self._layout.nodes_on(self._listener)
        return tuple([node for node in nodes if node.node_id in self._named])
