"""Generates a log and hands it to a sink, one partition of `__consumer_offsets` after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from msgspec import Struct

from groupd.coordinator.core.partitioning import partition_for
from groupd.pipeline.generator.commits import Commits
from groupd.pipeline.generator.members import steps_of
from groupd.pipeline.generator.profiles import DAY_MS, plan_groups
from groupd.pipeline.generator.script import GeneratedWorld, GroupPlan, ScriptTurn
from groupd.pipeline.generator.sinks import PlacedBatch, Sink
from groupd.pipeline.generator.traffic import end_offsets, make_topics
from groupd.protocol.records.batch import HEADER_BYTES

UNTIL_MS = 1_768_176_000_000
"""2026-01-12T00:00:00Z. It is fixed, so that the seed alone determines the log."""

PARTITIONS = 50
PRODUCERS_A_GROUP = 100
_GROUPS_A_TOPIC = 8
_OFFSET_BYTES = 8

Progress = Callable[[int], None]
"""Is called with the number of records written so far."""


class Options(Struct, frozen=True):
    """The options of a run. Equal options give equal logs, byte for byte."""

    records: int
    groups: int
    seed: int = 0
    days: float = 7.0
    until_ms: int = UNTIL_MS
    partitions: int = PARTITIONS


class Generated(Struct, frozen=True):
    """What was written. `lifecycle`: the number of records that are neither commits nor markers."""

    records: int
    batches: int
    groups: int
    topics: int


def plan_world(options: Options) -> tuple[GeneratedWorld, list[GroupPlan]]:
    """The topics and groups, before anything has happened to them."""
    rng = Random(f"{options.seed}/world")
    topics = make_topics(max(3, options.groups // _GROUPS_A_TOPIC), rng)
    start_ms = options.until_ms - int(options.days * DAY_MS)
    world = GeneratedWorld(topics, start_ms, options.until_ms, options.partitions, options.seed)
    return world, list(plan_groups(options.groups, options.records, world, rng))


async def generate(
    world: GeneratedWorld, plans: Sequence[GroupPlan], sink: Sink, progress: Progress | None = None
) -> Generated:
    """Writes the log, with exactly as many records in all as the plans say. Raises GeneratorError,
    LogError."""
    used = max((plan.producer_id for plan in plans), default=-1) + PRODUCERS_A_GROUP
    await sink.begin(world.partitions, world.topics, max(used, 1))
    # Groups come out a little short or long, and the next group makes up for it. The last one is
    # exact, which needs members until the end: `plan_groups` sees to that.
    last = plans[-1]
    by_partition: dict[int, list[GroupPlan]] = {}
    for plan in plans:
        by_partition.setdefault(partition_for(plan.name, world.partitions), []).append(plan)
    order = sorted(by_partition.items(), key=lambda entry: (last in entry[1], entry[0]))
    owed = records = batches = 0
    for partition, mine in order:
        turns: list[ScriptTurn] = []
        for plan in sorted(mine, key=lambda plan: plan is last):
            made = turns_of(plan, world, owed, exactly=plan is last)
            owed += plan.records - sum(turn.records for turn in made)
            turns += made
        placed = _placed(turns)
        await sink.write(partition, placed)
        batches += len(placed)
        records += placed[-1].last_offset + 1 if placed else 0
        if progress is not None:
            progress(records)
    ends = list(end_offsets(list(world.topics), world.start_ms, world.end_ms, world.end_points))
    await sink.ends(world.topics, ends)
    return Generated(records, batches, len(plans), len(world.topics))


def turns_of(
    plan: GroupPlan, world: GeneratedWorld, owed: int, *, exactly: bool = False
) -> list[ScriptTurn]:
    """All writes of one group, not in order. `owed`: how many records to make beyond the plan."""
    rng = Random(f"{world.seed}/group/{plan.name}")
    steps = steps_of(plan, world, rng)
    commits = plan.records + owed - sum(len(step.records) for step in steps)
    return Commits(plan, world, rng).turns(steps, commits, exactly=exactly)


def _placed(turns: list[ScriptTurn]) -> list[PlacedBatch]:
    """The turns sorted by time, each with its offset."""
    turns.sort(key=lambda turn: turn.at_ms)
    placed = []
    offset = 0
    for at_ms, count, payload in turns:
        assert len(payload) > HEADER_BYTES
        at_offset = offset.to_bytes(_OFFSET_BYTES, "big") + payload[_OFFSET_BYTES:]
        placed.append(PlacedBatch(offset, offset + count - 1, at_ms, at_offset))
        offset += count
    return placed
