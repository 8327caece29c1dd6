"""The quotas of clients, and what clients have used of them (docs/spec/security.md#5.1): rates over
windows of time, and buckets of tokens.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from groupd.coordinator.security.quota_entities import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
    levels,
)
from groupd.coordinator.security.recent import Recent, short
from groupd.protocol.errors import ApiError, ErrorCode

# Rates and buckets --------------------------------------------------------------------------

# Rates and buckets are Kafka's, so the same traffic is slowed down as much as there. Times are
# milliseconds, and the caller says what time it is.


class Windows(Struct, frozen=True):
    """The windows of a rate: `count` samples of `size_ms` each. The defaults are Kafka's, for all
    quotas."""

    count: int = 11
    size_ms: int = 1000

    @property
    def burst_ms(self) -> int:
        """The time over which a burst counts: everything that arrives at once counts as if it had
        come in this time."""
        return (self.count - 1) * self.size_ms


class _Sample(Struct):
    """The sum of everything that was counted in one window, from `start_ms` to `last_ms`."""

    start_ms: int
    last_ms: int
    total: float = 0.0


class Rate:
    """An amount per second, over windows of time."""

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[_Sample] = deque()

    def add(self, amount: float, now_ms: int) -> None:
        """Counts an amount. A negative one takes back what was added before."""
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._windows.size_ms:
            samples.append(_Sample(now_ms, now_ms))
            if len(samples) > self._windows.count + 1:
                samples.popleft()
        samples[-1].total += amount
        samples[-1].last_ms = now_ms

    def total(self, now_ms: int) -> float:
        """The sum of the samples that still count."""
        samples = self._samples
        age_ms = self._windows.count * self._windows.size_ms
        while samples and now_ms - samples[0].last_ms >= age_ms:
            samples.popleft()
        return sum(sample.total for sample in samples)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long the client has to wait until the rate falls to `bound`; 0 if it is not above
        it."""
        total, span_ms = self.total(now_ms), self._span_ms(now_ms)
        rate = total * 1000 / span_ms
        return round((rate - bound) / bound * span_ms) if rate > bound else 0

    def _span_ms(self, now_ms: int) -> int:
        """The time that the samples stand for: all windows except the last in full, and the part of
        the last one that is over."""
        span_ms = now_ms - self._samples[0].start_ms if self._samples else 0
        missing = self._windows.count - 1 - span_ms // self._windows.size_ms
        return max(1, span_ms + max(0, missing) * self._windows.size_ms)


