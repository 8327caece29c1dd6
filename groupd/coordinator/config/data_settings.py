"""The settings of topics and their records, which the data plane reads."""

from __future__ import annotations

from dataclasses import dataclass

from groupd.coordinator.config.settings import setting

_INT_MAX = 2**31 - 1


@dataclass(frozen=True)
class DataSettings:
    """Defaults of topics, what becomes of their records, limits of Produce and Fetch."""

    # Retention and compaction of topics
    log_cleanup_policy: tuple[str, ...] = setting(
        "log.cleanup.policy",
        ("delete",),
        "What becomes of old records of a topic: delete, compact, or both. Default of the topic "
        "config cleanup.policy.",
    )
    log_retention_hours: int = setting(
        "log.retention.hours",
        168,
        "How long records of a topic are kept, in hours; -1 = for ever. Default of retention.ms "
        "where the next two are not set.",
        low=-1,
        high=_INT_MAX,
    )
    log_retention_minutes: int | None = setting(
        "log.retention.minutes",
        None,
        "The same in minutes, before log.retention.hours.",
        low=-1,
        high=_INT_MAX,
    )
    log_retention_ms: int | None = setting(
        "log.retention.ms", None, "The same in milliseconds, before both.", low=-1
    )
    log_retention_bytes: int = setting(
        "log.retention.bytes",
        -1,
        "Bytes of record batches that a partition keeps; -1 = no limit. Default of "
        "retention.bytes.",
        low=-1,
    )
    log_retention_check_interval_ms: int = setting(
        "log.retention.check.interval.ms",
        300000,
        "How often old records of topics are looked for.",
        low=1,
    )
    log_roll_hours: int = setting(
        "log.roll.hours",
        168,
        "How long records are left alone by compaction, in hours. Default of segment.ms where the "
        "next one is not set.",
        low=1,
        high=_INT_MAX,
    )
    log_roll_ms: int | None = setting(
        "log.roll.ms", None, "The same in milliseconds, before log.roll.hours.", low=1
    )
    log_segment_bytes: int = setting(
        "log.segment.bytes",
        1073741824,
        "Most bytes at the end of a partition that are left alone by compaction. Default of "
        "segment.bytes.",
        low=1,
        high=_INT_MAX,
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        "log.cleaner.max.compaction.lag.ms",
        2**63 - 1,
        "Older records are compacted, whatever else is set. Default of max.compaction.lag.ms.",
        low=1,
    )
    # Topics
    auto_create_topics_enable: bool = setting(
        "auto.create.topics.enable", True, "Create a topic when a client asks for its metadata."
    )
    auto_create_topics_at_once: bool = setting(
        "groupd.auto.create.topics.at.once",
        True,
        "Whether the metadata that creates a topic already shows it. false: as from Kafka, the "
        "first answer is UNKNOWN_TOPIC_OR_PARTITION, and the next one has the topic.",
    )
    num_partitions: int = setting(
        "num.partitions", 1, "Partitions of an automatically created topic.", low=1, high=10000
    )
    default_replication_factor: int = setting(
        "default.replication.factor", 1, "Replication factor that new topics show.", low=1, high=3
    )
    min_insync_replicas: int = setting(
        "min.insync.replicas", 1, "Accepted and shown; there is one replica.", low=1
    )
    message_max_bytes: int = setting(
        "message.max.bytes", 1048588, "Largest record batch of a topic.", low=0
    )
    fetch_session_slots: int = setting(
        "max.incremental.fetch.session.cache.slots",
        1000,
        "Most fetch sessions, in which consumers name only what has changed (KIP-227); 0 = none.",
        low=0,
        high=100000,
    )
    produce_unpacked_max_bytes: int = setting(
        "groupd.produce.unpacked.max.bytes",
        33554432,
        "Most bytes that a compressed record batch may unpack to; it is unpacked to be checked. "
        "Stored batches that unpack to more are neither compacted nor searched by time.",
        low=1024,
    )
    max_partitions_per_topic: int = setting(
        "groupd.max.partitions.per.topic", 10000, "Most partitions of one topic.", low=1
    )
    max_topics: int = setting("groupd.max.topics", 10000, "Most topics.", low=1)
    max_partitions: int = setting(
        "groupd.max.partitions", 200000, "Most partitions of all topics together.", low=1
    )
    max_group_configs: int = setting(
        "groupd.max.group.configs",
        10000,
        "Most groups with configs of their own; they need not exist.",
        low=1,
    )
    max_request_partition_size_limit: int = setting(
        "max.request.partition.size.limit",
        2000,
        "Most partitions in one answer to DescribeTopicPartitions.",
        low=1,
    )
    fetch_max_bytes: int = setting(
        "fetch.max.bytes", 57671680, "Largest answer to one Fetch.", low=1024
    )
    fetch_max_wait_ms: int = setting(
        "groupd.fetch.max.wait.ms",
        2147483647,
        "Longest time that a Fetch waits for records, whatever the client asks for. Requests of "
        "the same connection are answered after it.",
        low=0,
        high=2147483647,
    )
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms",
        86400000,
        "A producer that has not written to a partition for so long is forgotten there.",
        low=1,
    )
    producer_id_expiration_check_interval_ms: int = setting(
        "producer.id.expiration.check.interval.ms",
        600000,
        "How often idle producers are forgotten.",
        low=1,
        internal=True,
    )
