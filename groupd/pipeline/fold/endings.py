"""Finds out why a member is gone. A leave, an expired session and a missed rebalance timeout write
the same records, so other evidence in the log decides. Without such evidence the answer is
`removed`.

The evidence, in this order:

- A static member had left for a while (epoch -2): its session expired, unless it was gone sooner.
- A member was revoking for just its rebalance timeout: it missed that timeout.
- A member gave a sign of life more recently than its session timeout: the session cannot have
  expired, so the member left (or an administrator removed it).
- A member committed regularly: if it then was silent for its session timeout, the session has
  probably expired; if it committed until just before the end, it has probably left.
"""

from __future__ import annotations

from msgspec import Struct

from groupd.pipeline.fold.state import CLASSIC, REVOKING, Life, Settings

LEFT, EXPIRED, REBALANCE_TIMEOUT, REMOVED = "left", "expired", "rebalance-timeout", "removed"
REPLACED, CONVERTED = "replaced", "converted"

TRIGGERS = {
    LEFT: "leave",
    EXPIRED: "expiry",
    REBALANCE_TIMEOUT: "rebalance-timeout",
    REMOVED: "removal",
    REPLACED: "static-replacement",
    CONVERTED: "conversion",
}
"""The trigger of a rebalance that each ending causes."""

_SLACK_MS = 1000
"""How late the record of an expired timer may be."""

_HEARTBEAT_MS = 5000
"""The longest time between two heartbeats (group.consumer.heartbeat.interval.ms by default)."""

_REGULAR = 3
"""This many commits count as a habit."""


class Ending(Struct, frozen=True):
    """`certainty`: `certain`, `likely`, or None if `by` is REMOVED. `why`: the evidence in
    words."""

    by: str
    certainty: str | None
    why: str
    successor: str | None = None


def ending_of(life: Life, at_ms: int, settings: Settings) -> Ending:
    """Why a member is gone at `at_ms`; not for replaced or converted members. For a classic member
    `at_ms` is when the first generation without it was written."""
    session_ms = life.session_timeout_ms or settings.session_timeout_ms
    if life.state == "away":
        return _of_absent(at_ms - life.state_since_ms, session_ms)
    late_ms = _beyond_rebalance_timeout(life, at_ms)
    if late_ms is not None:
        return Ending(
            REBALANCE_TIMEOUT,
            "likely",
            f"it was revoking partitions for its rebalance timeout of {life.rebalance_timeout_ms}"
            f" ms and {late_ms} ms",
        )
    # A classic member's commits count as heartbeats; a consumer group's commits do not.
    heard_ms = life.last_sign_ms if life.protocol == CLASSIC else life.heard_ms
    bound_ms = session_ms
    if life.protocol == CLASSIC and life.rebalance_timeout_ms is not None:
        bound_ms = min(bound_ms, life.rebalance_timeout_ms)
    if at_ms - heard_ms < bound_ms:
        return Ending(
            LEFT,
            "certain",
            f"it was heard of {at_ms - heard_ms} ms before, less than its timeout of {bound_ms} ms",
        )
    return _by_habit(life, at_ms, session_ms)


def _of_absent(absent_ms: int, session_ms: int) -> Ending:
    if absent_ms >= session_ms - _HEARTBEAT_MS:
        return Ending(
            EXPIRED, "likely", f"the static member was away for {absent_ms} ms and did not return"
        )
    return Ending(
        LEFT, "certain", f"the static member was away for {absent_ms} ms, less than its session"
    )


def _beyond_rebalance_timeout(life: Life, at_ms: int) -> int | None:
    """How long after its rebalance timeout the member was removed; None if that was not the
    reason."""
    if life.state != REVOKING or not life.rebalance_timeout_ms or life.rebalance_timeout_ms < 0:
        return None
    late_ms = at_ms - life.state_since_ms - life.rebalance_timeout_ms
    return late_ms if 0 <= late_ms <= _SLACK_MS else None


def _by_habit(life: Life, at_ms: int, session_ms: int) -> Ending:
    if life.commits >= _REGULAR and life.last_commit_ms is not None:
        silent_ms = at_ms - life.last_commit_ms
        if silent_ms <= _HEARTBEAT_MS:
            return Ending(LEFT, "likely", f"it committed {silent_ms} ms before")
        if silent_ms >= max(session_ms - _HEARTBEAT_MS, 3 * life.commit_gap_ms):
            return Ending(
                EXPIRED,
                "likely",
                f"it committed at least every {life.commit_gap_ms} ms, then not for {silent_ms} ms",
            )
    return Ending(
        REMOVED,
        None,
        f"it left or its session expired: its last sign of life is {at_ms - life.last_sign_ms} ms"
        " before",
    )
