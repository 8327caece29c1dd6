"""Shows in one line of the terminal what Spark is doing: stages and their tasks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

_INTERVAL_S = 0.3


def running(spark: SparkSession) -> tuple[int, int, int]:
    """The number of running stages, how many of their tasks are done, and how many tasks they
    have."""
    tracker = spark.sparkContext.statusTracker()
    stages = done = total = 0
    for number in tracker.getActiveStageIds():
        info = tracker.getStageInfo(number)
        if info is not None:
            stages += 1
            done += info.numCompletedTasks
            total += info.numTasks
    return stages, done, total


@contextmanager
def shown(spark: SparkSession, console: Console, what: str) -> Iterator[None]:
    """Shows the progress while the body runs, if the output is a terminal."""
    if not console.is_terminal:
        yield
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("tasks"),
        TimeElapsedColumn(),
    )
    ended = threading.Event()
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task(what, total=None)

        def follow() -> None:
            while not ended.wait(_INTERVAL_S):
                stages, done, total = running(spark)
                if stages:
                    said = f"{what}: {stages} stage{'s' if stages > 1 else ''}"
                    progress.update(bar, description=said, completed=done, total=total)

        thread = threading.Thread(target=follow, name="progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
