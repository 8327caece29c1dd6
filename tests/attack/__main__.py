"""`python -m tests.attack`: attacks beside honest clients, as a table."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

from tests.attack import table
from tests.attack.arena import STOPPED_S, Arena
from tests.attack.attack import Attack
from tests.attack.attacks import ATTACKS
from tests.attack.peers import Setup, Stores, running, store
from tests.attack.results import Row, load, save

ALONE = ("groupd", "kafka", "kfake")
TOGETHER = "all at once"
BEFORE_LOGIN = "all before the login"
AT_ONCE = (
    "DescribeGroups, 2 MB",
    "half frames",
    "mutated frames",
    "connection storm",
    "tiny batches",
    "many groups",
    "slowloris",
    "deep pipeline",
    "metadata",
    "zstd bomb",
)
STRANGERS = (
    "empty frames, before the login",
    "zeros without end, before the login, TLS",
    "frames of 10 bytes, before the login",
    "unknown versions, before the login, TLS",
    "unfinished frames, before the login",
    "records of one byte, before the login, TLS",
    "unfinished handshakes",
    "large tokens",
    "guesses of a neighbour",
    "wrong admin tokens",
    "foreign Host",
)
ROWS_OF_SEVERAL = {TOGETHER: AT_ONCE, BEFORE_LOGIN: STRANGERS}


def chosen(only: Sequence[str], from_issue: bool) -> list[Attack]:
    """The attacks whose names match, in the order of the table."""
    wanted = [attack for attack in ATTACKS.values() if attack.from_issue or not from_issue]
    if not only:
        return wanted
    found = [attack for attack in wanted if any(fnmatch(attack.name, one) for one in only)]
    if not found and not ROWS_OF_SEVERAL.keys() & set(only):
        raise SystemExit(f"no such attack: {', '.join(only)}; --list shows them")
    return found


def rows(
    setup: Setup, options: argparse.Namespace, directory: Path, stores: Stores
) -> Iterator[Row]:
    """The row of each attack, each on a fresh broker, so that none finds what another has left."""
    plan = [(attack.name, [attack]) for attack in chosen(options.only, options.issue)]
    for name, names in ROWS_OF_SEVERAL.items():
        if not options.only or name in options.only:
            plan.append((name, [ATTACKS[one] for one in names]))
    for number, (name, attacks) in enumerate(plan):
        if not all(setup.kind in attack.peers for attack in attacks):
            continue
        place = directory / f"{number}"
        least = [attack.at_least_s for attack in attacks]
        if options.quick:
            least = [STOPPED_S if one.stands_still else one.short_s for one in attacks]
        seconds = max(options.seconds, *least, 0.0)
        try:
            with running(setup, place, stores) as broker:
                arena = Arena(broker, setup.name)
                try:
                    row = arena.attack(attacks, seconds, settle=not options.quick)
                finally:
                    arena.close()
        except (RuntimeError, AssertionError, OSError) as error:
            row = Row(name, setup.name, seconds, failed=f"not started: {str(error)[:200]}")
        row.attack = name
        with suppress(OSError):
            shutil.rmtree(place / "data", ignore_errors=True)
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="attacks by name; * stands for any")
    parser.add_argument("--issue", action="store_true", help="only those that once did harm")
    parser.add_argument("--seconds", type=float, default=10, help="of each attack")
    parser.add_argument("--quick", action="store_true", help="do not wait for memory to come back")
    parser.add_argument("--peer", choices=(*ALONE, "all"), default="groupd")
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--nodes", type=int, default=1, help="a cluster, over PostgreSQL")
    parser.add_argument("--watch", action="store_true", help="what keeps groupd's loop busy")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--json", type=Path, help="write the rows there; those in it stay")
    parser.add_argument(
        "--render", type=Path, nargs="+", metavar="FILE", help="such files as one Markdown table"
    )
    parser.add_argument("--list", action="store_true", help="the attacks")
    options = parser.parse_args()
    if options.list:
        print("\n".join(f"{attack.name}: {attack.what}" for attack in ATTACKS.values()))
        return
    what = {attack.name: attack.what for attack in ATTACKS.values()}
    if options.render is not None:
        found = [row for path in options.render for row in load(path)]
        print(table.side_by_side(found, what))
        return
    sys.exit(run(options))


def run(options: argparse.Namespace) -> int:
    """The exit code: 1 if groupd has missed a bar."""
    found = load(options.json) if options.json is not None and options.json.exists() else []
    settings = dict(one.split("=", 1) for one in options.set)
    missed = 0
    with tempfile.TemporaryDirectory(prefix="groupd-attack-") as directory:
        for kind in ALONE if options.peer == "all" else (options.peer,):
            ours = kind == "groupd"
            cluster = options.nodes > 1
            setup = Setup(
                kind,
                ("postgres" if cluster else options.store) if ours else "sqlite",
                settings if ours else {},
                options.watch and ours,
                options.nodes if ours else 1,
            )
            print(f"\n{setup.name}\n\n{table.HEAD}", flush=True)
            with store(setup.store) as stores:
                for row in rows(setup, options, Path(directory) / kind, stores):
                    print(table.line(row), flush=True)
                    for ms, piece in row.pieces:
                        print(f"  {ms:8.1f} ms {piece}", flush=True)
                    missed += bool(ours and row.misses())
                    found = [
                        one for one in found if (one.attack, one.peer) != (row.attack, row.peer)
                    ]
                    found.append(row)
                    if options.json is not None:
                        save(found, options.json)
    if options.peer in ("groupd", "all"):
        print(f"\n{missed} rows of groupd miss a bar" if missed else "\nall bars are reached")
    return 1 if missed else 0


if __name__ == "__main__":
    main()
