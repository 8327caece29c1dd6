"""Calls of `GroupCoordinator` that wait for a group. In the examples `groupd` is a broker with a
topic `orders` of three partitions."""

from __future__ import annotations

from typing import cast

from groupd.testing.answers import GroupDescription
from groupd.testing.calls import HarnessCalls
from groupd.testing.watch import TIMEOUT_S

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""


class WaitCalls(HarnessCalls):
    """Nothing polls: each condition is looked at whenever the broker has done something. Timeouts
    are in seconds of real time. A wait that runs out raises WaitTimeout, a failed assertion that
    says how the group stands and what blocks it; in a coroutine `await groupd.aio.wait_...`."""

    def wait_stable(
        self, group: str, members: int | None = None, timeout: float = TIMEOUT_S
    ) -> GroupDescription:
        """Wait until the group is Stable, every member has acknowledged its epoch (generation), and
        there are exactly `members` of them, if that is given. Returns the group as `describe`.

        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> groupd.wait_stable("billing", members=1)["state"]
        'Stable'
        """
        return cast("GroupDescription", self._wait("wait_stable", group, members, timeout))

    def wait_members(self, group: str, count: int, timeout: float = TIMEOUT_S) -> list[str]:
        """Wait until the group has exactly `count` members; returns their ids. 0 is also reached
        when the group is gone; NotFound if it never existed.

        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> len(groupd.wait_members("billing", 1))
        1
        """
        return cast("list[str]", self._wait("wait_members", group, count, timeout))

    def wait_epoch(self, group: str, member: str, epoch: int, timeout: float = TIMEOUT_S) -> int:
        """Wait until the member has named `epoch` (in a classic group, the generation) or a later
        one in a heartbeat. Returns the epoch that it is at.

        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> (member,) = groupd.wait_members("billing", 1)
        >>> groupd.wait_epoch("billing", member, 1) >= 1
        True
        """
        return cast(int, self._wait("wait_epoch", group, member, epoch, timeout))

    def wait_released(
        self,
        group: str,
        topic: str,
        partition: int,
        member: str | None = None,
        timeout: float = TIMEOUT_S,
    ) -> str | None:
        """Wait until `member` (default: the one that holds it now) does not hold the partition any
        more; one that is still revoking holds it. Returns the new holder, None = there is none.
        In a classic group it is held until a new generation gives it to another member. Raises
        NotFound for a group that never existed, and for a topic that does not exist.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> consumer.poll(10).value()
        b'coffee'
        >>> member = groupd.wait_owned("billing", "orders", 0)
        >>> consumer.close()
        >>> groupd.wait_released("billing", "orders", 0, member)
        """
        found = self._wait("wait_released", group, topic, partition, member, timeout)
        return cast("str | None", found)

    def wait_owned(self, group: str, topic: str, partition: int, timeout: float = TIMEOUT_S) -> str:
        """Wait until some member owns the partition; returns its id.

        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> groupd.wait_owned("billing", "orders", 2) in groupd.wait_members("billing", 1)
        True
        """
        return cast(str, self._wait("wait_owned", group, topic, partition, timeout))

    def wait_committed(
        self, group: str, topic: str, partition: int, offset: int, timeout: float = TIMEOUT_S
    ) -> int:
        """Wait until the group's committed offset of the partition is at least `offset`; returns
        it.

        >>> groupd.commit("billing", {("orders", 0): 5})
        >>> groupd.wait_committed("billing", "orders", 0, 3)
        5
        """
        return cast(int, self._wait("wait_committed", group, topic, partition, offset, timeout))

    def wait_lag(
        self, group: str, at_most: int = 0, timeout: float = TIMEOUT_S
    ) -> dict[tuple[str, int], int]:
        """Wait until at most `at_most` records of all the group's partitions together are not
        committed. Returns its lag, as `lag` does.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.consumer("billing", "orders", auto_commit_interval_ms=50)
        >>> consumer.poll(10).value()
        b'coffee'
        >>> sum(groupd.wait_lag("billing").values())
        0
        """
        found = self._wait("wait_lag", group, at_most, timeout)
        return cast("dict[tuple[str, int], int]", found)

    def wait_rebalances(self, group: str, count: int, timeout: float = TIMEOUT_S) -> int:
        """Wait until there were `count` rebalances since the start (see `rebalances`); returns
        their number. Call `wait_stable` after it to wait for the end of the last one.

        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> groupd.wait_rebalances("billing", 1)
        1
        """
        return cast(int, self._wait("wait_rebalances", group, count, timeout))
