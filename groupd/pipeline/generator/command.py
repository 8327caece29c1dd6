"""`groupd-pipeline generate`: a log to try the pipeline with, written to a sink one partition of
`__consumer_offsets` after the other.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Annotated

import typer
from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from groupd.coordinator.core.partitioning import partition_for
from groupd.pipeline.generator.commits import Commits
from groupd.pipeline.generator.demo import demo_world
from groupd.pipeline.generator.members import steps_of
from groupd.pipeline.generator.profiles import DAY_MS, PRODUCERS_A_GROUP, plan_groups
from groupd.pipeline.generator.script import (
    GeneratedWorld,
    GroupPlan,
    ScriptTurn,
    end_offsets,
    make_topics,
)
from groupd.pipeline.generator.sinks import (
    GeneratorError,
    PlacedBatch,
    SegmentSink,
    Sink,
    StoreSink,
)
from groupd.protocol.records.batch import HEADER_BYTES
from groupd.storage.log import LogError
from groupd.storage.open import create_store, database_file

UNTIL_MS = 1_768_176_000_000
"""2026-01-12T00:00:00Z. It is fixed, so that the seed alone determines the log."""

PARTITIONS = 50
_GROUPS_A_TOPIC = 8
_OFFSET_BYTES = 8

OnProgress = Callable[[int], None]
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
    """How much was written."""

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
    world: GeneratedWorld,
    plans: Sequence[GroupPlan],
    sink: Sink,
    progress: OnProgress | None = None,
) -> Generated:
    """Writes the log, with exactly as many records in all as the plans say. Raises GeneratorError,
    LogError."""
    used = max((plan.producer_id for plan in plans), default=-1) + PRODUCERS_A_GROUP
    await sink.begin(world.partitions, world.topics, max(used, 1))
    # A group has a few records more or less than planned, and the next group makes up for it. The
    # last group is exact. For that it needs members until the end, which `plan_groups` gives it.
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


def generate_command(
    records: Annotated[int, typer.Option(min=100, help="How many records.")] = 100_000,
    groups: Annotated[int, typer.Option(min=1, help="How many groups.")] = 50,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal logs.")] = 0,
    days: Annotated[float, typer.Option(min=0.1, help="How much history.")] = 7.0,
    until: Annotated[
        str, typer.Option(help="When the history ends: ISO 8601 in UTC, or now.")
    ] = "2026-01-12T00:00:00",
    partitions: Annotated[int, typer.Option(min=1, help="Of __consumer_offsets.")] = PARTITIONS,
    store: Annotated[
        str | None, typer.Option(help="URL of the store to write to, which must be empty.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Data directory of a daemon, instead of a store.")
    ] = None,
    segments: Annotated[
        Path | None, typer.Option(help="Directory for segment files, instead of a store.")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="The demo log; only --until and the target count.")
    ] = False,
) -> None:
    """Generate a log of groups of both protocols: members that come and go, commits that move on,
    get stuck or are reset, transactions, days of history. `groupd serve` loads it."""
    until_ms = _time_ms(until)
    if demo:
        world, plans = demo_world(until_ms)
    else:
        world, plans = plan_world(Options(records, groups, seed, days, until_ms, partitions))
    place = place_of(store, data_dir, segments)
    started = time.perf_counter()
    try:
        with _collector_at_rest():
            done = asyncio.run(_generate(world, plans, place))
    except LogError as error:
        raise GeneratorError(str(error)) from error
    seconds = time.perf_counter() - started
    print(
        f"{done.records} records in {done.batches} batches of {done.groups} groups and "
        f"{done.topics} topics, in {seconds:.1f} s ({done.records / seconds:,.0f} a second)"
    )


def _time_ms(text: str) -> int:
    if text == "now":
        return int(datetime.now(UTC).timestamp() * 1000)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise GeneratorError(f"{text} is not a time: write ISO 8601, or now") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


LogTarget = tuple[str | None, Path | None, Path | None]
"""The store URL, the data directory and the directory of segments, exactly one of which is
given."""


def place_of(store: str | None, data_dir: Path | None, segments: Path | None) -> LogTarget:
    """The one place that is given. Raises GeneratorError unless there is exactly one."""
    if sum(value is not None for value in (store, data_dir, segments)) != 1:
        raise GeneratorError("say where the log goes: one of --store, --data-dir and --segments")
    return store, data_dir, segments


@asynccontextmanager
async def open_sink(place: LogTarget) -> AsyncIterator[Sink]:
    """Opens the sink for a place. Raises GeneratorError, LogError."""
    url, data_dir, segments = place
    if segments is not None:
        yield SegmentSink(segments)
        return
    directory = data_dir or Path()
    file = database_file(url, directory)
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
    store = create_store(url, directory)
    await store.start()
    try:
        yield StoreSink(store)
    finally:
        await store.close()


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """Switches the garbage collector off: the generator makes too few cycles to be worth its walks
    over everything that is kept."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _generate(
    world: GeneratedWorld, plans: Sequence[GroupPlan], place: LogTarget
) -> Generated:
    bar = Progress(
        TextColumn("generating"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    async with open_sink(place) as sink:
        with bar:
            task = bar.add_task("", total=sum(plan.records for plan in plans))
            return await generate(
                world, plans, sink, lambda records: bar.update(task, completed=records)
            )
