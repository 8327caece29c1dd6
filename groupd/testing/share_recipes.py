"""Named incidents of share groups; `groupd.testing.recipes` has the others, and the rules."""

from __future__ import annotations

from groupd.coordinator.faults.errors import HarnessError
from groupd.testing.answers import RecipeResult
from groupd.testing.engine import Engine
from groupd.testing.explain import check_group
from groupd.testing.share_history import ACQUIRED
from groupd.testing.share_view import ShareView

OUTAGE_MAX = 100
SHARE_RECIPES = ("slow_worker", "share_leader_failover", "share_coordinator_failover")


class ShareRecipes:
    """The recipes for share groups of one engine."""

    _engine: Engine

    async def slow_worker(self, group: str, member: str | None = None) -> RecipeResult:
        """Members work for longer than their locks last: the clock moves on until the last lock of
        `member` ends (None = of every member), and its records are available to others. When it
        acknowledges them it gets INVALID_RECORD_STATE. `result["released"]`: how many they are.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> messages = consumer.poll(10)
        >>> groupd.recipes.slow_worker("workers").result["released"]
        1
        """
        check_group(self._engine, group)
        acquired = ShareView(self._engine, group).under_way(ACQUIRED)
        held = [one for one in acquired if member in (None, one["member_id"])]
        if not held:
            raise HarnessError(f"group {group}: no lock is held by {member or 'any member'}")
        left_ms = max(one["lock_left_ms"] or 0 for one in held)
        await self._engine.advance(left_ms, keep_connected=True)
        members = sorted({str(one["member_id"]) for one in held})
        return {"faults": [], "members": members, "released": len(held)}

    async def share_leader_failover(self, group: str) -> RecipeResult:
        """The leader of the group's partitions dies, and another one takes its place. What was
        acknowledged stays, also if its write is still under way; sessions and locks are gone.
        Members get SHARE_SESSION_NOT_FOUND and open new ones; records that they held are delivered
        again, and the delivery that was lost does not count.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> messages = consumer.poll(10)
        >>> incident = groupd.recipes.share_leader_failover("workers")
        >>> groupd.share("workers").record("orders", messages[0].partition(), 0)["state"]
        'available'
        """
        check_group(self._engine, group)
        self._engine.forget_share_group(group)
        return {"faults": []}

    async def share_coordinator_failover(
        self, *, applied: bool = True, outage: int = 1
    ) -> RecipeResult:
        """The share coordinator dies in the middle of its next write, which is that of an
        acknowledgement if nothing else is going on, before (`applied=False`) or after it is
        durable; and again in the next ones, `outage` times in all. The leader tries again after 1,
        2, 4 and 8 s of the coordinator's clock. So with an `outage` of 5 or more the member gets
        COORDINATOR_NOT_AVAILABLE, and still holds its records.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.share_consumer("workers", "orders")
        >>> messages = consumer.poll(10)
        >>> incident = groupd.recipes.share_coordinator_failover()
        >>> list(consumer.commit_sync().values())
        [None]
        """
        if not 1 <= outage <= OUTAGE_MAX:
            raise HarnessError(f"outage must be from 1 to {OUTAGE_MAX}")
        for _ in range(outage):
            self._engine.fail_share_state(applied=applied)
        return {"faults": []}
