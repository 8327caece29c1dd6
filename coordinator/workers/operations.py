"""What is called over the channel. Bodies: `log_bytes` has those of logs, JSON all others."""

from __future__ import annotations

from enum import IntEnum


class Operation(IntEnum):
    """Each with its direction, its body and its answer."""

    # Worker -> main: the logs of its own shards, see `storage.log.PartitionLogs`
    OPEN = 1
    APPEND = 2
    READ = 3
    FIRST_AT_OR_AFTER = 4
    WITH_MAX_TIMESTAMP = 5
    TRUNCATE_BEFORE = 6
    REPLACE = 7
    DELETE = 8
    # Worker -> main: what only the main process can answer
    FORWARD = 16
    """A client's request as it came, with the client's host -> the reply's frame."""
    VERIFY = 17
    """Is a shard's log in the open transaction of a producer, `TransactionVerifier` -> codes."""
    # Main -> worker
    START = 32
    """`Start`: who the worker is, topics, group configs -> `Health`, once its shards are loaded."""
    METADATA = 33
    """What has changed in the topics -> once the shards know."""
    GROUP_CONFIGS = 34
    """The overrides of one group -> once the shard knows."""
    BROKER_CONFIGS = 40
    """The settings of the broker that clients can change -> once the shards know."""
    MARKER = 35
    """`Marker` and partitions -> a code each, once durable."""
    PING = 36
    """Nothing -> `Health`: how many shards are loading, which have failed."""
    METRICS = 37
    """Nothing -> all metric families."""
    ADMIN = 38
    """A GET of the admin port -> status, content type, body."""
    STOP = 39
    """Nothing -> once everything is answered and closed."""
