"""The states of a transactional id, with Kafka's codes and names."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum


class TransactionState(IntEnum):
    """The codes stand in the log. `Dead` and `PrepareEpochFence` never do: the first is an id on
    its way out, the second is passed through within one step."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def shown(self) -> str:
        """The name in DescribeTransactions and ListTransactions."""
        return _NAMES[self]


_NAMES: Mapping[TransactionState, str] = {
    state: "".join(part.title() for part in state.name.split("_")) for state in TransactionState
}

BY_NAME: Mapping[str, TransactionState] = {name: state for state, name in _NAMES.items()}

PREPARED = frozenset({TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT})
"""Decided; the markers are on their way."""

AT_REST = frozenset(
    {TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
)
"""No transaction is open: a new one may begin, and the id may expire."""
