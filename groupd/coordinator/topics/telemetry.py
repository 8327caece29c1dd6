"""GetTelemetrySubscriptions (71) and PushTelemetry (72): metrics that clients push (KIP-714).

Pushed metrics are counted, not read: payloads stay compressed and are dropped. Rules, order of the
checks and codes are those of Kafka's ClientMetricsManager. A client is forgotten when it has been
silent for three push intervals, or for a minute if that is longer; when there are too many, the one
that was silent longest goes.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable
from typing import Any
from zlib import crc32

from msgspec import Struct

from groupd.coordinator.core.types import Instant, RequestContext
from groupd.coordinator.topics.client_metrics import ALL_METRICS, DEFAULT_INTERVAL_MS, ClientMetrics
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.telemetry import (
    NO_CLIENT,
    GetTelemetrySubscriptionsReply,
    GetTelemetrySubscriptionsRequest,
    PushTelemetryReply,
    PushTelemetryRequest,
)

PUSH_BYTES_MAX = 1_048_576
"""Largest push of a client, as is Kafka's default (`telemetry.max.bytes`)."""

CLIENTS_MAX = 10_000
CLIENT_ID_SHOWN = 200
"""Characters of a client id that are kept."""

FORGOTTEN_AFTER_MS = 60_000
"""A client is not forgotten for its silence before this much time has passed."""

ZSTD, LZ4, GZIP, SNAPPY = 4, 3, 1, 2
_COMPRESSIONS = (ZSTD, LZ4, GZIP, SNAPPY)
_UNCOMPRESSED = 0
_RESERVED = frozenset({NO_CLIENT, bytes(15) + b"\x01"})
_NEVER_MS = -(1 << 62)
_FREE_TO_ASK = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


class TelemetryClient(Struct):
    """One instance of a client. Times are monotonic milliseconds, `pushed_at_ms` is wall time."""

    client: bytes
    client_id: str
    host: str
    version: int
    subscription_id: int
    interval_ms: int
    metrics: tuple[str, ...]
    asked_ms: int = _NEVER_MS
    pushed_ms: int = _NEVER_MS
    seen_ms: int = 0
    pushed_at_ms: int = -1
    pushes: int = 0
    bytes: int = 0
    terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE


