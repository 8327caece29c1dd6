"""A process that attacks: `python -m tests.attack.attacker NAME VICTIM SECONDS`, told by lines of
its standard input. It prepares, says "prepared", and waits for "begin SECONDS"; its answer is
`Got`."""

from __future__ import annotations

import contextlib
import os
import resource
import sys

import msgspec

from tests.attack.attacks import ATTACKS
from tests.attack.scene import Ended, Scene
from tests.attack.victim import Victim

NICENESS = 5
"""Real attackers have machines of their own: the broker comes first here."""


def main() -> None:
    name, told, lasts = sys.argv[1:]
    os.nice(NICENESS)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    attack = ATTACKS[name]
    scene = Scene(msgspec.json.decode(told.encode(), type=Victim), float(lasts))
    state = None
    with contextlib.suppress(Ended):
        state = attack.prepare(scene) if attack.prepare is not None else None
    print("prepared", flush=True)
    _, seconds = sys.stdin.readline().split()
    scene.begin(float(seconds))
    with contextlib.suppress(Ended):
        attack.run(scene, state)
    print(msgspec.json.encode(scene.got).decode(), flush=True)


if __name__ == "__main__":
    main()
