"""`python -m tests.crash --rounds 1000`: the crash tests for as long as one likes."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path

from tests.crash.rounds import Rounds
from tests.crash.stores import STORES, Arguments

ROUNDS_PER_STORE = 200
"""After so many rounds there is a new store: loading would take longer and longer, and crashes are
what is wanted."""


async def run(directory: Path, rounds: int, seed: int, store: Arguments) -> None:
    for first in range(0, rounds, ROUNDS_PER_STORE):
        world = Rounds(directory / f"from-{first}", seed + first, store)
        began = time.monotonic()
        try:
            await world.run(min(ROUNDS_PER_STORE, rounds - first))
        finally:
            await world.close()
        print(summary(world, time.monotonic() - began), flush=True)


def summary(world: Rounds, seconds: float) -> str:
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(world.counts.items()))
    refusals = sum(committer.refusals for committer in world.committers)
    records = sum(producer.acknowledged for producer in world.producers)
    repeated = sum(producer.repeated for producer in world.producers)
    accepted = sum(len(member.accepted) for member in world.sharing)
    return (
        f"{sum(world.counts.values())} rounds ({kinds}) in {seconds:.0f} s: {world.commits} "
        f"commits acknowledged and {refusals} refused, {records} records produced, "
        f"{repeated} batches sent again, {accepted} records accepted; "
        f"slowest start {max(world.starts_s) * 1000:.0f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=sorted(STORES), default="sqlite")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="groupd-crash-"))
    print(f"seed {options.seed}, store {options.store} in {directory}", flush=True)
    with STORES[options.store]() as store:
        asyncio.run(run(directory, options.rounds, options.seed, store))


if __name__ == "__main__":
    main()
