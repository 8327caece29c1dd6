"""`kill -9` at random moments: what was acknowledged stays, what was refused stays away.

`make crash ROUNDS=1000` runs more rounds than these. GROUPD_CRASH_ROUNDS sets their number here.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.crash.rounds import KINDS, Rounds
from tests.crash.stores import STORES

pytestmark = pytest.mark.crash

ROUNDS = int(os.environ.get("GROUPD_CRASH_ROUNDS", "100"))
ROUND_TIMEOUT_S = 6


@pytest.mark.timeout(60 + ROUNDS * ROUND_TIMEOUT_S)
@pytest.mark.parametrize("store", sorted(STORES))
async def test_lg_06_nothing_acknowledged_is_lost_and_nothing_refused_appears(
    tmp_path: Path, store: str
) -> None:
    rounds = Rounds(tmp_path / store, seed=7, store=store)
    try:
        await rounds.run(ROUNDS)
    finally:
        await rounds.close()
    # Otherwise it has shown little.
    assert sum(committer.commits for committer in rounds.committers) > 20 * ROUNDS
    assert sum(committer.refusals for committer in rounds.committers) > ROUNDS
    assert sum(producer.acknowledged for producer in rounds.producers) > 20 * ROUNDS
    if ROUNDS >= 50:
        assert set(rounds.counts) == set(KINDS)
        assert all(member.highest > ROUNDS // 2 for member in rounds.members)
        assert all(member.highest > ROUNDS // 2 for member in rounds.classic)


@pytest.mark.parametrize("workers", ["committers", "producers", "members", "classic"])
async def test_a_store_that_forgets_is_found_out(tmp_path: Path, workers: str) -> None:
    """The checks themselves: an older copy of a store must not pass."""
    rounds = Rounds(tmp_path / "store", seed=3, store="sqlite")
    directory = tmp_path / "store" / "data"
    try:
        await rounds.run(1)
        shutil.copytree(directory, tmp_path / "older")
        await rounds.run(3)
        shutil.rmtree(directory)
        shutil.copytree(tmp_path / "older", directory)
        chosen = getattr(rounds, workers)
        for kind in ("committers", "producers", "members", "classic"):
            if kind != workers:
                getattr(rounds, kind).clear()
        assert chosen
        # By the check after the start, or by what the load is told.
        with pytest.raises((AssertionError, ExceptionGroup)) as lost:
            await rounds.run(1)
        if isinstance(lost.value, ExceptionGroup):
            assert lost.value.subgroup(AssertionError) is not None
    finally:
        await rounds.close()
