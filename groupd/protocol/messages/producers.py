"""Producers and the markers of their transactions: WriteTxnMarkers (27), DescribeProducers (61)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from groupd.protocol.errors import ErrorCode


class MarkerTopic(Struct, frozen=True):
    name: str
    partitions: tuple[int, ...]


class WritableMarker(Struct, frozen=True):
    """`transaction_version`: 0 and 1 mean the same."""

    producer_id: int
    producer_epoch: int
    committed: bool
    topics: tuple[MarkerTopic, ...]
    coordinator_epoch: int
    transaction_version: int = 0


class WriteTxnMarkersRequest(Struct, frozen=True):
    markers: tuple[WritableMarker, ...]


class MarkedTopic(Struct, frozen=True):
    """`partitions`: (partition, error)."""

    name: str
    partitions: Sequence[tuple[int, ErrorCode]]


class WrittenMarker(Struct, frozen=True):
    producer_id: int
    topics: Sequence[MarkedTopic]


class WriteTxnMarkersReply(Struct, frozen=True):
    markers: Sequence[WrittenMarker]


class DescribeProducersTopic(Struct, frozen=True):
    name: str
    partitions: tuple[int, ...]


class DescribeProducersRequest(Struct, frozen=True):
    topics: tuple[DescribeProducersTopic, ...]


class ActiveProducer(Struct, frozen=True):
    """-1 means "none" in every field but the first two."""

    producer_id: int
    producer_epoch: int
    last_sequence: int = -1
    last_timestamp_ms: int = -1
    coordinator_epoch: int = -1
    transaction_offset: int = -1


class DescribedPartition(Struct, frozen=True):
    partition: int
    error: ErrorCode = ErrorCode.NONE
    error_message: str | None = None
    producers: tuple[ActiveProducer, ...] = ()


class DescribedProducersTopic(Struct, frozen=True):
    name: str
    partitions: Sequence[DescribedPartition]


class DescribeProducersReply(Struct, frozen=True):
    topics: Sequence[DescribedProducersTopic]
