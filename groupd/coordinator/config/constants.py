"""Limits and times that no operator has a reason to change, and keys that are no settings here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WITHOUT_EFFECT: Mapping[str, str] = {
    "offsets.topic.replication.factor": "",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
}
"""Keys that files for Kafka have, that are accepted, and that change nothing -> the one value that
may be given; empty: any."""

_FIXED = """
    group.consumer.assignor.offload.min.size groupd.consumer.target.linger.ms
    groupd.group.max.pending.members groupd.steady.replies.enable telemetry.max.bytes
    groupd.lag.partitions.max groupd.request.max.items groupd.connection.max.inflight
    groupd.connection.write.buffer.max.bytes groupd.connection.write.stall.timeout.ms
    groupd.otel.traces.per.second groupd.max.partitions.per.topic groupd.max.group.configs
    max.request.partition.size.limit groupd.fetch.max.wait.ms groupd.max.transaction.partitions
    producer.id.expiration.check.interval.ms sasl.server.max.receive.size
    transaction.remove.expired.transaction.cleanup.interval.ms groupd.tls.handshakes.max
    groupd.tls.handshake.timeout.ms groupd.tls.reload.interval.ms groupd.authentication.timeout.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.scope.claim.name
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms quota.window.num quota.window.size.seconds
    controller.quota.window.num controller.quota.window.size.seconds groupd.quotas.max
    groupd.scram.users.max groupd.acls.max
"""
REMOVED: Mapping[str, str] = {
    **dict.fromkeys(_FIXED.split(), "its value is fixed now"),
    "group.consumer.assignor.offload.enable": "it is always true",
    "groupd.auto.create.topics.at.once": "it is always true",
    "groupd.cluster.renew.ms": "it is a quarter of groupd.cluster.lease.ms",
    "groupd.consumer.assignor.order": "it is always soonest",
    "groupd.otel.service.name": "set OTEL_SERVICE_NAME in the environment",
    "groupd.telemetry.enable": "clients are told as soon as there is a subscription",
}
"""Keys that used to be settings -> why they are none any more."""


@dataclass(frozen=True)
class Constants:
    """They are fields of the configuration, but no settings: no file and no flag changes them. A
    test makes one smaller by a constructor argument. Times are milliseconds."""

    consumer_target_linger_ms: int = 5
    """How long a member that needs a new target assignment waits for others that come at the same
    time; four times as long for a group's first, ten times once a second member has come. 0: not at
    all, for tests in which requests come one by one (ADR 21)."""
    consumer_large_group_size: int = 6000
    """From where on a group's target is computed in slices: its partitions, and 30 for each member
    (ADR 20)."""
    group_max_pending_members: int = 1000
    """Most member ids of a classic group that were given out and are not used yet; the oldest one
    is forgotten for the next."""

    max_group_configs: int = 10_000
    """Most groups with configs of their own; they need not exist."""
    max_partitions_per_topic: int = 10_000
    max_transaction_partitions: int = 5000
    """Most partitions in one transaction. When a producer has more offsets pending in one partition
    of __consumer_offsets, it cannot add any."""
    transaction_expiration_interval_ms: int = 3_600_000
    """How often transactional ids that nobody has used for long are forgotten."""
    producer_id_expiration_check_interval_ms: int = 600_000
    """How often idle producers are forgotten."""
    max_request_partition_size_limit: int = 2000
    """Most partitions in one answer to DescribeTopicPartitions, as is Kafka's default."""
    acls_max: int = 50_000
    scram_users_max: int = 50_000
    quotas_max: int = 50_000
    """Most entities with quotas."""

    fetch_max_wait_ms: int = 2**31 - 1
    """Longest time that a Fetch waits for records, whatever the client asks for: as long as it
    likes. Short in the profile `test`, where requests behind it on the same connection should not
    have to wait."""
    request_max_items: int = 250_000
    """Most items (partitions, groups, members ...) in the arrays of one request."""
    queued_max_requests: int = 1000
    """Requests of one connection under way before it is not read further."""
    write_buffer_max_bytes: int = 65_536
    """Unsent reply bytes of one connection before it is not read further."""
    write_stall_timeout_ms: int = 60_000
    """A client that does not read its replies for so long is dropped."""
    tls_handshakes_max: int = 500
    """Most TLS handshakes under way at once. Further clients wait; while they do, the oldest
    handshake of the address with most makes room for those of other addresses at once, and for
    those of its own when it has lasted a fortieth of its time."""
    tls_handshake_timeout_ms: int = 10_000
    """Time from the connection to the end of the TLS handshake."""
    tls_reload_interval_ms: int = 10_000
    """How often the files of certificates are looked at."""
    authentication_timeout_ms: int = 30_000
    """A client that has not said who it is for so long is closed."""
    sasl_server_max_receive_size: int = 524_288
    """Largest frame before a client has said who it is, as is Kafka's default."""
