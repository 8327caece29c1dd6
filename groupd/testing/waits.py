"""Waiting for what a group is to become. Nothing polls: conditions are looked at when the broker
has done something.

All of them look at what is durable. A timeout is a failed assertion (WaitTimeout) that says what
was waited for, how the group stands, who is missing and what blocks.
"""

from __future__ import annotations

from groupd.testing.answers import GroupDescription
from groupd.testing.engine import Engine
from groupd.testing.explain import explain_group, unacknowledged
from groupd.testing.known import check_group, find_topic
from groupd.testing.topic_reader import partitions_of
from groupd.testing.watch import TIMEOUT_S


class Waits:
    """The wait functions; see `groupd.testing.operations` for the rest."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def wait_stable(
        self, group: str, members: int | None = None, timeout: float = TIMEOUT_S
    ) -> GroupDescription:
        """Until the group is Stable and everybody has acknowledged the epoch (the generation),
        with `members` members if given. The group, as `describe` shows it.

        That is the coordinator's view: a client calls its listener about when it acknowledges.
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
        """Until the group has exactly `count` members; their ids. 0: also when the group is gone;
        raises NotFound for one that never was."""
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
        """Until the member has acknowledged `epoch` (the generation, in a classic group) or a
        later one, that is, named it in a heartbeat. The epoch it is at."""

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
        """Until `member` does not hold the partition any more; without `member`, whoever holds it
        at the call. Revoking is holding. Who holds it then, None = nobody. Raises NotFound for a
        group that never was and a topic that is not there.

        In a classic group a partition is held until a new generation gives it to somebody else.
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
        """Until some member owns the partition; which one."""

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
        """Until the group's offset of the partition is `offset` or beyond; the offset."""
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
        """Until there have been `count` rebalances since the start (see `rebalances`); how many
        there were. Follow it with `wait_stable` to see the last one through."""

        def ready() -> int | None:
            seen = self._engine.history.rebalances(group)
            return seen if seen >= count and self._engine.rests(group) else None

        def explain() -> str:
            seen = self._engine.history.rebalances(group)
            return explain_group(self._engine, group, f"{count} rebalances; there were {seen}")

        return await self._engine.watch.until(ready, timeout, explain)

    # What is, and what to say of it

    def _settled(self, group: str) -> GroupDescription | None:
        """The group, if all of it is durable."""
        return self._engine.describe(group) if self._engine.rests(group) else None

    def _holder(self, group: str, topic: str, partition: int) -> str | None:
        shown = self._engine.describe(group)
        for member in shown["members"] if shown else ():
            held = (member["owned"], member.get("pending_revocation", {}))
            if any(partition in one.get(topic, ()) for one in held):
                return str(member["member_id"])
        return None
