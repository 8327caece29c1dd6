"""Named incidents: things that go wrong in production, each as one call.

Wherever it can, a recipe puts the coordinator into the real situation instead of answering with a
made-up error, so that its state, the client's reaction and the invariants fit together. Each recipe
returns `faults`, the numbers of the faults that it added (`release_fault` ends the incident), and
the members that it hit. Raises HarnessError when there is no member to hit.
"""

from __future__ import annotations

import asyncio
from typing import Any

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.consumer_group.member import LEAVE_STATIC_EPOCH
from groupd.coordinator.core.epochs import LEAVE_EPOCH
from groupd.coordinator.core.group_types import type_of
from groupd.coordinator.core.share_group.group import ShareGroup
from groupd.coordinator.faults.errors import HarnessError, RequestRefused
from groupd.coordinator.faults.spec import FIND_COORDINATOR, make_spec
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import (
    JoinGroupRequest,
    LeaveGroupRequest,
    LeavingMember,
)
from groupd.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest
from groupd.protocol.messages.share_group import ShareGroupHeartbeatRequest
from groupd.testing.answers import RecipeResult
from groupd.testing.engine import Engine
from groupd.testing.explain import check_group
from groupd.testing.share_recipes import SHARE_RECIPES, ShareRecipes

HEARTBEAT_VERSION = 1
JOIN_VERSION = 9
LEAVE_VERSION = 5
TAKEOVER_TIMEOUT_S = 5.0
IMPOSTOR = "-impostor"
OUTAGE_MAX = 1000
RECIPES = (
    "zombie_member",
    "slow_rebalance",
    "coordinator_failover",
    "offset_expiry",
    "static_member_conflict",
    "fatal_heartbeat_error",
    "unknown_member_storm",
    *SHARE_RECIPES,
)


