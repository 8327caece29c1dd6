"""Producers and the ends of their transactions: WriteTxnMarkers (27), DescribeProducers (61)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.frozen import dataclass


@dataclass(frozen=True, slots=True)
class MarkerTopic:
    name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WritableMarker:
    """`transaction_version`: 0 and 1 mean the same."""

    producer_id: int
    producer_epoch: int
    committed: bool
    topics: tuple[MarkerTopic, ...]
    coordinator_epoch: int
    transaction_version: int = 0


@dataclass(frozen=True, slots=True)
class WriteTxnMarkersRequest:
    markers: tuple[WritableMarker, ...]


@dataclass(frozen=True, slots=True)
class MarkedTopic:
    """`partitions`: (partition, error)."""

    name: str
    partitions: tuple[tuple[int, ErrorCode], ...]


@dataclass(frozen=True, slots=True)
class WrittenMarker:
    producer_id: int
    topics: tuple[MarkedTopic, ...]


@dataclass(frozen=True, slots=True)
class WriteTxnMarkersReply:
    markers: tuple[WrittenMarker, ...]


@dataclass(frozen=True, slots=True)
class DescribeProducersTopic:
    name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DescribeProducersRequest:
    topics: tuple[DescribeProducersTopic, ...]


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """-1 = none, in every field but the first two."""

    producer_id: int
    producer_epoch: int
    last_sequence: int = -1
    last_timestamp_ms: int = -1
    coordinator_epoch: int = -1
    transaction_offset: int = -1


@dataclass(frozen=True, slots=True)
class DescribedPartition:
    partition: int
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    producers: tuple[ActiveProducer, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribedProducersTopic:
    name: str
    partitions: tuple[DescribedPartition, ...]


@dataclass(frozen=True, slots=True)
class DescribeProducersReply:
    topics: tuple[DescribedProducersTopic, ...]
