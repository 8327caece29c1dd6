"""`groupd log export`: writes the logs of groups as Kafka's segment files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groupd.coordinator.cli.log.options import (
    DataDirOption,
    GroupsOption,
    PathArgument,
    StoreOption,
    reading,
    run,
    where,
)
from groupd.coordinator.cli.parse import one_of

if TYPE_CHECKING:
    from groupd.coordinator.logtools.exporting import ExportOptions


def export(
    target: Annotated[
        Path, typer.Option("--to", help="Directory for the partitions' directories.")
    ],
    path: PathArgument = None,
    data_dir: DataDirOption = None,
    store: StoreOption = None,
    groups: GroupsOption = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Partitions of __consumer_offsets in the target, when not as here: writes the "
            "latest records only, by the target's hashing.",
        ),
    ] = None,
    topic_ids: Annotated[
        str,
        typer.Option(
            help="drop: offsets are found by topic name in any cluster; keep: bytes as they are."
        ),
    ] = "drop",
) -> None:
    """Write groups, offsets and share groups' state as Kafka's segment files, readable by
    kafka-dump-log and brokers.

    Reads beside a running daemon: nothing is locked or changed.
    """
    from groupd.coordinator.logtools.exporting import ExportOptions

    one_of(topic_ids, "--topic-ids", ("drop", "keep"))
    place = where(data_dir, store, path)
    options = ExportOptions(frozenset(groups or ()), partitions, topic_ids == "keep")
    run(_export(path, place, store, target, options))


async def _export(
    path: Path | None, data_dir: Path, store: str | None, target: Path, options: ExportOptions
) -> None:
    from groupd.coordinator.logtools.exporting import export_log
    from groupd.coordinator.logtools.importing import partitions_of
    from groupd.coordinator.logtools.logs import LOGS
    from groupd.coordinator.logtools.segments import SegmentSource, StoreSource

    if path is not None:
        done = [await export_log(SegmentSource(path, log), None, target, options) for log in LOGS]
    else:
        async with reading(store, data_dir) as reader:
            count = await partitions_of(reader)
            done = [
                await export_log(StoreSource(reader, log), count, target, options) for log in LOGS
            ]
    records, batches, partitions = (
        sum(getattr(one, name) for one in done) for name in ("records", "batches", "partitions")
    )
    print(f"exported {records} records in {batches} batches of {partitions} partitions to {target}")
