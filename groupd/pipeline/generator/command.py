"""`groupd-pipeline generate`: a log to try the pipeline with."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from groupd.pipeline.generator.demo import demo_world
from groupd.pipeline.generator.generate import (
    PARTITIONS,
    Generated,
    Options,
    generate,
    plan_world,
)
from groupd.pipeline.generator.script import GeneratedWorld, GroupPlan
from groupd.pipeline.generator.sinks import GeneratorError, SegmentSink, Sink, StoreSink
from groupd.storage.log import LogError
from groupd.storage.open import create_store, database_file


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


Place = tuple[str | None, Path | None, Path | None]
"""The store URL, the data directory and the directory of segments, exactly one of which is
given."""


def place_of(store: str | None, data_dir: Path | None, segments: Path | None) -> Place:
    """Raises GeneratorError unless exactly one is given."""
    if sum(value is not None for value in (store, data_dir, segments)) != 1:
        raise GeneratorError("say where the log goes: one of --store, --data-dir and --segments")
    return store, data_dir, segments


@asynccontextmanager
async def open_sink(place: Place) -> AsyncIterator[Sink]:
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


async def _generate(world: GeneratedWorld, plans: Sequence[GroupPlan], place: Place) -> Generated:
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
