"""`python -m tests.chaos.cluster --seconds 1800`: chaos with a cluster for as long as one likes."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.chaos.cluster.chaos import ClusterChaos
from tests.chaos.cluster.events import KINDS
from tests.clients.exactly_once import CLIENTS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.cluster", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", default=",".join(CLIENTS), help="exactly-once loops, by comma")
    parser.add_argument("--only", default="", help=f"some of {', '.join(KINDS)}, by comma")
    options = parser.parse_args()
    chosen = {name: KINDS[name] for name in options.only.split(",") if name}
    directory = Path(tempfile.mkdtemp(prefix="groupd-chaos-"))
    print(f"seed {options.seed} in {directory}", flush=True)
    workers = [name for name in options.workers.split(",") if name]
    chaos = ClusterChaos(directory, options.seed, workers, chosen or KINDS)
    try:
        chaos.run(options.seconds)
        print(chaos.summary(), flush=True)
    finally:
        (directory / "chaos.log").write_text(chaos.logs())
        chaos.close()


if __name__ == "__main__":
    main()
