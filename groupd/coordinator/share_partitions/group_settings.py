"""The settings of one share group that leaders of share-partitions read
(docs/spec/share-group.md#2.6)."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.protocol.messages.data import READ_COMMITTED


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

    @property
    def has_dead_letters(self) -> bool:
        return bool(self.dead_letter_topic)


def settings_of(config: CoordinatorConfig, overrides: Mapping[str, str]) -> ShareGroupSettings:
    """The settings of a group with these overrides."""
    return ShareGroupSettings(
        int(overrides.get("share.record.lock.duration.ms", config.share_record_lock_duration_ms)),
        int(overrides.get("share.delivery.count.limit", config.share_delivery_count_limit)),
        int(
            overrides.get(
                "share.partition.max.record.locks", config.share_partition_max_record_locks
            )
        ),
        overrides.get("share.auto.offset.reset", "latest"),
        0,
        READ_COMMITTED if overrides.get("share.isolation.level") == "read_committed" else 0,
        overrides.get("share.renew.acknowledge.enable", "true") == "true",
        overrides.get("errors.deadletterqueue.topic.name", ""),
        overrides.get("errors.deadletterqueue.copy.record.enable", "false") == "true",
    )