class Recipes(ShareRecipes):
    """The recipes of one engine. The examples use `groupd.recipes`, which turns what a recipe
    returns into an `Incident`."""

    _engine: Engine

    async def zombie_member(self, group: str, member: str | None = None) -> RecipeResult:
        """A member hangs for longer than its session: nothing that it sends gets through, the clock
        moves on by its session timeout, the others take its partitions, and it still believes that
        it owns them. `release()` lets its late requests through; they are refused. `member`: its id
        or group.instance.id; None = the first by id.

        Other connected members keep their sessions. The recipe cannot tell whether the client has a
        request under way.

        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> members = groupd.wait_members("billing", 1)
        >>> with groupd.recipes.zombie_member("billing") as incident:
        ...     incident.result["members"] == members
        True
        """
        member_id = self._member(group, member)
        given = {"api": "member", "group": group, "member": member_id}
        fault = self._add("hold", given)
        self._engine.silence(group, member_id)
        await self._engine.advance(self._session_ms(group, member_id), keep_connected=True)
        return {"faults": [fault], "members": [member_id]}

    async def slow_rebalance(self, group: str, ms: int | None = None) -> RecipeResult:
        """Every step of a rebalance (JoinGroup, SyncGroup, consumer heartbeats) takes `ms` longer
        on the coordinator's clock; None = it is held until `release()`.

        >>> with groupd.recipes.slow_rebalance("billing") as incident:
        ...     consumer = groupd.consumer("billing", "orders", protocol="consumer")
        ...     incident.faults[0].wait(1)
        1
        """
        given = {"api": ("JoinGroup", "SyncGroup", "ConsumerGroupHeartbeat"), "group": group}
        fault = self._add("hold", given) if ms is None else self._add("delay", {**given, "ms": ms})
        return {"faults": [fault]}

    async def coordinator_failover(
        self, group: str, *, applied: bool = True, outage: int = 3
    ) -> RecipeResult:
        """The coordinator dies in the middle of the group's next commit, before (`applied=False`)
        or after writing it: the connection breaks without an answer, and the next `outage` requests
        of the group meet NOT_COORDINATOR. The next FindCoordinator finds no coordinator.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.consumer("billing", "orders", enable_auto_commit=False)
        >>> message = consumer.poll(10)
        >>> with groupd.recipes.coordinator_failover("billing") as incident:
        ...     offsets = consumer.commit(message, asynchronous=False)
        ...     incident.hits > 0
        True
        """
        if not 1 <= outage <= OUTAGE_MAX:
            raise HarnessError(f"outage must be from 1 to {OUTAGE_MAX}")
        given = {"api": "OffsetCommit", "group": group, "count": 1, "applied": applied}
        dies = self._add("close", given)
        after = {"group": group, "after": dies}
        gone = {**after, "api": "group", "code": "NOT_COORDINATOR", "count": outage}
        code = "COORDINATOR_NOT_AVAILABLE"
        nobody = {**after, "api": FIND_COORDINATOR, "code": code, "count": 1}
        return {"faults": [dies, self._add("error", gone), self._add("error", nobody)]}

    async def offset_expiry(self, group: str) -> RecipeResult:
        """The group was empty for longer than `offsets.retention.minutes`: the clock moves on by
        that time and one retention check, and the group's offsets expire. Raises HarnessError for a
        group with members or without offsets.

        >>> groupd.commit("billing", {("orders", 0): 5})
        >>> groupd.recipes.offset_expiry("billing").result["expired"]
        [('orders', 0)]
        """
        check_group(self._engine, group)
        shown = self._engine.describe(group)
        if shown is not None and shown["members"]:
            raise HarnessError(f"group {group} has members: its offsets do not expire")
        before = {place for place in self._engine.offsets if place[0] == group}
        if not before:
            raise HarnessError(f"group {group} has no offsets")
        config = self._engine.config
        retention_ms = config.offsets_retention_minutes * 60_000
        pause_ms = config.offsets_retention_check_interval_ms
        await self._engine.advance(retention_ms + pause_ms + 1, keep_connected=True)
        gone = sorted(before - self._engine.offsets.keys())
        return {"faults": [], "expired": [(topic, partition) for _, topic, partition in gone]}

    async def static_member_conflict(self, group: str, instance: str) -> RecipeResult:
        """A second process with the same group.instance.id takes the member's place; the first one
        gets FENCED_INSTANCE_ID. `result["members"]`: the fenced member and the new one.

        This is what happens when a configuration is copied. The second process sends nothing more,
        so its session ends after its timeout.

        >>> consumer = groupd.consumer("billing", "orders", group_instance_id="one")
        >>> _ = groupd.wait_stable("billing", members=1)
        >>> len(groupd.recipes.static_member_conflict("billing", "one").result["members"])
        2
        """
        check_group(self._engine, group)
        live = self._live(group)
        old_id = live.static_members.get(instance) if live is not None else None
        if live is None or old_id is None:
            raise HarnessError(f"group {group} has no member with group.instance.id {instance}")
        try:
            async with asyncio.timeout(TAKEOVER_TIMEOUT_S):
                if isinstance(live, ClassicGroup):
                    new_id = await self._take_classic(live, instance, old_id)
                else:
                    new_id = await self._take_consumer(live, instance, old_id)
        except TimeoutError:
            raise HarnessError(f"group {group} is rebalancing: wait_stable first") from None
        return {"faults": [], "members": [old_id, new_id]}

    async def fatal_heartbeat_error(
        self, group: str, code: str | None = None, member: str | None = None
    ) -> RecipeResult:
        """A heartbeat of the group (or of `member`) is refused with an error from which clients do
        not recover. With `code`, one heartbeat gets that error. Without it, the error is one that
        is fatal to the present members, named by `result["code"]` (docs/testing.md#recipes).

        - the consumer protocol: GROUP_AUTHORIZATION_FAILED to the next heartbeat;
        - a classic member with a group.instance.id: FENCED_INSTANCE_ID to everything that it sends;
        - other classic members: GROUP_AUTHORIZATION_FAILED to everything that they send, as from a
          broker that has withdrawn their permission. A single refused Heartbeat does not stop
          librdkafka: it joins again when its own session.timeout.ms is over, and only then reports
          the missing permission.

        >>> groupd.recipes.fatal_heartbeat_error("billing").result["code"]
        'GROUP_AUTHORIZATION_FAILED'
        """
        classic, fixed_id = self._spoken(group, member)
        given: dict[str, Any] = {"group": group, "member": member}
        if code is not None or not classic:
            if code == ErrorCode.FENCED_INSTANCE_ID.name and classic and fixed_id is None:
                raise HarnessError(f"group {group}: no group.instance.id to be fenced by")
            given |= {"api": "heartbeat", "count": 1}
            code = code or ErrorCode.GROUP_AUTHORIZATION_FAILED.name
        elif fixed_id is not None:
            given |= {"api": "member", "member": fixed_id}
            code = ErrorCode.FENCED_INSTANCE_ID.name
        else:
            given |= {"api": "member"}
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED.name
        fault = self._add("error", {**given, "code": code})
        return {"faults": [fault], "code": code}

    async def unknown_member_storm(self, group: str) -> RecipeResult:
        """The coordinator has forgotten every member at once: each gets UNKNOWN_MEMBER_ID, and all
        of them join again.

        >>> _ = groupd.produce("orders", ["coffee"])
        >>> consumer = groupd.consumer("billing", "orders", protocol="consumer")
        >>> consumer.poll(10).value()
        b'coffee'
        >>> members = groupd.wait_members("billing", 1)
        >>> groupd.recipes.unknown_member_storm("billing").result["members"] == members
        True
        >>> consumer.poll(10).value()  # it has joined again, and what it had read is not committed
        b'coffee'
        """
        check_group(self._engine, group)
        live = self._engine.group(group)
        members = sorted(live.members) if live is not None else []
        if not members:
            raise HarnessError(f"group {group} has no members")
        await asyncio.gather(*(self._forget(live, member_id) for member_id in members))
        return {"faults": [], "members": members}

    # Helpers of the recipes

    def _add(self, action: str, given: dict[str, Any]) -> int:
        return self._engine.add_fault(make_spec(action, given))

    def _live(self, group: str) -> ClassicGroup | ConsumerGroup | None:
        live = self._engine.group(group)
        return live if isinstance(live, ClassicGroup | ConsumerGroup) else None

    def _member(self, group: str, wanted: str | None) -> str:
        check_group(self._engine, group)
        live = self._engine.group(group)
        members = sorted(live.members) if live is not None else []
        if live is not None and wanted is not None:
            identify = type_of(live).identify
            by_instance = {identify(live, one).instance_id: one for one in members}
            wanted = by_instance.get(wanted, wanted)
            members = [wanted] if wanted in live.members else []
        if not members:
            raise HarnessError(f"group {group} has no member {wanted or ''}".rstrip())
        return members[0]

    def _spoken(self, group: str, wanted: str | None) -> tuple[bool, str | None]:
        """Returns whether the member `wanted` (None = the first member) speaks the classic
        protocol, which it may also do in a consumer group; and its id if it is static, else None.
        Returns (False, None) if the group has no member."""
        live = self._live(group)
        if live is None or not live.members:
            return False, None
        member_id = self._member(group, wanted)
        classic = isinstance(live, ClassicGroup) or live.members[member_id].classic is not None
        return classic, member_id if member_id in live.static_members.values() else None

    def _session_ms(self, group: str, member_id: str) -> int:
        live = self._engine.group(group)
        shard, session = self._engine.broker.own_shard_of(group), None
        if live is not None and shard is not None:
            session = type_of(live).session(shard.shard.state, live, member_id)
        if session is None:
            raise HarnessError(f"member {member_id} of group {group} has no session")
        return session[1]

    async def _forget(self, live: Any, member_id: str) -> None:
        native = isinstance(live, ConsumerGroup) and live.members[member_id].classic is None
        if isinstance(live, ShareGroup):
            share_beat = ShareGroupHeartbeatRequest(live.group_id, member_id, LEAVE_EPOCH)
            _check((await self._engine.ask(share_beat, HEARTBEAT_VERSION)).error)
        elif native:
            beat = ConsumerGroupHeartbeatRequest(live.group_id, member_id, LEAVE_EPOCH)
            _check((await self._engine.ask(beat, HEARTBEAT_VERSION)).error)
        else:
            leave = LeaveGroupRequest(live.group_id, (LeavingMember(member_id),))
            _check((await self._engine.ask(leave, LEAVE_VERSION)).error)

    async def _take_consumer(self, live: ConsumerGroup, instance: str, old_id: str) -> str:
        group, old = live.group_id, live.members[old_id]
        new_id = old_id + IMPOSTOR
        leave = ConsumerGroupHeartbeatRequest(group, old_id, LEAVE_STATIC_EPOCH, instance)
        _check((await self._engine.ask(leave, HEARTBEAT_VERSION)).error)
        join = ConsumerGroupHeartbeatRequest(
            group,
            new_id,
            0,
            instance,
            rebalance_timeout_ms=old.rebalance_timeout_ms,
            subscribed_topic_names=old.subscribed_topic_names,
            subscribed_topic_regex=old.subscribed_topic_regex or None,
            topic_partitions=(),
        )
        _check((await self._engine.ask(join, HEARTBEAT_VERSION)).error)
        return new_id

    async def _take_classic(self, live: ClassicGroup, instance: str, old_id: str) -> str:
        old = live.members[old_id]
        join = JoinGroupRequest(
            live.group_id,
            old.session_timeout_ms,
            old.rebalance_timeout_ms,
            "",
            live.protocol_type,
            old.protocols,
            instance,
        )
        reply = await self._engine.ask(join, JOIN_VERSION)
        _check(reply.error)
        return str(reply.member_id)


def _check(code: ErrorCode) -> None:
    if code is not ErrorCode.NONE:
        raise RequestRefused(f"{code.name}: the recipe cannot go on")
