"""Changes of offsets in words, for people."""

from __future__ import annotations

from groupd.coordinator.history.changes import Actor, OffsetChange


def who_moved(change: OffsetChange) -> str:
    """Who moved an offset, as far as the log tells, and why."""
    author = change.author
    words = [author.actor.value]
    if author.actor is Actor.OWNER:
        words.append(author.member_id)
        if author.client_id:
            words.append(f"client={author.client_id}{author.client_host}")
    if author.epoch >= 0:
        words.append(f"epoch={author.epoch}")
    if author.producer_id >= 0:
        words.append(f"transaction of producer {author.producer_id}")
    if change.cause:
        words.append(f"({change.cause})")
    return " ".join(words)
