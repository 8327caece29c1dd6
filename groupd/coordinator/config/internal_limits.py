"""Limits and times that no operator has a reason to change."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, init=False, repr=False, eq=False)  # `CoordinatorConfig` makes them
class InternalLimits:
    """Fields of the configuration that are not settings: no file and no flag changes them. A test
    changes one by a constructor argument. Times are milliseconds."""

    consumer_target_linger_ms: int = 5
    """How long a member that needs a new target assignment waits for others that come at the same
    time. A group's first target waits four times as long, and any target at least ten times as long
    once a second change has come. 0: no wait, for tests in which requests come one by one (ADR
    21)."""
    consumer_large_group_size: int = 6000
    """A consumer group or share group of at least this size has its target computed in slices. The
    size is its partitions plus 30 for each member (ADR 20)."""
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
