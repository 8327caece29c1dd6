"""The settings of one share group that leaders of share-partitions read
(docs/spec/share-group.md#2.6)."""

from __future__ import annotations

from msgspec import Struct


class ShareGroupSettings(Struct, frozen=True):
    """`delivery_count_limit`: how often a record is delivered before it is archived.
    `max_record_locks`: the most records of a share-partition in flight. `reset`: "earliest",
    "latest", or "by_duration:" and an ISO 8601 duration, whose milliseconds are `reset_ms`.
    `isolation_level`: as in Fetch. `may_renew`: whether members may renew their locks.
    `dead_letter_topic`: "" if the group has no dead-letter queue."""

    lock_duration_ms: int
    delivery_count_limit: int
    max_record_locks: int
    reset: str
    reset_ms: int
    isolation_level: int
    may_renew: bool
    dead_letter_topic: str
    copies_dead_letters: bool


def settings_of(config: CoordinatorConfig, overrides: Overrides) -> ShareGroupSettings:
    """The settings of a group with these overrides."""
