"""An attack as an entry of a table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.attack.scene import Scene
from tests.attack.victim import Kind

ALL: tuple[Kind, ...] = ("groupd", "kafka", "kfake")


@dataclass(frozen=True, slots=True)
class Attack:
    """`what`: one line for the table. `prepare` runs before anything is measured; what it returns
    is given to `run`. `peers`: whom it can be done to. `soils`: what it leaves behind changes what
    comes after it, so the broker is not used again. `stands_still`: the process is stopped."""

    name: str
    what: str
    run: Callable[[Scene, Any], None]
    prepare: Callable[[Scene], Any] | None = None
    peers: tuple[Kind, ...] = ALL
    soils: bool = False
    stands_still: bool = False
    from_issue: bool = False
    newcomers: bool = True
    """Whether connections of honest clients that come anew are counted. Where there is no room for
    any, they have to wait."""
    doors: bool = False
    """Whether it needs the listeners with TLS and logins, and the admin port."""
    short_s: float = 0.0
    """In the short form the attack lasts at least so many seconds."""
    at_least_s: float = 0.0
    """In the long form (without `--quick`) the attack lasts at least so many seconds."""
