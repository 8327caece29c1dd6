"""Calls of `GroupCoordinator` for groups, their offsets, and what may go wrong. In the examples
`groupd` is a broker with a topic `orders` of three partitions."""

from __future__ import annotations

from typing import Unpack, cast

from groupd.testing.answers import GroupDescription, GroupEvent, GroupSummary
from groupd.testing.calls import HarnessCalls
from groupd.testing.handles import FaultHandle, FaultOptions, Faults
from groupd.testing.offset_operations import Places

__tracebackhide__ = True
"""Hides this module's frames from pytest: a failure is shown at the line of the test."""


class GroupCalls(HarnessCalls):
    """They raise NotFound for a group that never existed, and RequestRefused."""

    faults: Faults

    def commit(self, group: str, offsets: Places) -> None:
        """Set offsets from outside the group: {("orders", 0): 5} or {"orders": {0: 5}}. Raises
        RequestRefused while the group has members, as Kafka refuses its tools.

        >>> groupd.commit("billing", {("orders", 0): 5})
        """
        self._call("commit", group, offsets)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The durable offsets of a group by (topic, partition); {} when it has committed nothing.

        >>> groupd.commit("billing", {("orders", 0): 5})
        >>> groupd.committed("billing")
        {('orders', 0): 5}
        """
        return cast("dict[tuple[str, int], int]", self._call("committed", group))

    def lag(self, group: str) -> dict[tuple[str, int], int]:
        """How many records are not committed, by (topic, partition), for all partitions of the
        topics that the group has committed to or subscribes to. It counts the records that a
        read_committed consumer would still get. Raises HarnessError for a group without topics.

        >>> _ = groupd.produce("orders", ["coffee", "tea"])
        >>> groupd.commit("billing", {("orders", 0): 1})
        >>> groupd.lag("billing")
        {('orders', 0): 0, ('orders', 1): 1, ('orders', 2): 0}
        """
        return cast("dict[tuple[str, int], int]", self._call("lag", group))

    def groups(self) -> list[GroupSummary]:
        """`group_id`, `type` and `state` of every group, by id.

        >>> groupd.commit("billing", {("orders", 0): 5})
        >>> groupd.groups()
        [{'group_id': 'billing', 'type': 'classic', 'state': 'Empty'}]
        """
        return cast("list[GroupSummary]", self._call("groups"))

    def describe(self, group: str) -> GroupDescription:
        """A group as `/groups/{id}` of the admin port shows it: state, members, what each owns, who
        waits for whom. Raises NotFound also for a group that was deleted.

        >>> groupd.commit("billing", {("orders", 0): 5})
        >>> groupd.describe("billing")["state"]
        'Empty'
        """
        return cast("GroupDescription", self._call("describe", group))

    def events(self, group: str) -> list[GroupEvent]:
        """What happened in a group and what its clients did, oldest first; also of a group that is
        gone. docs/testing.md#events lists them.

        >>> groupd.commit("billing", {("orders", 0): 5})
        >>> [event["event"] for event in groupd.events("billing")]
        ['offsets-committed']
        """
        return cast("list[GroupEvent]", self._call("events", group))

    def rebalances(self, group: str) -> int:
        """The number of rebalances: target assignments of a consumer group, completed generations
        of a classic group.

        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> _ = groupd.wait_stable("billing", members=1)
        >>> groupd.rebalances("billing")
        1
        """
        return cast(int, self._call("rebalances", group))

    def report(self) -> str:
        """The latest events of the groups that were active last, as text.

        >>> groupd.commit("billing", {("orders", 0): 5})
        >>> print(groupd.report())
        group billing:
          ... offsets-committed ...
        """
        return cast(str, self._call("report"))

    # Trouble

    def check(self) -> None:
        """Raises InvariantViolation if the coordinator has broken one of its promises so far. The
        fixture does it at the end of each test.

        >>> groupd.check()
        """
        self._call("check")

    def fault(self, action: str, **given: Unpack[FaultOptions]) -> FaultHandle:
        """The same as `faults.add`, for a `with` block, at whose end the fault is removed.

        >>> with groupd.fault("drop", api="OffsetCommit", group="billing", count=2) as fault:
        ...     fault.hits
        0
        """
        return self.faults.add(action, **given)

    def settle(self) -> None:
        """Wait until everything that has come in so far is durable and answered.

        >>> groupd.settle()
        """
        self._call("settle")

    def restart(self, *, lose_memory: bool = False) -> None:
        """Stop properly and start again on the same port, with the same logs; with `lose_memory`
        with empty logs and no topics.

        >>> groupd.restart(lose_memory=True)
        >>> groupd.topics()
        {}
        """
        self._call("restart", lose_memory=lose_memory)
