"""What the fold reports to observers, which make tables other than those of members and
rebalances."""

from __future__ import annotations

from groupd.pipeline.fold.endings import Ending
from groupd.pipeline.fold.entry import FoldEntry
from groupd.pipeline.fold.state import GroupState, Life, Rebalance


class FoldObserver:
    """A base class whose methods do nothing. Observers see each group in its present state and must
    not change it."""

    def life_ended(self, group: GroupState, life: Life, at_ms: int, ending: Ending) -> None:
        """`life` is no longer among the members."""

    def baseline(self, group: GroupState) -> None:
        """There is a target without a known rebalance: the log begins with it."""

    def rebalance_opened(self, group: GroupState, rebalance: Rebalance) -> None:
        """A rebalance begins; its triggers and members are known."""

    def target_installed(self, group: GroupState, rebalance: Rebalance) -> None:
        """`group.target` is the new target, `group.changed` has the former owners."""

    def rebalance_over(self, group: GroupState, rebalance: Rebalance) -> None:
        """The row of the rebalance is written."""

    def committed(self, group: GroupState | None, entry: FoldEntry, holder: Life | None) -> None:
        """An offset record of any kind. `holder`: the member that holds the partition, as the log
        tells it."""

    def transaction_ended(self, entry: FoldEntry) -> None:
        """The marker of a transaction."""

    def group_deleted(self, group_id: str) -> None:
        """The tombstone of the group itself."""

    def finished(self, groups: dict[str, GroupState]) -> None:
        """The log partition is over."""
