"""A persister that tries again while the share coordinator cannot be asked
(docs/spec/share-group.md#3)."""

from __future__ import annotations

from groupd.coordinator.persister import (
    Persister,
    ShareStateRequest,
    asked_partitions,
    entries_of,
    reply_of,
    with_partitions,
)
from groupd.coordinator.runtime.clock import Clock, pause
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.share_state import ShareStateReply

ATTEMPTS = 5
FIRST_PAUSE_MS = 1_000
LAST_PAUSE_MS = 30_000
"""Kafka's numbers. Each pause is twice as long as the one before."""

NOT_NOW = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What a share coordinator answers that may serve the share-partition in a moment."""

NOT_THERE = NOT_NOW | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
"""The same for a coordinator on another node, which may not know a new topic yet."""


class PatientPersister:
    """A `Persister`. `once` makes one attempt; for partitions that are answered with one of `codes`
    another one is made."""

    def __init__(self, once: Persister, clock: Clock, codes: frozenset[ErrorCode]) -> None:
        self._once = once
        self._clock = clock
        self._codes = codes

    async def ask(self, request: ShareStateRequest) -> ShareStateReply:
        reply = await self._once.ask(request)
        entries = entries_of(reply)
        pause_ms = FIRST_PAUSE_MS
        for _ in range(ATTEMPTS - 1):
            again = [at for at, entry in enumerate(entries) if entry.error in self._codes]
            if not again:
                break
            await pause(self._clock, pause_ms)
            pause_ms = min(2 * pause_ms, LAST_PAUSE_MS)
            partitions = asked_partitions(request)
            part = with_partitions(request, [partitions[at] for at in again])
            answered = entries_of(await self._once.ask(part))
            for at, entry in zip(again, answered, strict=True):
                entries[at] = entry
            reply = reply_of(request, entries)
        return reply
