"""What the fold reports to observers, which make tables other than those of members and
rebalances."""

from __future__ import annotations

from groupd.pipeline.fold.endings import Ending
from groupd.pipeline.fold.entry import FoldEntry
from groupd.pipeline.fold.state import FoldedGroup, Life, Rebalance


class FoldObserver:
    """A base class whose methods do nothing. Observers see each group in its present state and must
    not change it."""

    def life_ended(self, group: FoldedGroup, life: Life, at_ms: int, ending: Ending) -> None:
        """`life` is not among the members any more."""

    def baseline(self, group: FoldedGroup) -> None:
        """There is a target without a known rebalance: the history begins with it."""

    def rebalance_opened(self, group: FoldedGroup, rebalance: Rebalance) -> None:
        """A rebalance begins; its triggers and members are known."""

    def target_installed(self, group: FoldedGroup, rebalance: Rebalance) -> None:
        """The rebalance has its target: `group.target` is the new one, `group.changed` has the
        former owners."""

    def rebalance_over(self, group: FoldedGroup, rebalance: Rebalance) -> None:
        """The row of the rebalance is written."""

    def committed(self, group: FoldedGroup | None, entry: FoldEntry, holder: Life | None) -> None:
        """An offset record of any kind; `holder`: whose partition it is, by the log."""

    def transaction_ended(self, entry: FoldEntry) -> None:
        """The marker of a transaction."""

    def group_deleted(self, group_id: str) -> None:
        """The tombstone of the group itself."""

    def finished(self, groups: dict[str, FoldedGroup]) -> None:
        """The log partition is over."""
