"""Everything that a test can do with its broker: the whole public interface, as coroutines.

`GroupCoordinator` has most of these as plain methods, and all, under `aio`, as coroutines for any
event loop. They run on the broker's loop. Arguments and results are plain data, so that the same
calls can go to another process or over HTTP. Waits take their timeout in seconds of real time.

The examples are of the plain methods. `groupd` is a broker with a topic `orders` of three
partitions, `secured` one with the security protocol SASL_PLAINTEXT and a user billing.
"""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import Any, cast

from groupd.coordinator.core.inspection import list_group_summaries
from groupd.coordinator.faults.errors import InvariantViolation
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.timeline import timeline_text
from groupd.testing.answers import GroupDescription, GroupEvent, GroupSummary
from groupd.testing.client_security import as_properties, plain, security_settings
from groupd.testing.client_settings import CLASSIC, ClientRole, GroupProtocol, client_config
from groupd.testing.engine import Engine
from groupd.testing.explain import GROUPS_MAX, check_group, no_group
from groupd.testing.fault_operations import FaultOperations
from groupd.testing.offset_operations import OffsetOperations
from groupd.testing.recipes import Recipes
from groupd.testing.security import MechanismName
from groupd.testing.security_operations import SecurityOperations
from groupd.testing.share_operations import ShareOperations
from groupd.testing.share_view import ShareView
from groupd.testing.topic_operations import TopicOperations
from groupd.testing.waits import Waits


class Operations(
    Waits,
    TopicOperations,
    OffsetOperations,
    ShareOperations,
    FaultOperations,
    SecurityOperations,
    Recipes,
):
    """The operations of one engine. Errors are RequestRefused unless a method says otherwise."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)

    # Groups

    async def groups(self) -> list[GroupSummary]:
        """`group_id`, `type` and `state` of every group, sorted by id.

        >>> groupd.commit("billing", {("orders", 0): 5})
        >>> groupd.groups()
        [{'group_id': 'billing', 'type': 'classic', 'state': 'Empty'}]
        """
        found = [
            summary
            for shard in self._engine.broker.shards
            if shard.state is CoordinatorState.ACTIVE
            for summary in list_group_summaries(shard.shard.state)
        ]
        return cast("list[GroupSummary]", sorted(found, key=itemgetter("group_id")))

    async def describe(self, group: str) -> GroupDescription:
        """A group as `/groups/{id}` of the admin port shows it: its state, its members, what each
        owns, and which member waits for which. Raises NotFound, also for a group that was deleted.

        >>> groupd.commit("billing", {("orders", 0): 5})
        >>> groupd.describe("billing")["state"]
        'Empty'
        """
        shown = self._engine.describe(group)
        if shown is None:
            raise no_group(self._engine, group)
        return shown

    async def events(self, group: str) -> list[GroupEvent]:
        """What happened in a group and what its clients did, oldest first. Also works for a group
        that is gone. docs/testing.md#events lists the events.

        >>> groupd.commit("billing", {("orders", 0): 5})
        >>> [event["event"] for event in groupd.events("billing")]
        ['offsets-committed']
        """
        check_group(self._engine, group)
        return self._engine.history.of(group)

    async def rebalances(self, group: str) -> int:
        """The number of rebalances: target assignments of a consumer group, completed generations
        of a classic group.

        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> _ = groupd.wait_stable("billing", members=1)
        >>> groupd.rebalances("billing")
        1
        """
        check_group(self._engine, group)
        return self._engine.history.rebalances(group)

    async def report(self) -> str:
        """The latest events of the groups that were active last, as text, and the records that
        members of share groups have.

        >>> groupd.commit("billing", {("orders", 0): 5})
        >>> print(groupd.report())
        group billing:
          ... offsets-committed ...
        """
        groups = self._engine.history.latest(GROUPS_MAX)
        texts = []
        for group in groups:
            texts.append(f"group {group}:\n{timeline_text(self._engine.history.of(group))}")
            texts.append(ShareView(self._engine, group).text())
        return "\n".join(filter(None, texts))

    # Invariants

    async def check(self) -> None:
        """Raises InvariantViolation if the coordinator has broken one of its promises so far. The
        fixture calls it at the end of each test.

        >>> groupd.check()
        """
        violations = self._engine.invariants.violations
        if violations:
            raise InvariantViolation("\n\n".join(violations))

    # Time and life

    async def advance(self, ms: int, *, keep_connected: bool = True) -> int:
        """See `HarnessClock.advance`."""
        return await self._engine.advance(ms, keep_connected=keep_connected)

    async def set_clock(self, mode: str | float) -> None:
        """Set how the time runs from now on: "real", "frozen", or a factor."""
        self._engine.clock.set_mode(mode)

    async def clock_factor(self) -> float:
        """How fast the time runs: 0 = frozen, 1 = real."""
        return self._engine.clock.factor

    async def now(self) -> tuple[int, int]:
        """The coordinator's time as (monotonic ms, wall ms)."""
        now = self._engine.clock.now()
        return now.monotonic_ms, now.wall_ms

    async def settle(self) -> None:
        """Wait until everything that has come in so far is durable and answered.

        >>> groupd.settle()
        """
        await self._engine.settle()

    async def restart(self, *, lose_memory: bool = False) -> None:
        """Stop the broker in good order and start it again on the same port, with the same logs.
        With `lose_memory` it starts with empty logs and no topics.

        >>> groupd.restart(lose_memory=True)
        >>> groupd.topics()
        {}
        """
        await self._engine.restart(lose_memory=lose_memory)

    async def client_config(
        self,
        library: str,
        *,
        user: str | None = None,
        mechanism: MechanismName | None = None,
        protocol: GroupProtocol = CLASSIC,
        role: ClientRole = "consumer",
    ) -> dict[str, Any]:
        """See `GroupCoordinator.client_config`. Raises HarnessError also for a setting that is an
        object of the library, because such an object cannot be sent as data."""
        host, port = self._engine.kafka
        made = client_config(library, f"{host}:{port}", protocol=protocol, role=role)
        secured = self._engine.secured
        login = secured.login(user, mechanism)
        token = partial(secured.token, str(user))
        token_file = partial(secured.token_file, str(user))
        return made | plain(security_settings(library, login, token, token_file))

    async def client_properties(
        self,
        *,
        user: str | None = None,
        mechanism: MechanismName | None = None,
        protocol: GroupProtocol = CLASSIC,
        role: ClientRole = "consumer",
    ) -> str:
        """See `GroupCoordinator.client_properties`."""
        return as_properties(
            await self.client_config(
                "java", user=user, mechanism=mechanism, protocol=protocol, role=role
            )
        )

    async def addresses(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """The Kafka address and the admin address; port 0 = there is no such port."""
        return self._engine.kafka, self._engine.daemon.admin_address
