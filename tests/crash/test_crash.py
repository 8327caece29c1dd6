"""`kill -9` at random moments: what was acknowledged stays, what was refused stays away.

`make crash ROUNDS=1000` runs more rounds than these.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.crash.rounds import KINDS, Rounds
from tests.crash.stores import STORES

pytestmark = pytest.mark.crash

ROUNDS = 12
"""10 at least, so that there is a round of each kind."""
ROUND_TIMEOUT_S = 6


@pytest.mark.timeout(60 + ROUNDS * ROUND_TIMEOUT_S)
@pytest.mark.parametrize("store", sorted(STORES))
async def test_lg_06_nothing_acknowledged_is_lost_and_nothing_refused_appears(
    tmp_path: Path, store: str
) -> None:
    with STORES[store]() as arguments:
        rounds = Rounds(tmp_path / store, seed=7, store=arguments)
        try:
            await rounds.run(ROUNDS)
        finally:
            await rounds.close()
    # Otherwise it has shown little.
    assert rounds.commits > 20 * ROUNDS
    assert sum(committer.refusals for committer in rounds.committers) > ROUNDS
    assert sum(producer.acknowledged for producer in rounds.producers) > ROUNDS
    assert set(rounds.counts) == set(KINDS)
    assert all(worker.highest > 1 for worker in [*rounds.members, *rounds.classic])
    assert all(len(worker.accepted) > ROUNDS for worker in rounds.sharing)


async def test_a_store_that_forgets_is_found_out(tmp_path: Path) -> None:
    """The checks themselves: an older copy of a store must not pass."""
    directory = tmp_path / "store" / "data"
    with STORES["sqlite"]() as arguments:
        rounds = Rounds(tmp_path / "store", seed=3, store=arguments)
        committers, producers, members = rounds.committers, rounds.producers, rounds.members
        try:
            await rounds.run(1)
            shutil.copytree(directory, tmp_path / "older")
            offsets = {one: dict(one.acknowledged) for one in committers}
            stored = {one: one.stored for one in [*producers, *members]}

            def all_went_on() -> bool:
                return (
                    any(one.acknowledged != offsets[one] for one in committers)
                    and any(one.acknowledged > stored[one] for one in producers)
                    and any(one.highest > stored[one] for one in members)
                )

            # A round may end before anything is acknowledged to a kind of worker.
            for _ in range(ROUNDS):
                await rounds.run(1)
                if all_went_on():
                    break
            assert all_went_on()
            assert await rounds.losses() == set()
            shutil.rmtree(directory)
            shutil.copytree(tmp_path / "older", directory)
            assert await rounds.losses() >= {"Committer", "Producer", "ConsumerMember"}
        finally:
            await rounds.close()
