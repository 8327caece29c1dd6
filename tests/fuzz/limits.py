"""The settings of a groupd that is fuzzed."""

LIMITS = {
    "groupd.max.groups": "300",
    "groupd.max.topics": "60",
    "groupd.max.partitions": "400",
    "groupd.max.partitions.per.topic": "100",
    "groupd.max.group.configs": "300",
    "groupd.max.transactional.ids": "300",
    "groupd.fetch.max.wait.ms": "200",
    "group.max.size": "200",
    "producer.id.expiration.ms": "60000",
    "producer.id.expiration.check.interval.ms": "10000",
    "groupd.history.retention.ms": "0",
    "log.retention.ms": "60000",
    "log.retention.check.interval.ms": "5000",
    "offset.metadata.max.bytes": "256",
    "groupd.acls.max": "300",
    "groupd.scram.users.max": "100",
    "groupd.quotas.max": "100",
}
"""So low that a campaign reaches them: then memory stays flat if the limits hold."""
