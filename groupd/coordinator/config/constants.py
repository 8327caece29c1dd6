"""Limits and times that no operator has a reason to change, and keys that are not settings here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

WITHOUT_EFFECT: Mapping[str, str] = {
    "offsets.topic.replication.factor": "",
    "ssl.keystore.type": "PEM",
    "ssl.truststore.type": "PEM",
}
"""Keys of Kafka's files that are accepted but have no effect -> the only value that may be given;
empty: any value."""

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
"""Keys that used to be settings -> why they no longer are."""


@dataclass(frozen=True)
class Constants:
    """Fields of the configuration that are not settings: no file and no flag changes them. A test
    changes one by a constructor argument. Times are milliseconds."""

    consumer_target_linger_ms: int = 5
    """How long a member that needs a new target assignment waits for others that come at the same
    time. A group's first target waits four times as long, and any target at least ten times as long
    once a second change has come. 0: no wait, for tests in which requests come one by one (ADR
    21)."""
    consumer_large_group_size: int = 6000
    """A group of at least this size has its target computed in slices. The size is its partitions
    plus 30 for each member (ADR 20)."""
    group_max_pending_members: int = 1000
    """The most member ids of a classic group that were given out and are not used yet. Beyond that
    the oldest one is forgotten."""

    max_group_configs: int = 10_000
    """The most groups with configs of their own. The groups need not exist."""
    max_partitions_per_topic: int = 10_000
    max_transaction_partitions: int = 5000
    """The most partitions in one transaction. A producer with more pending offsets than this in one
    partition of __consumer_offsets cannot add any."""
    transaction_expiration_interval_ms: int = 3_600_000
    """How often transactional ids that have been unused for long are removed."""
    producer_id_expiration_check_interval_ms: int = 600_000
    """How often idle producers are forgotten."""
    max_request_partition_size_limit: int = 2000
    """The most partitions in one reply to DescribeTopicPartitions; Kafka's default."""
    acls_max: int = 50_000
    scram_users_max: int = 50_000
    quotas_max: int = 50_000
    """The most entities with quotas."""

    fetch_max_wait_ms: int = 2**31 - 1
    """The longest time that a Fetch waits for records; by default as long as the client asks for.
    Short in the profile `test`, so that requests behind it on the same connection need not wait."""
    request_max_items: int = 250_000
    """The most items (partitions, groups, members ...) in the arrays of one request."""
    queued_max_requests: int = 1000
    """The number of requests under way at which a connection is not read any further."""
    write_buffer_max_bytes: int = 65_536
    """The number of unsent reply bytes at which a connection is not read any further."""
    write_stall_timeout_ms: int = 60_000
    """A client that has not read its replies for so long is disconnected."""
    tls_handshakes_max: int = 500
    """The most TLS handshakes under way at once. While further clients wait, the oldest handshake
    of the network with most is ended: at once for a client of a network with fewer, and for newer
    clients of its own network once it has lasted a fortieth of its time."""
    tls_handshake_timeout_ms: int = 10_000
    """The time from the connection to the end of the TLS handshake."""
    tls_reload_interval_ms: int = 10_000
    """How often the files of certificates are checked for changes."""
    authentication_timeout_ms: int = 30_000
    """A client that has not authenticated for so long is disconnected."""
    sasl_server_max_receive_size: int = 524_288
    """The largest frame before a client has authenticated; Kafka's default."""
