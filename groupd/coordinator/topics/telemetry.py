"""Metrics that clients push (KIP-714): GetTelemetrySubscriptions (71), PushTelemetry (72), and the
subscriptions, which are configs of the resource CLIENT_METRICS.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from zlib import crc32

from msgspec import Struct

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.config.keys import ConfigKey, ConfigTable, WantedKeys, changes_to
from groupd.coordinator.config.values import (
    INT,
    LIST,
    SOURCE_CLIENT_METRICS,
    SOURCE_DEFAULT,
    ValueRule,
    split_list,
)
from groupd.coordinator.core.types import Instant, RequestContext
from groupd.coordinator.patterns import Pattern, compile_pattern
from groupd.coordinator.topics.overrides import ConfigOverrides
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.telemetry import (
    NO_CLIENT,
    GetTelemetrySubscriptionsReply,
    GetTelemetrySubscriptionsRequest,
    PushTelemetryReply,
    PushTelemetryRequest,
)
from groupd.protocol.messages.topics import (
    RESOURCE_CLIENT_METRICS,
    AlterResource,
    ConfigSynonym,
    ConfigValue,
)
from groupd.storage.log import Catalogue

# Subscriptions ------------------------------------------------------------------------------

# A subscription says which metrics matching clients push, and how often. Patterns are RE2. They
# match a client's instance id, client id and address; patterns for its software or port are
# refused. Checks and texts are those of Kafka's ClientMetricsConfigs.

METRICS, INTERVAL, MATCH = "metrics", "interval.ms", "match"
DEFAULT_INTERVAL_MS = 300_000
ALL_METRICS = "*"

SUBSCRIPTIONS_MAX = 100

_INTERVALS_MS = range(100, 3_600_001)
_FACTS = ("client_instance_id", "client_id", "client_source_address")


class Subscription(Struct, frozen=True):
    """`match`: pairs of a fact about the client and a pattern that must match the whole value."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: tuple[tuple[str, Pattern], ...]

    def matches(self, facts: Mapping[str, str]) -> bool:
        return all(pattern.fullmatch(facts[fact]) is not None for fact, pattern in self.match)


def _patterns(text: str) -> Iterator[tuple[str, Pattern]]:
    """The pairs (fact, pattern) in the value of `match`. Raises ApiError INVALID_CONFIG."""
    for item in split_list(text):
        fact, _, pattern = (part.strip() for part in item.partition("="))
        try:
            if fact not in _FACTS or not pattern or "=" in pattern:
                raise ValueError(f"groupd matches {', '.join(_FACTS)}")
            yield fact, compile_pattern(pattern)
        except ValueError as error:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {item} ({error})"
            ) from error


def _check(name: str, value: str) -> None:
    if name == INTERVAL and int(value) not in _INTERVALS_MS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {value} for {INTERVAL}, interval must be between 100 and 3600000 "
            "(1 hour)",
        )
    if name == MATCH:
        list(_patterns(value))


_CONFIGS = ConfigTable(
    (
        ConfigKey(
            INTERVAL,
            ValueRule(INT),
            str(DEFAULT_INTERVAL_MS),
            "How often they are pushed, in milliseconds.",
        ),
        ConfigKey(
            MATCH,
            ValueRule(LIST),
            documentation="Which clients push them: FACT=PATTERN, all of them; none = every "
            "client.",
        ),
        ConfigKey(
            METRICS,
            ValueRule(LIST),
            documentation="Prefixes of the metrics that are pushed; * = all.",
        ),
    ),
    unknown=(ErrorCode.INVALID_REQUEST, "Unknown client metrics configuration: "),
    invalid=ErrorCode.INVALID_CONFIG,
)


