"""The settings, and constants, of a groupd that is fuzzed."""

LIMITS = {
    "groupd.max.groups": "300",
    "groupd.max.topics": "60",
    "groupd.max.partitions": "400",
    "max_partitions_per_topic": "100",
    "max_group_configs": "300",
    "groupd.max.transactional.ids": "300",
    "fetch_max_wait_ms": "200",
    "group.max.size": "200",
    "producer.id.expiration.ms": "60000",
    "producer_id_expiration_check_interval_ms": "10000",
    "groupd.history.retention.ms": "0",
    "log.retention.ms": "60000",
    "log.retention.check.interval.ms": "5000",
    "offset.metadata.max.bytes": "256",
    "acls_max": "300",
    "scram_users_max": "100",
    "quotas_max": "100",
}
"""So low that a campaign reaches them: then memory stays flat if the limits hold."""