class TokenBucket:
    """A bucket of tokens. They come back at the rate of the quota, up to the size of the bucket. A
    caller may take more than there are; then the next one has to wait until no token is owed."""

    __slots__ = ("_at_ms", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None
        self._at_ms = 0

    def take(self, amount: float, bound: float, now_ms: int) -> None:
        self._tokens = self._left(bound, now_ms) - amount
        self._at_ms = now_ms

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """The time until no token is owed."""
        return max(0, round(-self._left(bound, now_ms) / bound * 1000))

    def _left(self, bound: float, now_ms: int) -> float:
        most = self._windows.count * self._windows.size_ms / 1000 * bound
        if self._tokens is None:
            return most
        return min(most, self._tokens + bound * (now_ms - self._at_ms) / 1000)


# Quotas -------------------------------------------------------------------------------------

# `Quotas.of` finds the limits of a client. The code that works on a request reports what it used,
# and gets the time that the client has to wait; `coordinator.server.metering` makes the client
# wait. A quota counts in this process only, as in Kafka it counts on each broker.
#
# How much was used is kept for each user and client that a quota counts separately. What has not
# been used for an hour is forgotten; when there is too much to keep, so is what was used the
# longest ago.

IDLE_MS = 3_600_000
"""After this time without use, the use of a client is forgotten."""

CLIENTS_MAX = 10_000
"""The use of so many clients is remembered at most."""

_PERCENT_PER_NS = 100 / 1e9

SensorKey = tuple[str, str | None, str | None]
"""The quota, and the user and the client id whose use it counts together (see `short`); None where
one of them does not matter."""


class Limit(Struct, frozen=True):
    """A quota as it holds for a client. All clients with the same `sensor` share it."""

    sensor: SensorKey
    bound: float


class ClientQuotas(Struct, frozen=True):
    """The limits of a client; None: it has no such limit."""

    produce: Limit | None = None
    fetch: Limit | None = None
    request: Limit | None = None
    mutation: Limit | None = None


class Quotas:
    """The quotas of one broker. `now_ms()`: the broker's clock, which never goes back.

    `active`: whether there is any quota for users or client ids. A request looks at nothing else
    while there is none."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.active = False
        self.throttled: Counter[str] = Counter()
        """How often clients had to wait, by quota."""
        self.throttled_ms: Counter[str] = Counter()
        """How long clients had to wait in all, in ms, by quota."""
        self._entries: dict[QuotaEntity, Mapping[str, float]] = {}
        self._of_clients = 0
        """The number of entities that are not addresses."""
        self._found: dict[tuple[str, str], ClientQuotas | None] = {}
        self._listeners: list[Callable[[], None]] = []
        self._now_ms = now_ms
        self._windows = Windows()
        self._owed_until_ms: Recent[list[int]] = Recent(lambda: [0], IDLE_MS, CLIENTS_MAX)
        """The time until which the clients of a sensor have been told to wait."""
        self._rates = Recent(lambda: Rate(self._windows), IDLE_MS, CLIENTS_MAX)
        self._buckets = Recent(lambda: TokenBucket(self._windows), IDLE_MS, CLIENTS_MAX)

    # What there is ------------------------------------------------------------------------

    @property
    def entries(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """The quotas of all entities, by key."""
        return self._entries

    @property
    def sensors(self) -> int:
        """How many sensors remember what clients used."""
        return len(self._rates) + len(self._buckets)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """`listener` is called after every change."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Callable[[], None]) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def change(self, entries: Iterable[tuple[QuotaEntity, Mapping[str, float]]]) -> None:
        """Sets the quotas of some entities; empty: they have none from now on."""
        for entity, values in entries:
            known = self._entries.pop(entity, None) is not None
            if values:
                self._entries[entity] = values
            if entity[0][0] != IP:
                self._of_clients += bool(values) - known
        self._found.clear()
        self.active = self._of_clients > 0
        for listener in self._listeners:
            listener()

    def of(self, principal: str, client_id: str) -> ClientQuotas | None:
        """The limits of a client; None if it has none. `principal`: such as "User:alice"."""
        if not self.active:
            return None
        key = (short(principal), short(client_id))
        try:
            return self._found[key]
        except KeyError:
            pass
        if len(self._found) >= CLIENTS_MAX:
            self._found.clear()
        found = self._find(principal.partition(":")[2], client_id)
        self._found[key] = found
        return found

    def fetch_limit(self, principal: str, client_id: str) -> Limit | None:
        limits = self.of(principal, client_id)
        return None if limits is None else limits.fetch

    def mutation_limit(self, principal: str, client_id: str) -> Limit | None:
        limits = self.of(principal, client_id)
        return None if limits is None else limits.mutation

    def _find(self, user: str, client_id: str) -> ClientQuotas | None:
        found = ClientQuotas(
            produce=self._limit(PRODUCER_BYTE_RATE, user, client_id),
            fetch=self._limit(CONSUMER_BYTE_RATE, user, client_id),
            request=self._limit(REQUEST_PERCENTAGE, user, client_id),
            mutation=self._limit(CONTROLLER_MUTATION_RATE, user, client_id),
        )
        return None if found == ClientQuotas() else found

    def _limit(self, quota: str, user: str, client_id: str) -> Limit | None:
        for entity in levels(user, client_id):
            values = self._entries.get(entity)
            if values is not None and quota in values:
                types = {entity_type for entity_type, _ in entity}
                shared = (quota, short(user) if USER in types else None)
                sensor = (*shared, short(client_id) if CLIENT_ID in types else None)
                return Limit(sensor, values[quota])
        return None

    def connection_rate(self, address: str) -> float | None:
        """How many connections an address may open in a second; None: any number."""
        for name in (address, None):
            values = self._entries.get(((IP, name),))
            if values is not None:
                return values[CONNECTION_CREATION_RATE]
        return None

    # What is used -------------------------------------------------------------------------

    def produced(self, limit: Limit, size: int) -> int:
        """Counts a Produce request of `size` bytes. Returns how long its client has to wait, in
        ms."""
        now_ms = self._now_ms()
        rate = self._rates.of(limit.sensor, now_ms)
        rate.add(size, now_ms)
        return rate.throttle_ms(limit.bound, now_ms)

    def fetch_max(self, limit: Limit) -> int:
        """The most bytes that a reply should have: a larger one would always be too much."""
        return max(1, int(min(limit.bound * self._windows.burst_ms / 1000, 2**31 - 1)))

    def fetched(self, limit: Limit, size: int) -> int:
        """Counts a reply to Fetch that is about to be sent. Returns how long the client has to
        wait, in ms. If it has to wait, the reply must be empty, and its bytes do not count. The
        first reply after a time without any is always sent, so that a batch above `fetch_max` can
        be read, too."""
        now_ms = self._now_ms()
        rate = self._rates.of(limit.sensor, now_ms)
        was_quiet = rate.total(now_ms) <= 0
        rate.add(size, now_ms)
        throttle_ms = 0 if was_quiet else rate.throttle_ms(limit.bound, now_ms)
        if throttle_ms:
            rate.add(-size, now_ms)
        return throttle_ms

    def sent(self, limit: Limit, size: int) -> None:
        """Counts `size` more bytes of a reply to Fetch."""
        now_ms = self._now_ms()
        self._rates.of(limit.sensor, now_ms).add(size, now_ms)

    def worked(self, limit: Limit, used_ns: int) -> int:
        """Counts a request whose work took `used_ns`. Returns how long its client has to wait, in
        ms: one window at most."""
        now_ms = self._now_ms()
        rate = self._rates.of(limit.sensor, now_ms)
        rate.add(used_ns * _PERCENT_PER_NS, now_ms)
        return min(self._windows.size_ms, rate.throttle_ms(limit.bound, now_ms))

    def mutations(self, limit: Limit | None, *, strict: bool) -> Mutations:
        """Counts the partitions of one request that creates or deletes partitions; see
        `Mutations`."""
        return Mutations(self, limit, strict)

    def bucket(self, limit: Limit) -> tuple[TokenBucket, int]:
        """The bucket of partitions that may still be created and deleted, and the time."""
        now_ms = self._now_ms()
        return self._buckets.of(limit.sensor, now_ms), now_ms

    def owes(self, limit: Limit, throttle_ms: int) -> None:
        """Notes that a client has been told to wait for `throttle_ms`."""
        now_ms = self._now_ms()
        until = self._owed_until_ms.of(limit.sensor, now_ms)
        until[0] = max(until[0], now_ms + throttle_ms)

    def owed_ms(self, limit: Limit) -> int:
        """How long clients of this sensor still have to wait. A client that has connected again has
        to wait as long."""
        if limit.sensor not in self._owed_until_ms:
            return 0
        now_ms = self._now_ms()
        return max(0, self._owed_until_ms.of(limit.sensor, now_ms)[0] - now_ms)

    def count(self, quota: str, throttle_ms: int) -> None:
        """Counts for the metrics that a client has to wait."""
        self.throttled[quota] += 1
        self.throttled_ms[quota] += throttle_ms


class Mutations:
    """The partitions that one request creates and deletes. `strict`: what is above the quota is
    refused; otherwise it is done, and the client has to wait afterwards. `throttle_ms`: how long it
    has to wait."""

    __slots__ = ("_limit", "_quotas", "_strict", "throttle_ms")

    def __init__(self, quotas: Quotas, limit: Limit | None, strict: bool) -> None:
        self._quotas = quotas
        self._limit = limit
        self._strict = strict
        self.throttle_ms = 0

    def take(self, partitions: int) -> None:
        """Counts some partitions. Raises ApiError THROTTLING_QUOTA_EXCEEDED if `strict` and above
        the quota."""
        limit = self._limit
        if limit is None:
            return
        bucket, now_ms = self._quotas.bucket(limit)
        if self._strict:
            self.throttle_ms = bucket.throttle_ms(limit.bound, now_ms)
            if self.throttle_ms:
                message = "The throttling quota has been exceeded."
                raise ApiError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, message)
        bucket.take(partitions, limit.bound, now_ms)
        if not self._strict:
            self.throttle_ms = bucket.throttle_ms(limit.bound, now_ms)
