"""How balanced an assignment is, and how few partitions a balanced assignment could have moved.

The minimum is exact where all members have the same subscription. Of P partitions on N members each
member gets P // N, and P % N members get one more. A member that owned c of the still existing
partitions can keep min(c, P // N), and as many members as there are extra partitions can keep one
more. Every partition that had an owner and that no member can keep must move. No balanced
assignment moves fewer, and one that moves no more exists. For mixed subscriptions there is no such
formula; there the minimum is what the `uniform` assignor moves from the same start.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt


def minimal_moves(loads_before: Sequence[int], owned_before: int, partitions: int) -> int:
    """The fewest partitions that have to move. `loads_before`: for every present member the number
    of partitions that it owned before, 0 for new members. `owned_before`: the number of still
    existing partitions that had an owner, members that are gone included."""
    if not loads_before:
        return 0
    quota, extras = divmod(partitions, len(loads_before))
    kept = sum(min(load, quota) for load in loads_before)
    kept += min(extras, sum(load > quota for load in loads_before))
    return owned_before - kept


def deviation(loads: Sequence[int]) -> float:
    """The standard deviation of the population; 0 without members."""
    if not loads:
        return 0.0
    mean = sum(loads) / len(loads)
    return sqrt(sum((load - mean) ** 2 for load in loads) / len(loads))
