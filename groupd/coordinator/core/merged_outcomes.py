"""One outcome of several, for an input that several group types take."""

from __future__ import annotations

from collections.abc import Iterable

from groupd.coordinator.core.types import Outcome


def merged_outcomes(outcomes: Iterable[Outcome]) -> Outcome:
    """All that they have, in their order. Raises ValueError for what cannot be merged or has no
    request: replies, a completion, a transaction, a lease."""
    merged = Outcome()
    for one in outcomes:
        if one.replies or one.completion or one.transaction or one.steady:
            raise ValueError(f"this belongs to an outcome of its own: {one}")
        merged.records += one.records
        merged.urgent += one.urgent
        merged.events += one.events
        merged.tasks += one.tasks
        merged.calls += one.calls
        if one.gate is not None:
            merged.gate = one.gate if merged.gate in (None, one.gate) else "*"
    return merged
