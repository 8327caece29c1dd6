"""What the system says of processes (Linux), beside `coordinator.cli.process`."""

from __future__ import annotations

import os
from pathlib import Path


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
