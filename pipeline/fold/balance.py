"""How balanced an assignment is, and how little a balanced one could have moved.

The minimum, exactly, where all members subscribe to the same: of P partitions on N members each
gets P // N, and P % N of them one more. A member with c partitions before (of those that still
exist) can keep min(c, P // N), and as many members as there are extras can keep one beyond that.
What had an owner and cannot be kept by anybody must move. No balanced assignment moves less, and
one that moves no more exists. For mixed subscriptions there is no such formula; there it is what
the `uniform` assignor moves from the same start.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt


def minimal_moves(loads_before: Sequence[int], owned_before: int, partitions: int) -> int:
    """`loads_before`: of every member there is now, new ones with 0; `owned_before`: partitions
    that had an owner, gone members included, and still exist."""
    if not loads_before:
        return 0
    quota, extras = divmod(partitions, len(loads_before))
    kept = sum(min(load, quota) for load in loads_before)
    kept += min(extras, sum(load > quota for load in loads_before))
    return owned_before - kept


def deviation(loads: Sequence[int]) -> float:
    """Standard deviation of the population; 0 for nobody."""
    if not loads:
        return 0.0
    mean = sum(loads) / len(loads)
    return sqrt(sum((load - mean) ** 2 for load in loads) / len(loads))
