"""Brokers one after another leave nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BROKERS = 200
ROOT = Path(__file__).parents[2]

USES_MANY = """
import gc, json, os, socket, sys, threading

from groupd.testing import GroupCoordinator
from tests.bench.proc import resident_bytes


def use_one():
    with (
        GroupCoordinator.start(topics={"orders": 3}) as c,
        socket.create_connection((c.host, c.port), timeout=5),
    ):
        c.produce("orders", ["x"] * 5)
        assert len(c.records("orders")) == 5


def left():
    gc.collect()
    return {
        "threads": threading.active_count(),
        "files": len(os.listdir("/proc/self/fd")),
        "bytes": resident_bytes(os.getpid()),
    }


brokers = int(sys.argv[1])
for _ in range(brokers // 4):
    use_one()
before = left()
for _ in range(brokers):
    use_one()
print(json.dumps([before, left()]))
"""
"""A process of its own: what other tests have left in this one would count, too."""


def test_two_hundred_brokers_leave_no_threads_files_or_memory() -> None:
    run = subprocess.run(
        [sys.executable, "-c", USES_MANY, str(BROKERS)],
        check=True,
        timeout=300,
        cwd=ROOT,
        stdout=subprocess.PIPE,
    )
    before, after = json.loads(run.stdout)
    assert after.pop("bytes") < before.pop("bytes") + 5_000_000
    assert after == before
