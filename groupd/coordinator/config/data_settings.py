"""The settings that the data plane reads: topics, records and transactions."""

from __future__ import annotations

from dataclasses import dataclass

from groupd.coordinator.config.settings import setting

_INT_MAX = 2**31 - 1


@dataclass(frozen=True, init=False, repr=False, eq=False)  # `CoordinatorConfig` makes them
class DataSettings:
    """What the data plane reads: topics, records and transactions."""

    # Retention and compaction
    log_cleanup_policy: tuple[str, ...] = setting("log.cleanup.policy", ("delete",))
    log_retention_hours: int = setting("log.retention.hours", 168, low=-1, high=_INT_MAX)
    log_retention_minutes: int | None = setting(
        "log.retention.minutes", None, low=-1, high=_INT_MAX
    )
    log_retention_ms: int | None = setting("log.retention.ms", None, low=-1)
    log_retention_bytes: int = setting("log.retention.bytes", -1, low=-1)
    log_retention_check_interval_ms: int = setting("log.retention.check.interval.ms", 300000, low=1)
    log_roll_hours: int = setting("log.roll.hours", 168, low=1, high=_INT_MAX)
    log_roll_ms: int | None = setting("log.roll.ms", None, low=1)
    log_segment_bytes: int = setting("log.segment.bytes", 1073741824, low=1, high=_INT_MAX)
    log_cleaner_enable: bool = setting("log.cleaner.enable", True)
    log_cleaner_backoff_ms: int = setting("log.cleaner.backoff.ms", 15000, low=1)
    log_cleaner_min_compaction_lag_ms: int = setting("log.cleaner.min.compaction.lag.ms", 0, low=0)
    log_cleaner_delete_retention_ms: int = setting(
        "log.cleaner.delete.retention.ms", 86400000, low=0
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        "log.cleaner.max.compaction.lag.ms", 2**63 - 1, low=1
    )
    # Topics
    auto_create_topics_enable: bool = setting("auto.create.topics.enable", True)
    num_partitions: int = setting("num.partitions", 1, low=1, high=10000)
    default_replication_factor: int = setting("default.replication.factor", 1, low=1, high=3)
    min_insync_replicas: int = setting("min.insync.replicas", 1, low=1)
    message_max_bytes: int = setting("message.max.bytes", 1048588, low=0)
    fetch_session_slots: int = setting(
        "max.incremental.fetch.session.cache.slots", 1000, low=0, high=100000
    )
    produce_unpacked_max_bytes: int = setting(
        "groupd.produce.unpacked.max.bytes", 33554432, low=1024
    )
    max_topics: int = setting("groupd.max.topics", 10000, low=1)
    max_partitions: int = setting("groupd.max.partitions", 200000, low=1)
    fetch_max_bytes: int = setting("fetch.max.bytes", 57671680, low=1024)
    producer_id_expiration_ms: int = setting("producer.id.expiration.ms", 86400000, low=1)
    # Transactions
    transaction_state_log_num_partitions: int = setting(
        "transaction.state.log.num.partitions", 50, low=1, high=10000
    )
    transaction_max_timeout_ms: int = setting("transaction.max.timeout.ms", 900000, low=1)
    transactional_id_expiration_ms: int = setting(
        "transactional.id.expiration.ms", 604800000, low=1
    )
    transaction_abort_interval_ms: int = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms", 10000, low=1
    )
    transaction_version: int = setting("groupd.transaction.version", 2, low=1, high=2)
    max_transactional_ids: int = setting("groupd.max.transactional.ids", 100000, low=1)
    transaction_partition_verification_enable: bool = setting(
        "transaction.partition.verification.enable", True
    )
