"""Requests and replies independent of versions: plain frozen data without behaviour.

There is one request class for each API. `wire/api` maps the bytes of any version to it and back. A
field that a version lacks has the default of Kafka's message definition. Names say the units
(`_ms`). Topic ids are 16 raw bytes (`TopicId`), because bytes are hashed and compared in C.
"""

from __future__ import annotations

from functools import lru_cache

TopicId = bytes
"""A topic id: 16 raw bytes, the UUID in network order."""

TopicPartition = tuple[str, int]
TopicIdPartition = tuple[TopicId, int]

NO_TOPIC_ID: TopicId = bytes(16)
"""The zero UUID: no topic id is known or given."""


@lru_cache(maxsize=4096)
def shared_topic_id(topic_id: TopicId) -> TopicId:
    """Returns the same object for equal ids. This saves memory: many commits name few topics."""
    return topic_id
