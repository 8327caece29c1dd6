"""The result of an attack, and the limits that it must stay within."""

from __future__ import annotations

from pathlib import Path

import msgspec

from tests.attack.scene import Got
from tests.attack.waits import Wait

WAIT_S = 0.25
PEAK_BYTES = 512 << 20
BACK_WITHIN = 1.2
BACK_S = 60.0
"""The bars of every row: these, that no honest member is fenced, and that a cluster keeps its
leases. A wait is compared with the longest one just before, when nobody attacked."""


class Row(msgspec.Struct):
    """One attack on one broker. Bytes are resident ones: `before` and `after` of all its processes,
    `peak` of the largest; `back_s`: until the memory was back (None: nobody waited for it);
    `over_time`: (seconds since the begin, bytes of all its processes). `processor_s`: what they
    used during the attack. `waits`: the longest ones of the honest clients, `idle_s`: the longest
    before the attack. `leases`: what has changed in a cluster. `pieces`: (milliseconds of
    processor, what) of the longest pieces of work in one go, where groupd was watched. `failed`:
    why there is no more to tell."""

    attack: str
    peer: str
    seconds: float
    waits: list[Wait] = []
    requests: int = 0
    fenced: list[tuple[str, str]] = []
    lost: list[tuple[str, str]] = []
    ledger: list[str] = []
    before: int = 0
    peak: int = 0
    together: int = 0
    after: int = 0
    back_s: float | None = None
    logged: int = 0
    answers: bool = True
    got: Got = msgspec.field(default_factory=Got)
    pieces: list[tuple[float, str]] = []
    failed: str = ""
    idle_s: float = 0.0
    processor_s: float = 0.0
    over_time: list[tuple[float, int]] = []
    leases: list[str] = []
    stands_still: bool = False
    """The attack stops the process itself, so long waits are no miss."""

    @property
    def wait_s(self) -> float:
        return max((wait.seconds for wait in self.waits), default=0.0)

    @property
    def whole_s(self) -> float:
        """The longest wait, with what the machine took of it."""
        return max((wait.whole for wait in self.waits), default=0.0)

    @property
    def blamed(self) -> list[str]:
        """What the attacker asked while honest requests waited for too long."""
        found: dict[str, None] = {}
        for wait in self.waits:
            if wait.seconds - self.idle_s > WAIT_S:
                during = [
                    what
                    for at, seconds, what in self.got.asked
                    if at < wait.at + wait.whole and wait.at < at + seconds
                ]
                found |= dict.fromkeys(during[:3])
        return list(found) if len({what for *_, what in self.got.asked}) > 1 else []

    @property
    def members_fenced(self) -> int:
        return len({name for name, _ in self.fenced})

    def misses(self) -> list[str]:
        """The bars that it does not reach, in words."""
        missed = []
        if self.failed:
            missed.append(self.failed)
        if not self.answers:
            missed.append("it does not answer any more")
        if not self.requests and not self.failed:
            missed.append("the honest had no answer at all")
        if self.fenced:
            missed.append(f"{self.members_fenced} members fenced")
        if self.ledger:
            missed.append(f"acknowledged commits: {'; '.join(self.ledger[:2])[:200]}")
        if self.lost:
            of = ", ".join(sorted({name.removeprefix("honest-") for name, _ in self.lost}))
            why = self.lost[0][1]
            missed.append(f"{len(self.lost)} connections of honest clients lost ({of}): {why}")
        if self.leases:
            missed.append(f"the cluster: {'; '.join(self.leases[:3])}")
        missed += self.got.missed
        if self.wait_s - self.idle_s > WAIT_S and not self.stands_still:
            during = f" during {', '.join(self.blamed[:8])}" if self.blamed else ""
            missed.append(f"an honest request waited {self.wait_s:.2f} s{during}")
        if self.peak > PEAK_BYTES:
            missed.append(f"{self.peak >> 20} MB")
        if self.back_s is not None and self.after > BACK_WITHIN * self.before:
            missed.append(f"{self.after >> 20} MB left of {self.before >> 20} MB before")
        return missed


def save(rows: list[Row], path: Path) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(rows), indent=1))


def load(path: Path) -> list[Row]:
    return msgspec.json.decode(path.read_bytes(), type=list[Row])
