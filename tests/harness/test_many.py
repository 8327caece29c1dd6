"""Brokers one after another leave nothing behind."""

from __future__ import annotations

import gc
import os
import socket
import threading
from pathlib import Path

from groupd.testing import GroupCoordinator

BROKERS = 200


def use_one() -> None:
    with (
        GroupCoordinator.start(topics={"orders": 3}) as c,
        socket.create_connection((c.host, c.port), timeout=5),
    ):
        c.produce("orders", ["x"] * 5)
        assert len(c.records("orders")) == 5


def left() -> tuple[int, int]:
    return threading.active_count(), len(os.listdir("/proc/self/fd"))


def resident_kib() -> int:
    gc.collect()  # A worker with many objects looks for cycles late.
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def test_two_hundred_brokers_leave_no_threads_files_or_memory() -> None:
    for _ in range(BROKERS // 4):
        use_one()
    before_kib, before = resident_kib(), left()
    for _ in range(BROKERS):
        use_one()
    assert resident_kib() < before_kib + 20_000
    assert left() == before
