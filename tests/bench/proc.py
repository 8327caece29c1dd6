"""What the system says of processes (Linux)."""

from __future__ import annotations

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_USER_TIME = 11
"""The index of the user time among the fields behind the name. Behind it are the system time, and
both of the children that ended and were waited for."""


def cpu_seconds(pid: int, *, waited_for: bool = False) -> float:
    """User and system time of a process so far (Linux). `waited_for`: with those of the children
    that ended and that it has waited for. Raises OSError."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    count = 4 if waited_for else 2
    return sum(map(int, fields[_USER_TIME : _USER_TIME + count])) / _TICKS


def resident_bytes(pid: int) -> int:
    """The resident bytes of a process. Raises OSError."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def descendants(root: int) -> list[int]:
    """`root` and all below it."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                stat = Path(f"/proc/{name}/stat").read_text()
            except OSError:
                continue
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, ())
    return found


def memory(pid: int) -> tuple[int, int]:
    """Resident and proportional bytes (what is mapped by several processes counts in parts); of a
    process that has ended but not been waited for (0, 0). Raises OSError."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    kib = {line.split()[0]: int(line.split()[1]) for line in lines[1:] if line.endswith("kB")}
    return kib.get("Rss:", 0) * 1024, kib.get("Pss:", 0) * 1024
