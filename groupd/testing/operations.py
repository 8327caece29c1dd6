"""Everything that a test can do with its broker: the whole public interface, as coroutines.

`GroupCoordinator` has each of these as a plain method, which describes it, and, under `aio`, as
a coroutine for any event loop. They run on the broker's loop. Arguments and results are plain data,
so that the same calls can go to another process or over HTTP. Waits take their timeout in seconds
of real time.
"""

from __future__ import annotations

from functools import partial
from operator import itemgetter
from typing import Any, cast

from groupd.coordinator.core.inspection import list_group_summaries
from groupd.coordinator.runtime.shard_state import CoordinatorState
from groupd.coordinator.runtime.timeline import timeline_text
from groupd.testing.answers import GroupDescription, GroupEvent, GroupSummary
from groupd.testing.client_security import as_properties, plain, security_settings
from groupd.testing.client_settings import CLASSIC, GroupProtocol, Role, client_config
from groupd.testing.engine import Engine
from groupd.testing.errors import InvariantViolation
from groupd.testing.fault_operations import FaultOperations
from groupd.testing.known import check_group, no_group
from groupd.testing.offset_operations import OffsetOperations
from groupd.testing.recipes import Recipes
from groupd.testing.report import GROUPS_MAX
from groupd.testing.security import Mechanism
from groupd.testing.security_operations import SecurityOperations
from groupd.testing.topic_operations import TopicOperations
from groupd.testing.waits import Waits


class Operations(
    Waits, TopicOperations, OffsetOperations, FaultOperations, SecurityOperations, Recipes
):
    """The operations of one engine. Errors are RequestRefused unless a method says otherwise."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)

    # Groups

    async def groups(self) -> list[GroupSummary]:
        """See `GroupCoordinator.groups`."""
        found = [
            summary
            for shard in self._engine.broker.shards
            if shard.state is CoordinatorState.ACTIVE
            for summary in list_group_summaries(shard.shard.state)
        ]
        return cast("list[GroupSummary]", sorted(found, key=itemgetter("group_id")))

    async def describe(self, group: str) -> GroupDescription:
        """See `GroupCoordinator.describe`."""
        shown = self._engine.describe(group)
        if shown is None:
            raise no_group(self._engine, group)
        return shown

    async def events(self, group: str) -> list[GroupEvent]:
        """See `GroupCoordinator.events`."""
        check_group(self._engine, group)
        return self._engine.history.of(group)

    async def rebalances(self, group: str) -> int:
        """See `GroupCoordinator.rebalances`."""
        check_group(self._engine, group)
        return self._engine.history.rebalances(group)

    async def report(self) -> str:
        """See `GroupCoordinator.report`."""
        groups = self._engine.history.latest(GROUPS_MAX)
        return "\n".join(
            f"group {group}:\n{timeline_text(self._engine.history.of(group))}" for group in groups
        )

    # Invariants

    async def check(self) -> None:
        """See `GroupCoordinator.check`."""
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
        """See `GroupCoordinator.settle`."""
        await self._engine.settle()

    async def restart(self, *, lose_memory: bool = False) -> None:
        """See `GroupCoordinator.restart`."""
        await self._engine.restart(lose_memory=lose_memory)

    async def client_config(
        self,
        library: str,
        *,
        user: str | None = None,
        mechanism: Mechanism | None = None,
        protocol: GroupProtocol = CLASSIC,
        role: Role = "consumer",
    ) -> dict[str, Any]:
        """See `GroupCoordinator.client_config`. Settings that are objects of the library cannot be
        told: HarnessError."""
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
        mechanism: Mechanism | None = None,
        protocol: GroupProtocol = CLASSIC,
        role: Role = "consumer",
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
