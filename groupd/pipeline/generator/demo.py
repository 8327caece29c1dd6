"""The demo log: two days of five groups, each with a story that a report should show.

- `checkout`: healthy. It has static members, so its two deployments move nothing, and one more
  member over the busy hours.
- `recommendations`: too slow for its session timeout on the second day, which causes a rebalance
  storm.
- `invoicing`: since the first evening one partition is stuck at a record that cannot be processed.
- `warehouse-sync`: a classic group that seeks back twice and is once reset by an operator.
- `ledger`: static members with transactions, some of which abort; one member crashes.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from groupd.pipeline.generator.profiles import DAY_MS, HOUR_MS, MINUTE_MS, SESSION_MS
from groupd.pipeline.generator.script import (
    Act,
    GeneratedPartition,
    GeneratedTopic,
    GeneratedWorld,
    GroupPlan,
    Kind,
    Op,
)

SEED = 848
DAYS = 2
PARTITIONS = 50
_RECORDS = 25_000
_RECORDS_OF_STORM = 100_000
"""More records than usual: members that commit every few seconds show best when they were gone."""

_SLOWLY_MS = 6 * MINUTE_MS

_END_POINTS = DAYS * 24 * 60 + 1
"""How many times end offsets are written down: once a minute."""

_TOPICS = (("orders", 12, 40.0), ("views", 6, 110.0), ("invoices", 8, 6.0), ("stock", 6, 9.0))
ORDERS, VIEWS, INVOICES, STOCK = range(4)


def demo_world(until_ms: int) -> tuple[GeneratedWorld, list[GroupPlan]]:
    """The world and the groups of the demo, which ends at `until_ms`."""
    rng = Random(SEED)
    topics = [_topic(name, partitions, rate, rng) for name, partitions, rate in _TOPICS]
    world = GeneratedWorld(
        topics, until_ms - DAYS * DAY_MS, until_ms, PARTITIONS, SEED, _END_POINTS
    )
    start = world.start_ms
    plans = [
        _group(
            "recommendations",
            Kind.CONSUMER,
            VIEWS,
            topics,
            _recommendations(start),
            1.75,
            records=_RECORDS_OF_STORM,
        ),
        _group("invoicing", Kind.CONSUMER, INVOICES, topics, _invoicing(start), 3.0),
        _group("warehouse-sync", Kind.CLASSIC, STOCK, topics, _warehouse(start), 2.4),
        _group(
            "ledger",
            Kind.CONSUMER,
            ORDERS,
            topics,
            _ledger(start),
            2.6,
            static=True,
            producer_id=1000,
        ),
        _group("checkout", Kind.CONSUMER, ORDERS, topics, _checkout(start), 2.8, static=True),
    ]
    return world, plans


def _topic(name: str, partitions: int, rate: float, rng: Random) -> GeneratedTopic:
    rates = tuple(rate * rng.uniform(0.8, 1.25) for _ in range(partitions))
    bases = tuple(rng.randrange(1_000_000, 2_000_000) for _ in rates)
    return GeneratedTopic(name, rng.randbytes(16), rates, bases, 0.7, rng.uniform(12, 16) * 3600)


def _group(
    name: str,
    kind: Kind,
    topic: int,
    topics: list[GeneratedTopic],
    ops: Iterator[Op],
    capacity: float,
    *,
    static: bool = False,
    producer_id: int = -1,
    records: int = _RECORDS,
) -> GroupPlan:
    return GroupPlan(
        name,
        kind,
        tuple(
            GeneratedPartition(topic, partition) for partition in range(topics[topic].partitions)
        ),
        tuple(sorted(ops, key=lambda op: op.at_ms)),
        records,
        capacity,
        static=static,
        producer_id=producer_id,
        aborts=0.06,
    )


def _joins(start: int, members: int) -> Iterator[Op]:
    for member in range(members):
        yield Op(start + 2000 + 900 * member, Act.JOIN, member)


def _deployment(at_ms: int, members: int) -> Iterator[Op]:
    """A slow deployment: one member every few minutes."""
    for member in range(members):
        yield Op(at_ms, Act.LEAVE, member)
        yield Op(at_ms + 14_000, Act.JOIN, member)
        at_ms += _SLOWLY_MS


def _bounce(at_ms: int, members: int) -> Iterator[Op]:
    """A deployment of static members."""
    for member in range(members):
        yield Op(at_ms, Act.AWAY, member)
        yield Op(at_ms + 12_000, Act.JOIN, member)
        at_ms += 40_000


def _checkout(start: int) -> Iterator[Op]:
    yield from _joins(start, 4)
    yield from _bounce(start + 9 * HOUR_MS, 4)
    yield Op(start + 12 * HOUR_MS, Act.JOIN, 4)
    yield Op(start + 20 * HOUR_MS, Act.LEAVE, 4)
    yield from _bounce(start + 34 * HOUR_MS, 4)


def _recommendations(start: int) -> Iterator[Op]:
    yield from _joins(start, 5)
    yield from _deployment(start + 10 * HOUR_MS, 5)
    at_ms = start + 35 * HOUR_MS
    for lap in range(60):
        member = (0, 3, 0, 1)[lap % 4]
        yield Op(at_ms, Act.MUTE, member)
        yield Op(at_ms + SESSION_MS, Act.FENCE, member)
        yield Op(at_ms + SESSION_MS + 7_000 + 400 * (lap % 7), Act.JOIN, member)
        at_ms += 2 * MINUTE_MS + 5_000 * (lap % 5)


def _invoicing(start: int) -> Iterator[Op]:
    yield from _joins(start, 3)
    yield Op(start + 21 * HOUR_MS, Act.STICK, places=(5,))
    yield from _deployment(start + 30 * HOUR_MS, 3)


def _warehouse(start: int) -> Iterator[Op]:
    yield from _joins(start, 3)
    yield Op(start + 8 * HOUR_MS, Act.REWIND, 0, (0, 1), 40_000)
    yield Op(start + 19 * HOUR_MS, Act.REWIND, 1, (2, 3), 60_000)
    at_ms = start + 31 * HOUR_MS
    for member in range(3):
        yield Op(at_ms + 3_000 * member, Act.LEAVE, member)
        yield Op(at_ms + 8 * MINUTE_MS + 2_000 * member, Act.JOIN, member)
    yield Op(at_ms + 3 * MINUTE_MS, Act.REWIND, amount=150_000)


def _ledger(start: int) -> Iterator[Op]:
    yield from _joins(start, 3)
    yield from _bounce(start + 15 * HOUR_MS, 3)
    crash = start + 27 * HOUR_MS
    yield Op(crash, Act.MUTE, 1)
    yield Op(crash + SESSION_MS, Act.FENCE, 1)
    yield Op(crash + 11 * MINUTE_MS, Act.JOIN, 1)
