"""Notices that a crowd of clients has gone, whose memory the process may give back."""

from __future__ import annotations

from collections.abc import Callable

from groupd.coordinator.runtime.own_process import give_back_small_blocks
from groupd.coordinator.server.byte_budget import FREE_BYTES, ByteBudget

MUCH = 32 * 1024 * 1024
"""Memory is given back when clients hold at least this many bytes less than before."""


class Crowds:
    """`budget`: the memory of the clients. `gone()`: called when they hold much less than before.
    The sweep of the connections, which comes by anyway, looks."""

    def __init__(
        self, budget: ByteBudget, gone: Callable[[], None] = give_back_small_blocks
    ) -> None:
        self._budget = budget
        self._gone = gone
        self._accepted = self._open = 0
        self._most = 0
        """The most that clients may have held since memory was given back."""

    def look(self, accepted: int, opened: int) -> None:
        """`accepted`: the connections that were ever accepted; `opened`: those that are open. Each
        may have held what needs no room in the budget."""
        budget = self._budget
        most = (self._open + accepted - self._accepted) * FREE_BYTES + budget.most
        held = opened * FREE_BYTES + budget.used
        self._accepted, self._open, budget.most = accepted, opened, budget.used
        self._most = max(self._most, most)
        if self._most - held >= MUCH:
            self._most = held
            self._gone()
