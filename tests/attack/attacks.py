"""All attacks by name."""

from __future__ import annotations

from collections.abc import Mapping

from tests.attack import (
    attacks_bytes,
    attacks_frames,
    attacks_lists,
    attacks_logins,
    attacks_many,
    attacks_process,
    attacks_tls,
    attacks_wire,
)
from tests.attack.attack import Attack

_MODULES = (
    attacks_process,
    attacks_lists,
    attacks_bytes,
    attacks_many,
    attacks_wire,
    attacks_frames,
    attacks_tls,
    attacks_logins,
)
ATTACKS: Mapping[str, Attack] = {
    attack.name: attack for module in _MODULES for attack in module.ATTACKS
}
