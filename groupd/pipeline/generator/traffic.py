"""The topics of the generated world, and how fast they are written to.

Production is a function of time, not a simulation: the end offset of a partition at any instant can
be computed at once, and never falls. A day has a busy and a quiet half.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from msgspec import Struct

from groupd.protocol.messages import TopicId

DAY_S = 86400.0
_PARTITION_COUNTS = (6, 6, 12, 12, 24, 32)
_THEMES = (
    "orders",
    "payments",
    "clicks",
    "inventory",
    "shipments",
    "emails",
    "invoices",
    "sessions",
    "prices",
    "audit",
)
_KINDS = ("created", "updated", "events", "changes", "raw")


class TopicPartition(NamedTuple):
    """A partition of a topic. `topic` is the topic's index in its world."""

    topic: int
    partition: int


class GeneratedTopic(Struct, frozen=True):
    """A topic. `rates`: records a second, by partition. `bases`: end offsets at the beginning, by
    partition. `wave`: how much busier than the mean the busiest hour is, less than 1; `peak_s`:
    when that hour is."""

    name: str
    topic_id: TopicId
    rates: tuple[float, ...]
    bases: tuple[int, ...]
    wave: float
    peak_s: float

    @property
    def partitions(self) -> int:
        return len(self.rates)

    def busy_seconds(self, elapsed_s: float) -> float:
        """How many seconds at the mean rate would have produced as much as the `elapsed_s` seconds
        since the beginning."""
        turn = DAY_S / (2 * math.pi)
        swing = math.sin((elapsed_s - self.peak_s) / turn) + math.sin(self.peak_s / turn)
        return elapsed_s + self.wave * turn * swing

    def end(self, partition: int, elapsed_s: float) -> int:
        """The end offset of a partition."""
        made = self.rates[partition] * self.busy_seconds(elapsed_s)
        return self.bases[partition] + int(made)


def make_topics(count: int, rng: Random) -> list[GeneratedTopic]:
    """Topics with different names and ids; a few are much busier than the rest."""
    return [_topic(number, rng) for number in range(count)]


def _topic(number: int, rng: Random) -> GeneratedTopic:
    theme, kind = _THEMES[number % 10], _KINDS[number // 10 % 5]
    name = theme if number < 10 else f"{theme}.{kind}"
    if number >= 50:
        name += f".{number // 50}"
    mean = 10 ** rng.uniform(-0.5, 1.8)
    rates = tuple(mean * rng.uniform(0.7, 1.4) for _ in range(rng.choice(_PARTITION_COUNTS)))
    return GeneratedTopic(
        name,
        rng.randbytes(16),
        rates,
        tuple(rng.randrange(5_000_000) for _ in rates),
        rng.uniform(0.2, 0.8),
        rng.uniform(8, 20) * 3600,
    )


class EndOffset(NamedTuple):
    """The end offset of a partition at an instant."""

    topic: str
    partition: int
    end_offset: int
    time_ms: int


def end_offsets(
    topics: list[GeneratedTopic], start_ms: int, end_ms: int, points: int
) -> Iterator[EndOffset]:
    """End offsets at `points` instants, the last one just before `end_ms`, sorted by topic,
    partition and time."""
    times = [start_ms + (end_ms - start_ms) * number // (points - 1) for number in range(points)]
    times[-1] = end_ms - 1
    for topic in topics:
        for partition in range(topic.partitions):
            for at_ms in times:
                end = topic.end(partition, (at_ms - start_ms) / 1000)
                yield EndOffset(topic.name, partition, end, at_ms)
