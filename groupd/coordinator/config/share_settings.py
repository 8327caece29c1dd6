"""The settings of share groups (KIP-932): members, records, and their durable state."""

from __future__ import annotations

from dataclasses import dataclass

from groupd.coordinator.config.settings import setting

RECORD_LOCKS_MAX = 10_000
"""The highest limit on the records of a share-partition in flight."""


@dataclass(frozen=True, init=False, repr=False, eq=False)  # `CoordinatorConfig` makes them
class ShareSettings:
    """What the group coordinator, the share coordinator and the leaders of partitions read."""

    # Share groups
    share_session_timeout_ms: int = setting("group.share.session.timeout.ms", 45000, low=1)
    share_min_session_timeout_ms: int = setting("group.share.min.session.timeout.ms", 45000, low=1)
    share_max_session_timeout_ms: int = setting("group.share.max.session.timeout.ms", 60000, low=1)
    share_heartbeat_interval_ms: int = setting("group.share.heartbeat.interval.ms", 5000, low=1)
    share_min_heartbeat_interval_ms: int = setting(
        "group.share.min.heartbeat.interval.ms", 5000, low=1
    )
    share_max_heartbeat_interval_ms: int = setting(
        "group.share.max.heartbeat.interval.ms", 15000, low=1
    )
    share_assignment_interval_ms: int = setting("group.share.assignment.interval.ms", 1000, low=0)
    share_min_assignment_interval_ms: int = setting(
        "group.share.min.assignment.interval.ms", 0, low=0
    )
    share_max_assignment_interval_ms: int = setting(
        "group.share.max.assignment.interval.ms", 15000, low=0
    )
    share_max_size: int = setting("group.share.max.size", 200, low=1, high=1000)
    share_assignors: tuple[str, ...] = setting("group.share.assignors", ("simple",))
    share_initialize_retry_interval_ms: int = setting(
        "group.share.initialize.retry.interval.ms", 30000, low=1, internal=True
    )
    share_version: int = setting("groupd.share.version", 2, low=0, high=2)
    # Records of share groups
    share_record_lock_duration_ms: int = setting(
        "group.share.record.lock.duration.ms", 30000, low=1000, high=3600000
    )
    share_min_record_lock_duration_ms: int = setting(
        "group.share.min.record.lock.duration.ms", 15000, low=1000, high=30000
    )
    share_max_record_lock_duration_ms: int = setting(
        "group.share.max.record.lock.duration.ms", 60000, low=30000, high=3600000
    )
    share_delivery_count_limit: int = setting("group.share.delivery.count.limit", 5, low=2, high=10)
    share_min_delivery_count_limit: int = setting(
        "group.share.min.delivery.count.limit", 2, low=2, high=5
    )
    share_max_delivery_count_limit: int = setting(
        "group.share.max.delivery.count.limit", 10, low=5, high=25
    )
    share_partition_max_record_locks: int = setting(
        "group.share.partition.max.record.locks", 2000, low=100, high=RECORD_LOCKS_MAX
    )
    share_min_partition_max_record_locks: int = setting(
        "group.share.min.partition.max.record.locks", 100, low=100, high=2000
    )
    share_max_partition_max_record_locks: int = setting(
        "group.share.max.partition.max.record.locks", 4000, low=2000, high=RECORD_LOCKS_MAX
    )
    share_max_share_sessions: int = setting("group.share.max.share.sessions", 2000, low=1)
    dead_letter_auto_create_topics_enable: bool = setting(
        "errors.deadletterqueue.auto.create.topics.enable", False
    )
    dead_letter_topic_name_prefix: str = setting("errors.deadletterqueue.topic.name.prefix", "dlq.")
    # The state of share-partitions
    share_state_num_partitions: int = setting(
        "share.coordinator.state.topic.num.partitions", 50, low=1, high=10000
    )
    share_snapshot_updates: int = setting(
        "share.coordinator.snapshot.update.records.per.snapshot", 500, low=0, high=500
    )
    share_cold_snapshot_interval_ms: int = setting(
        "share.coordinator.cold.partition.snapshot.interval.ms", 300000, low=1, internal=True
    )
    share_state_prune_interval_ms: int = setting(
        "share.coordinator.state.topic.prune.interval.ms", 300000, low=1, internal=True
    )
    share_write_timeout_ms: int = setting("share.coordinator.write.timeout.ms", 5000, low=1)
    max_share_partitions: int = setting("groupd.max.share.partitions", 200000, low=1)
