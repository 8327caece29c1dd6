"""`python -m tests.chaos --seconds 120`: chaos for as long as one likes."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.chaos.chaos import Chaos
from tests.clients.exactly_once import CLIENTS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", default=",".join(CLIENTS), help="one for each worker")
    parser.add_argument("--protocol", choices=("consumer", "classic"), default="consumer")
    parser.add_argument("--transaction-version", choices=("1", "2"), default="2")
    options = parser.parse_args()
    settings = {"groupd.transaction.version": options.transaction_version}
    directory = Path(tempfile.mkdtemp(prefix="groupd-chaos-"))
    print(f"seed {options.seed} in {directory}", flush=True)
    clients = options.clients.split(",")
    chaos = Chaos(directory, options.seed, clients, options.protocol, settings)
    try:
        chaos.run(options.seconds)
        print(chaos.summary(), flush=True)
    finally:
        (directory / "chaos.log").write_text(chaos.logs())
        chaos.close()


if __name__ == "__main__":
    main()
