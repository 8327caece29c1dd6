"""Events of all groups as finished traces: each rebalance that was seen to begin, once it has
ended. Pure: times and identifiers are given.

What is under way is bounded. A rebalance of which nothing is heard any more, because its shard has
moved to another node for example, is given up in the end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from groupd.coordinator.core.types import Event, EventKind
from groupd.coordinator.history.rebalance import (
    PEOPLE,
    FoldLimits,
    GroupRebalance,
    PartPlaces,
    RebalanceEnd,
)
from groupd.coordinator.history.rebalance_fold import BEGINS, FOLDED, RebalanceFold
from groupd.coordinator.tracing.spans import Ids, Link, Span, spans_of

_SECOND_NS = 1_000_000_000
QUIET_NS = 3600 * _SECOND_NS
"""A rebalance of which nothing is heard for so long is given up."""
REBALANCES_MAX = 500
"""The most rebalances that are under way at a time."""
NOTES = PEOPLE | {
    EventKind.GROUP_EPOCH_BUMPED,
    EventKind.ASSIGNOR_FAILED,
    EventKind.GROUP_CONVERTED,
}
"""What becomes an event of a root span."""


def trace_limits() -> FoldLimits:
    """What traces keep of rebalances."""
    return FoldLimits(500, 100, 20, NOTES, 20, PartPlaces(10_000))


class TraceRate:
    """Lets `per_second` traces begin in any second, all at once or one by one. `left_out`: how many
    could not."""

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
    """`per_second`: rebalances beyond it are left out, and counted in the next root."""

    def __init__(self, ids: Ids, per_second: int, limits: FoldLimits | None = None) -> None:
        self._ids = ids
        self._limits = limits or trace_limits()
        self._rate = TraceRate(per_second)
        self._now_ns = 0
        self._folds: OrderedDict[str, RebalanceFold] = OrderedDict()
        """Of groups with a rebalance under way; the one that was heard of last comes last."""
        self._roots: dict[GroupRebalance, Link] = {}
        """The identifiers of rebalances that have not ended."""

    def take(self, events: Sequence[Event], now_ns: int) -> list[Span]:
        """The events of one input. Returns the traces that end with it, each with its root last."""
        self._now_ns = now_ns
        of_group: dict[str, list[Event]] = {}
        for event in events:
            if event.kind in FOLDED:
                of_group.setdefault(event.group_id, []).append(event)
        finished: list[Span] = []
        for group_id, own in of_group.items():
            fold = self._folds.pop(group_id, None)
            if fold is None:
                if BEGINS.isdisjoint([event.kind for event in own]):
                    continue
                fold = RebalanceFold(self._limits, self._admits, whole=True)
            finished += self._spans(fold.add(own, now_ns))
            if fold.open is not None:
                self._folds[group_id] = fold
        return finished + self._give_up()

    def stop(self, now_ns: int) -> list[Span]:
        """End all that is under way."""
        finished: list[Span] = []
        for fold in self._folds.values():
            finished += self._spans(fold.stop(RebalanceEnd.STOPPED, now_ns))
        self._folds.clear()
        return finished

    def _give_up(self) -> list[Span]:
        """Those of which nothing has been heard for longest."""
        finished: list[Span] = []
        while self._folds:
            group_id, fold = next(iter(self._folds.items()))
            assert fold.open is not None
            quiet = fold.open.latest < self._now_ns - QUIET_NS
            if not quiet and len(self._folds) <= REBALANCES_MAX:
                break
            del self._folds[group_id]
            finished += self._spans(fold.stop(RebalanceEnd.GIVEN_UP, fold.open.latest))
        return finished

    def _admits(self) -> bool:
        return self._rate.admits(self._now_ns)

    def _root(self, rebalance: GroupRebalance) -> Link:
        """Its identifiers; the trace before may have to name them before it ends."""
        ids = self._ids
        made = self._roots.get(rebalance)
        return made or Link(ids.generate_trace_id(), ids.generate_span_id())

    def _spans(self, ended: Iterable[GroupRebalance]) -> list[Span]:
        finished: list[Span] = []
        for rebalance in ended:
            root, link = self._root(rebalance), None
            self._roots.pop(rebalance, None)
            following = rebalance.following
            if following is not None and following.detailed:
                link = self._roots[following] = self._root(following)
            if rebalance.detailed:
                left_out, self._rate.left_out = self._rate.left_out, 0
                finished += spans_of(rebalance, root, link, self._ids, left_out)
        return finished
