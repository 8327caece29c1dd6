"""The topic names that members subscribe to."""

from __future__ import annotations

from functools import lru_cache

NAMES_KEPT = 256
"""How many subscriptions are remembered, so that members can share them."""


@lru_cache(maxsize=NAMES_KEPT)
def canonical_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Topic names in the form that members and records hold: sorted, each once. Members with the
    same subscription share one tuple."""
    return tuple(sorted(set(names)))
