"""Gives free memory of the heap back to the system when many clients have gone."""

from __future__ import annotations

from collections.abc import Callable

from groupd.coordinator.runtime.process_tuning import give_back_small_blocks
from groupd.coordinator.server.byte_budget import FREE_BYTES, ByteBudget

MUCH = 32 * 1024 * 1024
"""The heap is trimmed when clients hold at least this many bytes less than before."""


class HeapTrimmer:
    """Calls `trim()` when clients hold much less memory than before. `budget`: the memory that they
    hold. The regular sweep of the connections calls `look`."""

    def __init__(
        self, budget: ByteBudget, trim: Callable[[], None] = give_back_small_blocks
    ) -> None:
        self._budget = budget
        self._trim = trim
        self._accepted = self._open = 0
        self._most = 0
        """The most bytes that clients may have held since the heap was last trimmed."""

    def look(self, accepted: int, opened: int) -> None:
        """Compares what clients hold with what they held. `accepted`: how many connections were
        ever accepted; `opened`: how many are open. Each of them may have held `FREE_BYTES` that are
        not in the budget."""
        budget = self._budget
        most = (self._open + accepted - self._accepted) * FREE_BYTES + budget.most
        held = opened * FREE_BYTES + budget.used
        self._accepted, self._open, budget.most = accepted, opened, budget.used
        self._most = max(self._most, most)
        if self._most - held >= MUCH:
            self._most = held
            self._trim()
