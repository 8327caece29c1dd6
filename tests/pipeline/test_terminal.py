from __future__ import annotations

import threading
from io import StringIO
from pathlib import Path

from pyspark.sql import SparkSession
from rich.console import Console

from groupd.pipeline.command import running, shown
from tests.support.process import wait_until


def test_running_stages_and_their_tasks_are_shown(spark: SparkSession, tmp_path: Path) -> None:
    gate = tmp_path / "gate"

    def wait(number: int) -> int:
        import time

        for _ in range(1200):
            if gate.exists():
                break
            time.sleep(0.05)
        return number

    screen = StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    work = spark.sparkContext.parallelize([1, 2], 2).map(wait)
    thread = threading.Thread(target=work.collect)
    with shown(spark, console, "waiting"):
        thread.start()
        wait_until(lambda: running(spark)[0] == 1, 60, "the stage runs")
        assert running(spark)[1:] == (0, 2)
        wait_until(lambda: "waiting: 1 stage" in screen.getvalue(), 60, "it is shown")
        gate.touch()
        thread.join()
    assert "0/2" in screen.getvalue()


def test_nothing_is_shown_to_nobody(spark: SparkSession) -> None:
    screen = StringIO()
    with shown(spark, Console(file=screen), "working"):
        assert spark.range(3).count() == 3
    assert screen.getvalue() == ""
