"""`python -m tests.fuzz --seconds 120`: the campaign for as long as one likes.

A quarter of the time goes to the guided part, if atheris is there. `--keep` adds what that has
found to the kept streams.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.fuzz import corpus, guide
from tests.fuzz.campaign import Campaign, Plan
from tests.fuzz.figures import figures

GUIDED = 0.25


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--frames", type=int, default=0, help="ends after so many; 0: never")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--connections", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--watched", action="store_true", help="notes what keeps the loop busy")
    parser.add_argument("--unguided", action="store_true", help="without atheris")
    parser.add_argument("--store", default="", help="instead of SQLite: memory://")
    parser.add_argument("--keep", action="store_true", help="writes the kept streams anew")
    # In memory, so that nobody waits for the disk of a busy machine.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    parser.add_argument("--under", default=memory, help="where to make groupd's directory")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="groupd-fuzz-", dir=options.under))
    print(f"seed {options.seed} in {directory}", flush=True)
    guided = GUIDED * options.seconds
    if options.unguided or not guide.available():
        print("without the guided part", flush=True)
        guided = 0.0
    plan = Plan(
        options.seconds - guided,
        options.frames,
        options.processes,
        options.connections,
        options.seed,
        options.watched,
        guided,
        options.store,
    )
    campaign = Campaign(plan, directory)
    verdict = campaign.run(sys.stdout)
    print(figures(verdict))
    if options.keep and guided and not verdict.wrong:
        corpus.keep(corpus.read(campaign.streams))
    sys.exit(bool(verdict.wrong or verdict.honest_lost))


if __name__ == "__main__":
    main()
