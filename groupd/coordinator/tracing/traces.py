"""Which rebalances become traces: each one whose begin was seen, when it has ended, unless there
are too many.

Pure. The number of rebalances under way is bounded. A rebalance without events for long, for
example because its shard has moved to another node, is given up in the end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from groupd.coordinator.core.types import Event, EventKind
from groupd.coordinator.history.rebalance import PEOPLE, GroupRebalance, RebalanceEnd
from groupd.coordinator.history.rebalance_fold import BEGINS, FOLDED, RebalanceFold

_SECOND_NS = 1_000_000_000
QUIET_NS = 3600 * _SECOND_NS
"""A rebalance without events for this long is given up."""
REBALANCES_MAX = 500
"""The most rebalances that are under way at a time."""
NOTES = PEOPLE | {
    EventKind.GROUP_EPOCH_BUMPED,
    EventKind.ASSIGNOR_FAILED,
    EventKind.GROUP_CONVERTED,
}
"""The events that a trace shows as events."""


class TraceRate:
    """Lets `per_second` traces begin in any second, all at once or one by one. `left_out`: how many
    could not begin."""

    def __init__(self, per_second: int) -> None:
        self._most = per_second * _SECOND_NS
        self._per_second = per_second
        self._saved = self._most
        self._at_ns = 0
        self.left_out = 0

    def admits(self, now_ns: int) -> bool:
        earned = max(0, now_ns - self._at_ns) * self._per_second
        self._saved = min(self._most, self._saved + earned)
        self._at_ns = now_ns
        if self._saved < _SECOND_NS:
            self.left_out += 1
            return False
        self._saved -= _SECOND_NS
        return True


class Traces:
    """Makes traces of events. Times are nanoseconds since the epoch. `per_second`: how many traces
    may begin in a second; others are left out."""

    def __init__(self, per_second: int) -> None:
        self._rate = TraceRate(per_second)
        self._now_ns = 0
        self._folds: OrderedDict[str, RebalanceFold] = OrderedDict()
        """The groups with a rebalance under way. The group of the newest event is last."""

    def take(self, events: Sequence[Event], now_ns: int) -> list[GroupRebalance]:
        """Take the events of one input. Returns the rebalances that end with it."""
        self._now_ns = now_ns
        of_group: dict[str, list[Event]] = {}
        for event in events:
            if event.kind in FOLDED:
                of_group.setdefault(event.group_id, []).append(event)
        ended: list[GroupRebalance] = []
        for group_id, own in of_group.items():
            fold = self._folds.pop(group_id, None)
            if fold is None:
                if BEGINS.isdisjoint([event.kind for event in own]):
                    continue
                fold = RebalanceFold(NOTES, self._admits, whole=True)
            ended += fold.add(own, now_ns)
            if fold.open is not None:
                self._folds[group_id] = fold
        return _wanted([*ended, *self._give_up()])

    def stop(self, now_ns: int) -> list[GroupRebalance]:
        """End all rebalances that are under way, and return them."""
        folds, self._folds = self._folds, OrderedDict()
        return _wanted(
            one for fold in folds.values() for one in fold.stop(RebalanceEnd.STOPPED, now_ns)
        )

    def left_out(self) -> int:
        """Returns how many rebalances were left out since the last call."""
        left_out, self._rate.left_out = self._rate.left_out, 0
        return left_out

    def _give_up(self) -> list[GroupRebalance]:
        """End the rebalances without events for long, and the quietest ones beyond
        `REBALANCES_MAX`. Returns them."""
        ended: list[GroupRebalance] = []
        while self._folds:
            group_id, fold = next(iter(self._folds.items()))
            assert fold.open is not None
            latest_ns = fold.open.latest
            if latest_ns >= self._now_ns - QUIET_NS and len(self._folds) <= REBALANCES_MAX:
                break
            del self._folds[group_id]
            ended += fold.stop(RebalanceEnd.GIVEN_UP, latest_ns)
        return ended

    def _admits(self) -> bool:
        return self._rate.admits(self._now_ns)


def _wanted(ended: Iterable[GroupRebalance]) -> list[GroupRebalance]:
    return [one for one in ended if one.detailed]
