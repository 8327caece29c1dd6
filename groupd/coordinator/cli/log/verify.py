"""`groupd log verify`: looks for damage in a store or in segment files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from groupd.coordinator.cli.log.options import (
    DataDirOption,
    PathArgument,
    StoreOption,
    reading,
    run,
    where,
)

if TYPE_CHECKING:
    from groupd.coordinator.logtools.findings import Counts, Finding

EXIT_FINDINGS = 1


def verify(
    path: PathArgument = None,
    data_dir: DataDirOption = None,
    store: StoreOption = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Partitions of __consumer_offsets, to check segment files for groups in the wrong "
            "one; a store knows.",
        ),
    ] = None,
) -> None:
    """Check checksums, offsets, times, order, decoding and replay of every log.

    One line a finding, then a summary. Exit code 0: clean, 1: findings, 2: could not run. Reads
    beside a running daemon: nothing is locked or changed.
    """
    place = where(data_dir, store, path)
    findings: list[Finding] = []

    def found(finding: Finding) -> None:
        findings.append(finding)
        print(finding)

    counts = run(_verify(path, place, store, partitions, found))
    print(
        f"{len(findings)} findings in {counts.logs} logs: {counts.batches} batches, "
        f"{counts.records} records, {counts.groups} groups, {counts.offsets} offsets, "
        f"{counts.open_transactions} open transactions, {counts.share_partitions} share-partitions"
    )
    if findings:
        raise typer.Exit(EXIT_FINDINGS)


async def _verify(
    path: Path | None,
    data_dir: Path,
    store: str | None,
    partitions: int | None,
    found: Callable[[Finding], None],
) -> Counts:
    from groupd.coordinator.logtools.verify import verify_segments, verify_store

    if path is not None:
        return verify_segments(path, partitions, found)
    async with reading(store, data_dir) as reader:
        return await verify_store(reader, found)
