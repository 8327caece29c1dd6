"""The only source of entropy."""

from __future__ import annotations

import uuid

from groupd.protocol.messages import TopicId


def new_id() -> str:
    """A random UUID as 36 characters."""
    return str(uuid.uuid4())


def new_topic_id() -> TopicId:
    """A random topic id. Kafka's own ids never start with "-" in base64url, which breaks
    command lines, so neither do these."""
    while True:
        raw = uuid.uuid4().bytes
        if raw[0] >> 2 != 62:
            return raw
