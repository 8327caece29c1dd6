"""How much of a log goes on the page. This module loads without Spark."""

from __future__ import annotations

from msgspec import Struct


class ReportLimits(Struct, frozen=True):
    """`details`: groups with charts; `rows`: groups in the list."""

    details: int = 30
    rows: int = 1000


DEFAULT_LIMITS = ReportLimits()
