"""Does nothing but sleep, and measures how late it wakes: what any process of this machine waits
for a processor, whatever groupd does.

`python -m tests.attack.witness` prints a `Testimony` once its standard input ends.
"""

from __future__ import annotations

import select
import sys
import time

import msgspec

from tests.attack.waits import Spread

SLEEP_S = 0.005


class Testimony(msgspec.Struct):
    """How late it woke."""

    wakes: int
    late: Spread


def main() -> None:
    late = []
    while True:
        began = time.monotonic()
        if select.select([sys.stdin], [], [], SLEEP_S)[0]:
            break
        late.append(max(time.monotonic() - began - SLEEP_S, 0.0))
    print(msgspec.json.encode(Testimony(len(late), Spread.of(late))).decode(), flush=True)


if __name__ == "__main__":
    main()
