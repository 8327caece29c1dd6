"""A commit that a connection may make again without decoding and building it anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from groupd.coordinator.core.offsets.again import CommitAgain
from groupd.coordinator.core.types import RequestToken

if TYPE_CHECKING:
    from groupd.coordinator.runtime.waiting import Waiter


class CommitsAgain(Protocol):
    """The shard runtime, as far as a lease asks it."""

    def commit_again(
        self, commit: CommitAgain, offsets: Sequence[int], waiter: Waiter
    ) -> RequestToken | None:
        """Make `commit` with other offsets; None: it cannot be made so, and nothing was done."""
        ...


class CommitLease:
    """`commit`, bound to the shard that it was made in."""

    __slots__ = ("_shard", "commit")

    def __init__(self, shard: CommitsAgain, commit: CommitAgain) -> None:
        self._shard = shard
        self.commit = commit

    def again(self, offsets: Sequence[int], waiter: Waiter) -> RequestToken | None:
        """`waiter` hears ACCEPTED once the records are durable, or why not."""
        return self._shard.commit_again(self.commit, offsets, waiter)


class Accepted:
    """Instead of the reply that the asker has already."""


ACCEPTED: object = Accepted()
