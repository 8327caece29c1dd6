"""The controller: DescribeQuorum (55), UpdateFeatures (57)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import Node


class DescribeQuorumRequest(Struct, frozen=True):
    """`topics`: (name, partitions)."""

    topics: tuple[tuple[str, tuple[int, ...]], ...]


class QuorumReplica(Struct, frozen=True):
    """`directory_id`: 16 bytes. Times in milliseconds since the epoch, -1 = not known."""

    replica_id: int
    directory_id: bytes
    log_end_offset: int
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1


class QuorumPartition(Struct, frozen=True):
    partition: int
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    voters: tuple[QuorumReplica, ...] = ()


class DescribeQuorumReply(Struct, frozen=True):
    """`topics`: (name, partitions). `nodes`: the controllers."""

    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topics: tuple[tuple[str, tuple[QuorumPartition, ...]], ...] = ()
    nodes: tuple[Node, ...] = ()


class FeatureUpdate(Struct, frozen=True):
    """`upgrade_type`: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade."""

    feature: str
    level: int
    upgrade_type: int = 1


class UpdateFeaturesRequest(Struct, frozen=True):
    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False
    timeout_ms: int = 60000


class UpdateFeaturesReply(Struct, frozen=True):
    """`features`: the updated features; only versions below 2 name them."""

    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    features: Sequence[str] = ()
