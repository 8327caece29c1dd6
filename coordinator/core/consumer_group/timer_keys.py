"""Kinds of deadlines that consumer groups use as first part of a `DeadlineKey`."""

from __future__ import annotations

from groupd.coordinator.core.deadlines import Deadlines

SESSION = "consumer-session"
REBALANCE = "consumer-rebalance"
JOIN = "consumer-join"
"""A member on the classic protocol was told to rejoin."""
SYNC = "consumer-sync"
"""A member on the classic protocol has joined and is to send its SyncGroup."""

TARGET = "consumer-target"
"""Of a group (member ""): a target has waited long enough for further members."""
ANSWER = "consumer-answer"
"""Of a group: the next waiting heartbeats are to be answered."""
PATIENCE = "consumer-patience"
"""Of a group: the oldest waiting heartbeat must not wait any longer."""

GATHERING_KINDS = frozenset({TARGET, ANSWER, PATIENCE})
"""Of heartbeats that wait for a target, whatever becomes of the group."""

KINDS = (SESSION, REBALANCE, JOIN, SYNC)
"""All kinds that a member's departure cancels."""


def cancel_member(deadlines: Deadlines, group_id: str, member_id: str) -> None:
    """Soft state: drop all deadlines of a member."""
    for kind in KINDS:
        deadlines.cancel((kind, group_id, member_id))
