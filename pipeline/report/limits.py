"""How much of a log goes on the page; loads without Spark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """`details`: groups with charts; `rows`: groups in the list."""

    details: int = 30
    rows: int = 1000


DEFAULT_LIMITS = Limits()
