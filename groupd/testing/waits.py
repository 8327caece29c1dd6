"""Waits for a state of a group. No wait polls: its condition is checked whenever the broker has
done something.

All waits look at durable state only. A timeout is a failed assertion (WaitTimeout) that says what
the test waited for, the state of the group, which members are missing and what blocks the group.
"""

from __future__ import annotations

from groupd.testing.answers import GroupDescription
from groupd.testing.engine import Engine
from groupd.testing.explain import check_group, explain_group, find_topic, unacknowledged
from groupd.testing.topic_operations import partitions_of
from groupd.testing.watch import TIMEOUT_S


class Waits:
    """The wait functions; `groupd.testing.operations` has the other operations."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def wait_stable(
        self, group: str, members: int | None = None, timeout: float = TIMEOUT_S
    ) -> GroupDescription:
        """Wait until the group is Stable, every member has acknowledged its epoch (generation), and
        there are exactly `members` of them, if that is given. Returns the group as `describe`.

        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> groupd.wait_stable("billing", members=1)["state"]
        'Stable'
        """

        def ready() -> GroupDescription | None:
            shown = self._settled(group)
            if (
                shown is None
                or shown["state"] != "Stable"
                or unacknowledged(self._engine, group, shown)
            ):
                return None
            return shown if members in (None, len(shown["members"])) else None

        wanted = "" if members is None else f" with {members} members"
        return await self._engine.watch.until(
            ready, timeout, lambda: explain_group(self._engine, group, f"stable{wanted}", members)
        )

    async def wait_members(self, group: str, count: int, timeout: float = TIMEOUT_S) -> list[str]:
        """Wait until the group has exactly `count` members; returns their ids. A group that is gone
        has 0 members. Raises NotFound for a group that never existed.

        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> len(groupd.wait_members("billing", 1))
        1
        """
        if count == 0:
            check_group(self._engine, group)

        def ready() -> list[str] | None:
            shown = self._settled(group)
            found = [] if shown is None else [one["member_id"] for one in shown["members"]]
            return found if len(found) == count and self._engine.rests(group) else None

        return await self._engine.watch.until(
            ready,
            timeout,
            lambda: explain_group(self._engine, group, f"with {count} members", count),
        )

    async def wait_epoch(
        self, group: str, member: str, epoch: int, timeout: float = TIMEOUT_S
    ) -> int:
        """Wait until the member has named `epoch` (in a classic group, the generation) or a later
        one in a heartbeat. Returns the epoch that it is at.

        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> (member,) = groupd.wait_members("billing", 1)
        >>> groupd.wait_epoch("billing", member, 1) >= 1
        True
        """

        def ready() -> int | None:
            said = self._engine.acknowledged(group, member)
            return said if said >= epoch else None

        def explain() -> str:
            said = self._engine.acknowledged(group, member)
            what = f"member {member} at epoch {epoch}; it has acknowledged {said or 'none'}"
            return explain_group(self._engine, group, what)

        return await self._engine.watch.until(ready, timeout, explain)

    async def wait_released(
        self,
        group: str,
        topic: str,
        partition: int,
        member: str | None = None,
        timeout: float = TIMEOUT_S,
    ) -> str | None:
        """Wait until `member` (default: the present holder) does not hold the partition any more. A
        member that is still revoking the partition holds it. In a classic group a member holds it
        until a new generation gives it to another member. Returns the new holder; None = there is
        none. Raises NotFound for a group that never existed, and for a topic that does not exist.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> consumer.poll(10).value()
        b'coffee'
        >>> member = groupd.wait_owned("billing", "orders", 0)
        >>> consumer.close()
        >>> groupd.wait_released("billing", "orders", 0, member)
        """
        check_group(self._engine, group)
        partitions_of(find_topic(self._engine, topic), partition)
        first = member or self._holder(group, topic, partition)
        if first is None:
            return None

        def ready() -> tuple[str | None] | None:
            holder = self._holder(group, topic, partition)
            return (holder,) if holder != first and self._engine.rests(group) else None

        what = f"{topic}-{partition} released by {first}"
        done = await self._engine.watch.until(
            ready, timeout, lambda: explain_group(self._engine, group, what)
        )
        return done[0]

    async def wait_owned(
        self, group: str, topic: str, partition: int, timeout: float = TIMEOUT_S
    ) -> str:
        """Wait until some member owns the partition; returns its id.

        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> groupd.wait_owned("billing", "orders", 2) in groupd.wait_members("billing", 1)
        True
        """

        def ready() -> str | None:
            shown = self._settled(group)
            for member in [] if shown is None else shown["members"]:
                if partition in member["owned"].get(topic, ()):
                    return str(member["member_id"])
            return None

        what = f"owner of {topic}-{partition}"
        return await self._engine.watch.until(
            ready, timeout, lambda: explain_group(self._engine, group, what)
        )

    async def wait_committed(
        self, group: str, topic: str, partition: int, offset: int, timeout: float = TIMEOUT_S
    ) -> int:
        """Wait until the group's committed offset of the partition is at least `offset`; returns
        it.

        >>> groupd.commit("billing", {("orders", 0): 5})
        >>> groupd.wait_committed("billing", "orders", 0, 3)
        5
        """
        place = (group, topic, partition)

        def ready() -> int | None:
            found = self._engine.offsets.get(place)
            return found.offset if found is not None and found.offset >= offset else None

        def explain() -> str:
            found = self._engine.offsets.get(place)
            is_at = "nothing is committed" if found is None else f"it is at {found.offset}"
            return explain_group(
                self._engine, group, f"{topic}-{partition} committed up to {offset}; {is_at}"
            )

        return await self._engine.watch.until(ready, timeout, explain)

    async def wait_rebalances(self, group: str, count: int, timeout: float = TIMEOUT_S) -> int:
        """Wait until there were `count` rebalances since the start (see `rebalances`); returns
        their number. Call `wait_stable` after it to wait for the end of the last one.

        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> groupd.wait_rebalances("billing", 1)
        1
        """

        def ready() -> int | None:
            seen = self._engine.history.rebalances(group)
            return seen if seen >= count and self._engine.rests(group) else None

        def explain() -> str:
            seen = self._engine.history.rebalances(group)
            return explain_group(self._engine, group, f"{count} rebalances; there were {seen}")

        return await self._engine.watch.until(ready, timeout, explain)

    # Conditions and their explanations

    def _settled(self, group: str) -> GroupDescription | None:
        """The group, if everything that the coordinator knows of it is durable, else None."""
        return self._engine.describe(group) if self._engine.rests(group) else None

    def _holder(self, group: str, topic: str, partition: int) -> str | None:
        shown = self._engine.describe(group)
        for member in shown["members"] if shown else ():
            held = (member["owned"], member.get("pending_revocation", {}))
            if any(partition in one.get(topic, ()) for one in held):
                return str(member["member_id"])
        return None
