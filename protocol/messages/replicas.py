"""Where replicas lie and who leads: DescribeLogDirs (35), AlterReplicaLogDirs (34), ElectLeaders
(43), AlterPartitionReassignments (45), ListPartitionReassignments (46)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.frozen import dataclass

AskedPartitions = tuple[tuple[str, tuple[int, ...]], ...]
"""(topic, partitions)."""


@dataclass(frozen=True, slots=True)
class DescribeLogDirsRequest:
    """`topics` None = all."""

    topics: AskedPartitions | None


@dataclass(frozen=True, slots=True)
class LogDir:
    """`topics`: (name, ((partition, size in bytes), ...)). Bytes of the volume: -1 = not known."""

    path: str
    topics: tuple[tuple[str, tuple[tuple[int, int], ...]], ...] = ()
    error: ErrorCode = ErrorCode.NONE
    total_bytes: int = -1
    usable_bytes: int = -1


@dataclass(frozen=True, slots=True)
class DescribeLogDirsReply:
    error: ErrorCode = ErrorCode.NONE
    log_dirs: tuple[LogDir, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirsRequest:
    """`dirs`: (path, partitions that shall lie there)."""

    dirs: tuple[tuple[str, AskedPartitions], ...]


@dataclass(frozen=True, slots=True)
class AlterReplicaLogDirsReply:
    """`topics`: (name, ((partition, code), ...))."""

    topics: tuple[tuple[str, tuple[tuple[int, ErrorCode], ...]], ...]


@dataclass(frozen=True, slots=True)
class PartitionOutcome:
    partition: int
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class TopicOutcomes:
    name: str
    partitions: tuple[PartitionOutcome, ...]


@dataclass(frozen=True, slots=True)
class ElectLeadersRequest:
    """`election_type`: 0 preferred, 1 unclean. `topics` None = all partitions."""

    election_type: int
    topics: AskedPartitions | None
    timeout_ms: int = 60000


@dataclass(frozen=True, slots=True)
class ElectLeadersReply:
    error: ErrorCode = ErrorCode.NONE
    topics: tuple[TopicOutcomes, ...] = ()


@dataclass(frozen=True, slots=True)
class ReassignedTopic:
    """`partitions`: (partition, its new replicas); None = end what is under way."""

    name: str
    partitions: tuple[tuple[int, tuple[int, ...] | None], ...]


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsRequest:
    topics: tuple[ReassignedTopic, ...]
    allow_replication_factor_change: bool = True
    timeout_ms: int = 60000


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsReply:
    allow_replication_factor_change: bool = True
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    topics: tuple[TopicOutcomes, ...] = ()


@dataclass(frozen=True, slots=True)
class ListPartitionReassignmentsRequest:
    """`topics` None = all."""

    topics: AskedPartitions | None
    timeout_ms: int = 60000


@dataclass(frozen=True, slots=True)
class ListPartitionReassignmentsReply:
    """Nothing is ever under way with one node, so there is no room for it."""

    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
