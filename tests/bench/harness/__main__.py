"""`python -m tests.bench.harness`: a fresh broker for a test, groupd and its peers side by side.
What it measures is printed, and kept in docs/benchmarks.json."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from tests.bench import results
from tests.bench.figures import Workload, interleaved, machine, table
from tests.bench.harness import measures
from tests.bench.harness.memory import BROKERS
from tests.bench.peers.embedded import KINDS, Kind

PROTOCOLS = ("classic", "consumer")
PART = "t"
"""The letter under which its results are kept."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.harness", description=__doc__)
    parser.add_argument("--runs", type=int, default=40, help="of start-up")
    parser.add_argument("--records", type=int, default=15, help="runs to the first record")
    parser.add_argument("--tests", type=int, default=200, help="tests with a fresh broker each")
    parser.add_argument(
        "--fresh", type=int, default=3, help="runs of memory and of those tests; 0: none"
    )
    parser.add_argument("--out", type=Path, default=results.IN_THE_TREE, help="where to keep it")
    options = parser.parse_args()
    command = shlex.join(["python", "-m", "tests.bench.harness", *sys.argv[1:]])
    run = results.this_run(command, quick=False)
    kept = results.load(options.out)
    kinds: dict[str, Kind] = {kind.name: kind(measures.TOPICS) for kind in KINDS}
    try:
        print(machine() + "\n")
        for workload in _workloads(kinds, options):
            print(table(workload), flush=True)
            kept.add(results.measured(PART, workload, run))
            kept.save(options.out)
    finally:
        for kind in kinds.values():
            kind.close()


def _workloads(kinds: Mapping[str, Kind], options: argparse.Namespace) -> Iterator[Workload]:
    names = list(kinds)
    for kind in kinds.values():  # imports, and pages of the libraries
        measures.start_ms(kind)
    started = interleaved(options.runs, names, lambda name: measures.start_ms(kinds[name]))
    where = {name: kind.where for name, kind in kinds.items()}
    yield Workload("A new broker to its first accepted connection", "ms", started, notes=where)
    for protocol in PROTOCOLS:
        notes: dict[str, str] = {}
        measure = _or_note(notes, lambda name, it=protocol: _record(kinds[name], it))
        samples = interleaved(options.records, names, measure)
        title = f"A new broker to the first record consumed, {protocol} protocol"
        yield Workload(title, "ms", samples, notes=notes)
    if not options.fresh:
        return
    memory = interleaved(options.fresh, names, measures.memory_mb)
    title = f"Memory of each of {BROKERS} brokers"
    yield Workload(title, "MB", memory, notes={"kfake, a process each": "its process"})
    fresh = interleaved(
        options.fresh,
        [*names, measures.NONE],
        lambda name: measures.pytest_s(name, options.tests),
    )
    title = f"A run of pytest: {options.tests} tests with a fresh broker each"
    yield Workload(title, "s", fresh)


def _record(kind: Kind, protocol: str) -> float:
    return measures.first_record_ms(kind, protocol)


def _or_note(
    notes: dict[str, str], measure: Callable[[str], float]
) -> Callable[[str], float | None]:
    def run(name: str) -> float | None:
        try:
            return measure(name)
        except measures.CannotDo as error:
            notes[name] = str(error)
            return None

    return run


if __name__ == "__main__":
    main()