class Telemetry:
    """The clients that push metrics. `new_id()`: 16 random bytes."""

    def __init__(
        self,
        subscriptions: ClientMetrics,
        now: Callable[[], Instant],
        new_id: Callable[[], bytes],
    ) -> None:
        self._subscriptions = subscriptions
        self._now = now
        self._new_id = new_id
        self._clients: OrderedDict[bytes, TelemetryClient] = OrderedDict()
        self.pushes = 0
        self.bytes = 0
        self.refused = 0

    @property
    def clients(self) -> int:
        return len(self._clients)

    async def subscriptions_of(
        self, context: RequestContext, request: GetTelemetrySubscriptionsRequest
    ) -> GetTelemetrySubscriptionsReply:
        now_ms = self._now().monotonic_ms
        client = self._client(request.client, context, now_ms)
        early = now_ms - max(client.asked_ms, client.pushed_ms) < client.interval_ms
        if early and client.last_error not in _FREE_TO_ASK:
            self.refused += 1
            raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        if not early:
            client.asked_ms = now_ms
        client.last_error = ErrorCode.NONE
        return GetTelemetrySubscriptionsReply(
            client=client.client,
            subscription_id=client.subscription_id,
            compressions=_COMPRESSIONS,
            push_interval_ms=client.interval_ms,
            max_bytes=PUSH_BYTES_MAX,
            delta_temporality=True,
            metrics=client.metrics,
        )

    async def push(
        self, context: RequestContext, request: PushTelemetryRequest
    ) -> PushTelemetryReply:
        if request.client in _RESERVED:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        now = self._now()
        client = self._client(request.client, context, now.monotonic_ms)
        client.last_error = self._refused(client, request, now.monotonic_ms)
        client.terminating = request.terminating
        if client.last_error:
            self.refused += 1
            raise ApiError(client.last_error)
        if request.metrics:
            client.pushes += 1
            client.bytes += len(request.metrics)
            client.pushed_at_ms = now.wall_ms
            self.pushes += 1
            self.bytes += len(request.metrics)
        return PushTelemetryReply()

    def _refused(
        self, client: TelemetryClient, request: PushTelemetryRequest, now_ms: int
    ) -> ErrorCode:
        if client.terminating:
            return ErrorCode.INVALID_REQUEST
        # The first push after asking may come before its time: clients add a jitter.
        if client.asked_ms > client.pushed_ms or now_ms - client.pushed_ms >= client.interval_ms:
            client.pushed_ms = now_ms
        elif not request.terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if request.subscription_id != client.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if request.compression not in (_UNCOMPRESSED, *_COMPRESSIONS):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(request.metrics) > PUSH_BYTES_MAX:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _client(self, asked: bytes, context: RequestContext, now_ms: int) -> TelemetryClient:
        """The client with that id, with the subscriptions as they are now."""
        self._forget(now_ms)
        client = self._clients.get(asked)
        if client is None or client.version != self._subscriptions.version:
            instance = self._fresh_id() if asked == NO_CLIENT else asked
            made = self._made(instance, context)
            if client is not None:
                made.pushes, made.bytes = client.pushes, client.bytes
                made.pushed_at_ms = client.pushed_at_ms
            client = self._clients[instance] = made
        client.seen_ms = now_ms
        self._clients.move_to_end(client.client)
        if len(self._clients) > CLIENTS_MAX:
            self._clients.popitem(last=False)
        return client

    def _fresh_id(self) -> bytes:
        while (instance := self._new_id()) in _RESERVED or instance in self._clients:
            pass
        return instance

    def _forget(self, now_ms: int) -> None:
        while self._clients:
            oldest = next(iter(self._clients.values()))
            if now_ms - oldest.seen_ms < max(FORGOTTEN_AFTER_MS, 3 * oldest.interval_ms):
                return
            self._clients.popitem(last=False)

    def _made(self, client: bytes, context: RequestContext) -> TelemetryClient:
        host = context.client_host.removeprefix("/")
        facts = {
            "client_instance_id": shown_id(client),
            "client_id": context.client_id,
            "client_source_address": host,
        }
        interval_ms = DEFAULT_INTERVAL_MS
        names: set[str] = set()
        for subscription in self._subscriptions.matching(facts):
            names.update(subscription.metrics)
            interval_ms = min(interval_ms, subscription.interval_ms)
        metrics = (ALL_METRICS,) if ALL_METRICS in names else tuple(sorted(names))
        key = f"{','.join(metrics)} {interval_ms}".encode() + client
        return TelemetryClient(
            client=client,
            client_id=context.client_id[:CLIENT_ID_SHOWN],
            host=host,
            version=self._subscriptions.version,
            subscription_id=crc32(key) & 0x7FFFFFFF,
            interval_ms=interval_ms,
            metrics=metrics,
        )

    def instances(self) -> list[bytes]:
        """The ids of all clients; the one that was active last comes last."""
        return list(self._clients)

    def shown(self, instance: bytes) -> dict[str, Any] | None:
        """One client as JSON for the admin port; None if it is not known any more."""
        client = self._clients.get(instance)
        if client is None:
            return None
        return {
            "client_instance_id": shown_id(client.client),
            "client_id": client.client_id,
            "host": client.host,
            "metrics": list(client.metrics),
            "interval_ms": client.interval_ms,
            "pushes": client.pushes,
            "bytes": client.bytes,
            "last_push_ms": client.pushed_at_ms,
            "terminating": client.terminating,
        }


def shown_id(client: bytes) -> str:
    """The id as Kafka writes it: URL-safe base64 without padding."""
    return urlsafe_b64encode(client).decode().rstrip("=")


def read_id(shown: str) -> bytes:
    """The inverse. Raises ValueError."""
    return urlsafe_b64decode(shown + "=" * (-len(shown) % 4))
