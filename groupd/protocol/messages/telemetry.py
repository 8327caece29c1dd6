"""Metrics that clients push (KIP-714): GetTelemetrySubscriptions (71), PushTelemetry (72)."""

from __future__ import annotations

from msgspec import Struct

from groupd.protocol.errors import ErrorCode

NO_CLIENT = bytes(16)
"""The client id of a client that has not been given one yet."""


class GetTelemetrySubscriptionsRequest(Struct, frozen=True):
    """`client`: the client's id, 16 bytes; `NO_CLIENT` in its first request."""

    client: bytes


class GetTelemetrySubscriptionsReply(Struct, frozen=True):
    """`compressions`: the codecs of record batches, by number. `metrics`: prefixes of metric names;
    `*` means all, and an empty list means that the client need not push anything."""

    error: ErrorCode = ErrorCode.NONE
    client: bytes = NO_CLIENT
    subscription_id: int = 0
    compressions: tuple[int, ...] = ()
    push_interval_ms: int = 0
    max_bytes: int = 0
    delta_temporality: bool = False
    metrics: tuple[str, ...] = ()


class PushTelemetryRequest(Struct, frozen=True):
    """`metrics`: OpenTelemetry's MetricsData, compressed with codec `compression`."""

    client: bytes
    subscription_id: int
    terminating: bool
    compression: int
    metrics: bytes


class PushTelemetryReply(Struct, frozen=True):
    error: ErrorCode = ErrorCode.NONE
