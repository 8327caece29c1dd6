"""What a crash test needs to know of a store: how a daemon is told of it, and how one is made.

Another store is another entry of `STORES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

Arguments = Callable[[Path], list[str]]
"""An empty directory -> the flags that make a daemon keep its data in a store of its own, the
same one for every start."""


def sqlite_arguments(directory: Path) -> list[str]:
    return ["--data-dir", str(directory / "data")]


STORES: Mapping[str, Arguments] = {"sqlite": sqlite_arguments}
