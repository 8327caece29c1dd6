"""Metrics that clients push (KIP-714): GetTelemetrySubscriptions (71), PushTelemetry (72)."""

from __future__ import annotations

from groupd.protocol.errors import ErrorCode
from groupd.protocol.frozen import dataclass

NO_CLIENT = bytes(16)
"""The id of a client that has none yet."""


@dataclass(frozen=True, slots=True)
class GetTelemetrySubscriptionsRequest:
    """`client`: 16 bytes, `NO_CLIENT` in the first request of a client."""

    client: bytes


@dataclass(frozen=True, slots=True)
class GetTelemetrySubscriptionsReply:
    """`compressions`: codecs of record batches by number. `metrics`: prefixes of names, `*` = all,
    none = nothing is to be pushed."""

    error: ErrorCode = ErrorCode.NONE
    client: bytes = NO_CLIENT
    subscription_id: int = 0
    compressions: tuple[int, ...] = ()
    push_interval_ms: int = 0
    max_bytes: int = 0
    delta_temporality: bool = False
    metrics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PushTelemetryRequest:
    """`metrics`: OpenTelemetry's MetricsData, compressed with codec `compression`."""

    client: bytes
    subscription_id: int
    terminating: bool
    compression: int
    metrics: bytes


@dataclass(frozen=True, slots=True)
class PushTelemetryReply:
    error: ErrorCode = ErrorCode.NONE
