"""The storage of replicas, and the leaders of partitions: DescribeLogDirs (35), AlterReplicaLogDirs
(34), ElectLeaders (43), AlterPartitionReassignments (45), ListPartitionReassignments (46)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.protocol.errors import ErrorCode

AskedPartitions = tuple[tuple[str, tuple[int, ...]], ...]
"""(topic, partitions)."""


class DescribeLogDirsRequest(Struct, frozen=True):
    """`topics` None = all."""

    topics: AskedPartitions | None


class LogDir(Struct, frozen=True):
    """`topics`: (name, ((partition, size in bytes), ...)). The sizes of the volume are in bytes, -1
    = not known."""

    path: str
    topics: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()
    error: ErrorCode = ErrorCode.NONE
    total_bytes: int = -1
    usable_bytes: int = -1


class DescribeLogDirsReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    log_dirs: tuple[LogDir, ...] = ()


class AlterReplicaLogDirsRequest(Struct, frozen=True):
    """`dirs`: (path, partitions that should be stored there)."""

    dirs: tuple[tuple[str, AskedPartitions], ...]


class AlterReplicaLogDirsReply(Struct, frozen=True):
    """`topics`: (name, ((partition, code), ...))."""

    topics: Sequence[tuple[str, Sequence[tuple[int, ErrorCode]]]]


class PartitionOutcome(Struct, frozen=True):
    partition: int
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


class TopicOutcomes(Struct, frozen=True):
    name: str
    partitions: Sequence[PartitionOutcome]


class ElectLeadersRequest(Struct, frozen=True):
    """`election_type`: 0 preferred, 1 unclean. `topics` None = all partitions."""

    election_type: int
    topics: AskedPartitions | None
    timeout_ms: int = 60000


class ElectLeadersReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
    topics: Sequence[TopicOutcomes] = ()


class ReassignedTopic(Struct, frozen=True):
    """`partitions`: (partition, its new replicas); replicas None = cancel the present
    reassignment."""

    name: str
    partitions: tuple[tuple[int, tuple[int, ...] | None], ...]


class AlterPartitionReassignmentsRequest(Struct, frozen=True):
    topics: tuple[ReassignedTopic, ...]
    allow_replication_factor_change: bool = True
    timeout_ms: int = 60000


class AlterPartitionReassignmentsReply(Struct, frozen=True):
    allow_replication_factor_change: bool = True
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topics: Sequence[TopicOutcomes] = ()


class ListPartitionReassignmentsRequest(Struct, frozen=True):
    """`topics` None = all."""

    topics: AskedPartitions | None
    timeout_ms: int = 60000


class ListPartitionReassignmentsReply(Struct, frozen=True):
    """The list of reassignments has no field, as it is always empty: groupd moves no replicas."""

    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
