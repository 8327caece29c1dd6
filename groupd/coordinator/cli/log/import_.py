"""`groupd log import`: brings in groups and offsets from another cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groupd.coordinator.cli.log.options import GroupsOption, StoreOption, run, where
from groupd.coordinator.cli.parse import directory, topic

if TYPE_CHECKING:
    from groupd.coordinator.logtools.importing import ImportOptions, ImportPlan, States, Target
    from groupd.storage.log import LogState


def import_log(
    source: Annotated[
        Path,
        typer.Option(
            "--from",
            help="Segment file, partition directory, Kafka log directory, consumed copy, or a file "
            "of JSON objects.",
        ),
    ],
    into_data_dir: Annotated[
        Path | None,
        typer.Option(
            parser=directory, metavar="DIR", help="Data directory to fill; default ./groupd-data."
        ),
    ] = None,
    store: StoreOption = None,
    groups: GroupsOption = None,
    merge: Annotated[
        bool, typer.Option(help="Into a store that has groups: add those that are not there yet.")
    ] = False,
    create_topics: Annotated[
        bool, typer.Option(help="Create the topics of the groups, under their ids in the source.")
    ] = False,
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", help="NAME:PARTITIONS of a topic to create, when the source knows less."
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, help="offsets.topic.num.partitions of a new store; default 50."),
    ] = None,
    dry_run: Annotated[bool, typer.Option(help="Write nothing, say what would be.")] = False,
) -> None:
    """Import groups and offsets of a Kafka cluster (or another groupd). Stop the daemon first.

    Takes the state at the end of the source: the newest record per key, transactions resolved.
    Groups go to the partition that their id hashes to here.
    """
    from groupd.coordinator.logtools.importing import ImportOptions

    place = where(into_data_dir, store)
    options = ImportOptions(merge, create_topics, partitions, dict(map(topic, topics or ())))
    run(_import(source, frozenset(groups or ()), place, store, options, dry_run))


async def _import(
    source: Path,
    groups: frozenset[str],
    data_dir: Path,
    url: str | None,
    options: ImportOptions,
    dry_run: bool,
) -> None:
    from groupd.coordinator.logtools.importing import plan_import, write_plan
    from groupd.coordinator.logtools.latest import Tally, latest_of
    from groupd.coordinator.logtools.logs import SHARE_STATE_LOG
    from groupd.coordinator.logtools.record_json import latest_of_json
    from groupd.coordinator.logtools.segments import SegmentSource, is_segment
    from groupd.coordinator.logtools.share_state import LatestState
    from groupd.coordinator.logtools.topic_ids import described_topics

    tally = Tally()
    if source.is_file() and not is_segment(source):
        kept = latest_of_json(source, groups, tally)
        state = latest_of_json(source, groups, tally, LatestState)
    else:
        kept = await latest_of(SegmentSource(source), groups, tally)
        logged = SegmentSource(source, SHARE_STATE_LOG)
        state = await latest_of(logged, groups, tally, LatestState)
    described = described_topics(source)
    async with _target(url, data_dir, dry_run) as (target, states):
        plan = await plan_import(kept, tally, described, target, states, options, state)
        if not dry_run and target is not None:
            await write_plan(plan, target)
    for line in report(plan, dry_run):
        print(line)


@asynccontextmanager
async def _target(
    url: str | None, data_dir: Path, dry_run: bool
) -> AsyncIterator[tuple[Target | None, States]]:
    """Yields the locked store. For a dry run it is a reader, or None if there is no store yet."""
    from groupd.storage.open import create_reader, create_store, database_file

    reader = create_reader(url, data_dir)  # raises an error for a store in memory
    if not dry_run:
        store = create_store(url, data_dir)
        await store.start()
        try:
            yield store, store.open_many
        finally:
            await store.close()
        return

    file = database_file(url, data_dir)
    if file is not None and not file.is_file():
        yield None, _no_states
        return
    await reader.start()

    async def states(names: Sequence[str]) -> Mapping[str, LogState]:
        return {state.name: state for state in await reader.states() if state.name in set(names)}

    try:
        yield reader, states
    finally:
        await reader.close()


async def _no_states(_: Sequence[str]) -> Mapping[str, LogState]:
    return {}


def report(plan: ImportPlan, dry_run: bool) -> list[str]:
    """Returns lines that say what the import did, or would do."""
    tally = plan.tally
    verb = "would import" if dry_run else "imported"
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(plan.groups.items()))
    groups = sum(plan.groups.values())
    what = f"{groups} groups{f' ({kinds})' if kinds else ''} with {plan.offsets} offsets"
    size = f"{plan.count} of {tally.read} records, into {plan.partitions} partitions"
    lines = [f"{verb} {what}: {size}"]
    created = "to be created" if dry_run else "created"
    lines += [
        f"  topic {one.name}: {created} with {one.partitions} partitions" for one in plan.created
    ]
    if plan.missing:
        lines.append(
            f"  topics that are not here: {', '.join(plan.missing)}; their offsets are found by "
            "name once there is such a topic (--create-topics creates them now)"
        )
    if plan.kept_here:
        lines.append(f"  left as they are here: groups {', '.join(plan.kept_here)}")
    if tally.aborted:
        lines.append(f"  left out: {tally.aborted} offsets of aborted transactions")
    if tally.open_records:
        lines.append(
            f"  left out: {tally.open_records} offsets of {len(tally.open_producers)} transactions "
            "that had not ended"
        )
    if tally.other_groups:
        lines.append(
            f"  left out: {len(tally.other_groups)} streams groups, which groupd does not have"
        )
    for kind, count in sorted(tally.unknown_types.items()):
        lines.append(
            f"  left out: {count} records of the unknown type {kind.removeprefix('type-')}"
        )
    return lines
