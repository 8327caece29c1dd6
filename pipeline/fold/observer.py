"""What the fold tells those who make more of it than the tables of members and rebalances."""

from __future__ import annotations

from groupd.pipeline.fold.endings import Ending
from groupd.pipeline.fold.entry import Entry
from groupd.pipeline.fold.state import Group, Life, Rebalance


class Observer:
    """Base whose methods do nothing. Groups are shown as they are at that point, not to change."""

    def life_ended(self, group: Group, life: Life, at_ms: int, ending: Ending) -> None:
        """`life` is not among the members any more."""

    def baseline(self, group: Group) -> None:
        """A target is there that no rebalance is known of: the history begins with it."""

    def rebalance_opened(self, group: Group, rebalance: Rebalance) -> None:
        """It begins; its triggers and members are known."""

    def target_installed(self, group: Group, rebalance: Rebalance) -> None:
        """`group.target` is the new one, `group.changed` the owners before."""

    def rebalance_over(self, group: Group, rebalance: Rebalance) -> None:
        """Its row is written."""

    def committed(self, group: Group | None, entry: Entry, holder: Life | None) -> None:
        """An offset record of any kind; `holder`: whose partition it is, by the log."""

    def transaction_ended(self, entry: Entry) -> None:
        """A marker."""

    def group_deleted(self, group_id: str) -> None:
        """The group's own tombstone."""

    def finished(self, groups: dict[str, Group]) -> None:
        """The log partition is over."""