class ClientMetrics(ConfigOverrides):
    """The subscriptions, by name. `version` rises with every change."""

    def __init__(self, store: Catalogue, changes: CatalogueChanges) -> None:
        super().__init__(
            store,
            changes,
            RESOURCE_CLIENT_METRICS,
            _CONFIGS.keys.__contains__,
            SUBSCRIPTIONS_MAX,
            "subscriptions",
        )
        self.version = 0
        self._subscriptions: dict[str, Subscription] = {}
        self.add_listener(self._changed)

    def count(self) -> int:
        return len(self._subscriptions)

    def matching(self, facts: Mapping[str, str]) -> Iterator[Subscription]:
        """The subscriptions that match a client. `facts`: by the names that patterns use."""
        return (found for found in self._subscriptions.values() if found.matches(facts))

    def describe(self, name: str, wanted: WantedKeys) -> list[ConfigValue]:
        if not name:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty"
            )
        own = self.of(name)
        described = []
        for key in _CONFIGS.keys.values():
            if wanted is not None and key.name not in wanted:
                continue
            if key.name in own:
                value, source = own[key.name], SOURCE_CLIENT_METRICS
                synonyms = (ConfigSynonym(key.name, value, source),)
                described.append(key.described(value, source, synonyms))
            else:
                described.append(key.described(key.default, SOURCE_DEFAULT))
        return described

    def check_altered(self, name: str) -> None:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")

    def altered(self, asked: AlterResource, current: Mapping[str, str]) -> dict[str, str]:
        return _CONFIGS.changed(
            current,
            changes_to(asked, current),
            lambda own, key: own.get(key, _CONFIGS.keys[key].default),
            _check,
        )

    def _changed(self, name: str, values: Mapping[str, str]) -> None:
        self.version += 1
        if values:
            self._subscriptions[name] = Subscription(
                tuple(split_list(values.get(METRICS, ""))),
                int(values.get(INTERVAL, DEFAULT_INTERVAL_MS)),
                tuple(_patterns(values.get(MATCH, ""))),
            )
        else:
            self._subscriptions.pop(name, None)


# Clients ------------------------------------------------------------------------------------

# Pushed metrics are only counted: payloads stay compressed and are dropped. Rules, order of the
# checks and codes are those of Kafka's ClientMetricsManager. A client is forgotten when it has been
# silent for three push intervals, or for a minute if that is longer. When there are too many
# clients, the one that has been silent longest is forgotten.

PUSH_BYTES_MAX = 1_048_576
"""The largest push of a client; Kafka's default of `telemetry.max.bytes`."""

CLIENTS_MAX = 10_000
CLIENT_ID_SHOWN = 200
"""How many characters of a client id are kept."""

FORGOTTEN_AFTER_MS = 60_000
"""The shortest silence after which a client is forgotten."""

ZSTD, LZ4, GZIP, SNAPPY = 4, 3, 1, 2
_COMPRESSIONS = (ZSTD, LZ4, GZIP, SNAPPY)
_UNCOMPRESSED = 0
_RESERVED = frozenset({NO_CLIENT, bytes(15) + b"\x01"})
_NEVER_MS = -(1 << 62)
_FREE_TO_ASK = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


class TelemetryClient(Struct):
    """One instance of a client. Times are monotonic milliseconds, except `pushed_at_ms`, which is
    wall time."""

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
    """The clients that push metrics. `new_id()` returns 16 random bytes."""

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
        # The first push after the client got its subscriptions may come early: clients add a
        # jitter.
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
        """The client with that id, with its present subscriptions."""
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
        """The ids of all clients, the most recently active one last."""
        return list(self._clients)

    def shown(self, instance: bytes) -> dict[str, Any] | None:
        """One client as JSON for the admin port; None if it is not known."""
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
    """An instance id as Kafka writes it: URL-safe base64 without padding."""
    return urlsafe_b64encode(client).decode().rstrip("=")


def read_id(shown: str) -> bytes:
    """The instance id that `shown_id` has written. Raises ValueError."""
    return urlsafe_b64decode(shown + "=" * (-len(shown) % 4))
