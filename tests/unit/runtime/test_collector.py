"""The cycle collector of a serving process: what outlives a full collection is left alone."""

from __future__ import annotations

import subprocess
import sys

SERVES = """
import gc
from groupd.coordinator.runtime import collector

gc.disable()
collector.keep(collector.FREEZE_RECORDS)
assert gc.get_freeze_count() == 0, "not a serving process yet"
collector.serve()
collector.serve()
assert gc.isenabled()
assert gc.get_threshold() == collector.THRESHOLDS
frozen = gc.get_freeze_count()
looked_at = []

def note(phase, info):
    if phase == "start" and info["generation"] == 2:
        looked_at.append(sum(len(gc.get_objects(g)) for g in range(3)))

gc.callbacks.append(note)
kept = [[] for _ in range(300_000)]
assert len(looked_at) >= 5, looked_at
assert max(looked_at) < 60_000, looked_at
assert gc.get_freeze_count() - frozen > 200_000
died = kept[:1000]
del kept[:1000]
before = gc.get_freeze_count()
del died
assert before - gc.get_freeze_count() == 1000, "frozen objects die as ever"
loaded = [[] for _ in range(100)]
before = gc.get_freeze_count()
collector.keep(collector.FREEZE_RECORDS)
assert gc.get_freeze_count() - before >= 100
"""


def test_every_full_collection_is_as_short_as_the_first() -> None:
    subprocess.run([sys.executable, "-c", SERVES], check=True, timeout=120)
