"""One node of a cluster: it renews its lease, plans, takes units and gives them up (ADR 40).

It sends its questions to the database one after the other, so each answer is newer than the one
before. If it is not known whether a call was carried out (`LogUnavailable`), the call is simply
repeated: every call of `Membership` may be repeated, and a unit is served only once an answer says
that it is owned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType

import structlog

from groupd.coordinator.cluster.lease import (
    CannotFollow,
    FollowedCatalogue,
    Moment,
    NodeLease,
    Notifier,
    Renewals,
)
from groupd.coordinator.cluster.node_id import CannotJoin
from groupd.coordinator.cluster.units import HeldUnits
from groupd.coordinator.cluster.view import AnotherTimeline, ClusterView, plan
from groupd.coordinator.runtime.clock import Alarm, Clock, pause
from groupd.coordinator.runtime.ownership import UnitServer
from groupd.storage.cluster import (
    ClusterState,
    LeaseLost,
    Membership,
    NodeFacts,
    NodeIdInUse,
    NodeTooOld,
    UnitState,
)
from groupd.storage.log import LogError, LogUnavailable
from groupd.storage.units import Unit

log = structlog.get_logger("groupd.cluster")

LEAST_PAUSE_MS = 20
"""Notifications that come closer together lead to one look at the database."""

AFTER_LEASE_MS = 20
"""How long after the end of another node's lease the database is asked whether that lease is
over."""

LEASES_MAX = 3
"""A node that starts may find a lease with its own id. It waits this many lease times for the end
of that lease. If the lease is still there then, another process renews it."""


class ClusterNode:
    """The `Ownership` of this node. `servers`: by kind of unit; may be filled until `start`.
    `counts`: how many units of each kind there are. `seen()` is called when members or units have
    changed. `levels`: see `ClusterView`."""

    def __init__(
        self,
        node_id: int,
        membership: Membership,
        catalogue: FollowedCatalogue,
        clock: Clock,
        lease: NodeLease,
        servers: Mapping[str, UnitServer],
        counts: Mapping[str, int],
        renew_ms: int,
        seen: Callable[[], None] = lambda: None,
        levels: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.node_id = node_id
        self.lease = lease
        self.view = ClusterView(node_id, clock, counts, levels)
        self.renew_ns = 0
        """How long the last renewal took."""
        self.renewals = self.failures = self.fenced = 0
        """Counted since the start: renewals, those that failed, and how often the lease was
        lost."""
        self.held = HeldUnits(servers, clock, self._wake_up)
        self._membership = membership
        self._catalogue = catalogue
        self._renewals = Renewals(lease.lease_ms, catalogue, self._renewed, self._wake_up)
        self._clock = clock
        self._renew_ms = renew_ms
        self._tell = seen
        self._facts = NodeFacts(node_id)
        self._lease_over = Alarm(clock, self._check_lease)
        self._wake = asyncio.Event()
        self._asked_ms = 0
        self._states, self._unanswered = Notifier(clock), Notifier(clock)
        self._task: asyncio.Task[None] | None = None
        self._stopping = self._retired = self._settled = False
        self._refused: CannotJoin | None = None
        self._settling, self._is_refused = asyncio.Event(), asyncio.Event()

    # Ownership ----------------------------------------------------------------------------

    def may_answer(self) -> bool:
        return self.lease.valid()

    async def answering(self, since_ms: int) -> bool:
        if not self.lease.valid() and not self._stopping:
            await self._unanswered.wait(since_ms + self.lease.lease_ms)
        return self.lease.valid()

    def serves(self, unit: Unit) -> bool:
        return self.held.owns(unit) and self.lease.valid()

    def leader(self, unit: Unit) -> int | None:
        return self.node_id if self.held.owns(unit) else self.view.leader(unit)

    def leader_epoch(self, unit: Unit, since: int = 0) -> int:
        held = self.held.epoch(unit) if self.held.owns(unit) else None
        return max(-1, (self.view.epoch(unit) if held is None else held) - since)

    def only_leader(self) -> tuple[int, int] | None:
        return None

    # Life ---------------------------------------------------------------------------------

    def start(self, facts: NodeFacts) -> None:
        """Join the cluster, and stay in it until `stop`."""
        self._facts = facts
        self._membership.listen(self._wake_up)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="cluster-node")

    async def settled(self) -> None:
        """Wait until this node is a member and serves its share for the first time. Raises
        CannotJoin."""
        await self._settling.wait()
        if self._refused is not None:
            raise self._refused

    @property
    def not_ready(self) -> str | None:
        """Says why this node does not serve its share now; None if it does."""
        if not self.lease.valid():
            return "the lease in the database is not renewed"
        if self._stopping:
            return "the node leaves the cluster"
        waiting = self._unserved()
        return f"{waiting} units are not served yet" if waiting else None

    async def stop(self, timeout_ms: int) -> None:
        """Hand all units over and leave. What is not done in time is dropped."""
        self._stopping = True
        self._wake.set()
        if self._task is not None:
            timer = self._clock.call_at(self._clock.monotonic_ms() + timeout_ms, self._cancel_task)
            await asyncio.wait([self._task])
            timer.cancel()
        self._renewals.close()
        self.lease.end()
        self._lease_over.cancel()
        self.held.drop_all()
        self._states.notify()
        self._unanswered.notify()

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def spread(self, version: int) -> None:
        """Wait until every other member uses this version of the catalogue or a newer one. A member
        that does not get there has no valid lease any more when this returns."""
        longest_ms = max([self.lease.lease_ms, *(one.facts.lease_ms for one in self.view.others)])
        until_ms, pause_ms = self._clock.monotonic_ms() + longest_ms, 0
        while self.view.behind(version) and self._clock.monotonic_ms() < until_ms:
            self._wake.set()
            await self._states.wait(until_ms)
            if self._stopping:
                return
            await pause(self._clock, pause_ms)
            pause_ms = min(2 * pause_ms + LEAST_PAUSE_MS, self._renew_ms)

    async def drain(self, node_id: int, draining: bool) -> bool:
        """Let a node drain or resume: see `Membership.drain`. Raises LogError."""
        known = await self._membership.drain(node_id, draining)
        self._wake.set()
        return known

    # The loop -----------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self._stopping:
            try:
                if await self._join():
                    await self._stay()
            except CannotJoin as refused:
                log.error("this process cannot be a node any more", reason=str(refused))
                self._refused = refused
                self._settling.set()
                self._is_refused.set()
                return
            except LeaseLost:
                self.fenced += 1
                log.warning("this node was fenced: it begins anew", node=self.node_id)
            except CannotFollow:
                log.error("the catalogue cannot be followed: others are to serve the units")
                await self._begin_anew()
            except AnotherTimeline as other:
                log.warning("the database was replaced: all is read again", timeline=str(other))
                self._catalogue.forget()
                await self._begin_anew()
            except Exception:
                log.exception("the cluster's protocol failed: this node begins anew")
                self._forget()
                await pause(self._clock, self._renew_ms)
            self._forget()

    async def _begin_anew(self) -> None:
        self._forget()
        with suppress(LogError):
            await self._membership.leave()

    def _forget(self) -> None:
        self.lease.end()
        self.held.drop_all()
        self._renewals.forget()
        self.view.forget()

    async def refused(self) -> str:
        """Wait until this process cannot be a node. Returns one line that says why."""
        await self._is_refused.wait()
        return str(self._refused)

    async def _join(self) -> bool:
        """Join the cluster. Returns False if this node was told to stop first."""
        given_up_ms = self._clock.monotonic_ms() + LEASES_MAX * self.lease.lease_ms
        while not self._stopping:
            self._wake.clear()
            try:
                await self._catalogue.catch_up()
                incarnation = await self._membership.join(self._facts, self.lease.lease_ms)
            except NodeIdInUse as used:
                if self._clock.monotonic_ms() > given_up_ms and not self._settled:
                    raise CannotJoin(f"node.id={self.node_id}: another node has it") from used
                log.info("waiting for an earlier lease to end", node=self.node_id, ms=used.left_ms)
                await self._sleep(max(used.left_ms, 0) + AFTER_LEASE_MS)
            except NodeTooOld as old:
                raise CannotJoin(str(old)) from old
            except LogUnavailable as error:
                self._failed(error)
                await self._sleep(self._renew_ms)
            else:
                log.info("joined", node=self.node_id, incarnation=incarnation)
                self._retired = False
                return True
        return False

    async def _stay(self) -> None:
        while True:
            self._asked_ms = self._clock.monotonic_ms()
            self._wake.clear()
            try:
                await self._turn()
                if self._stopping and await self._left():
                    return
            except LogUnavailable as error:
                self._failed(error)
            self._states.notify()
            await self._wait()

    async def _turn(self) -> None:
        sent, started_ms = self.lease.now(), self._clock.monotonic_ms()
        state = await self._membership.renew(
            self.lease.lease_ms, self._catalogue.applied, self.view.units_version
        )
        self.renewals += 1
        self.renew_ns = (self._clock.monotonic_ms() - started_ms) * 1_000_000
        self._see(state)
        self._renewals.answered(state.catalogue, sent)
        if self._stopping and not self._retired:
            await self._membership.retire()
            self._retired = True
            if self._may_fence():
                self._see(await self._membership.plan(plan, self.view.counts))
            self.held.give_up_all()
        elif self._must_plan():
            self._see(await self._membership.plan(plan, self.view.counts))
            if self.view.missing:  # of kinds that the cluster has since the plan raised its level
                self._see(await self._membership.plan(plan, self.view.counts))
        if not self._stopping:
            units = self.view.units.values()
            self.held.give_up([one.unit for one in units if self._wanted_elsewhere(one)])
            if any(self._can_take(one) for one in units):
                self.held.take(await self._membership.acquire())
                self._tell()
        releasable = self.held.releasable
        if releasable:
            await self._membership.release(releasable)
            self.held.forget([one.unit for one in releasable])
        self._settle()

    async def _left(self) -> bool:
        """Leave the cluster if all units are released. Returns whether they are."""
        if len(self.held):
            return False
        await self._membership.leave()
        return True

    def _wanted_elsewhere(self, one: UnitState) -> bool:
        return one.wanted not in (None, self.node_id)

    def _can_take(self, one: UnitState) -> bool:
        """Whether the unit waits for this node. A unit that is owned by this node but not held
        waits too: the answer to an earlier `acquire` was lost."""
        if one.unit in self.held:
            return False
        return one.owner == self.node_id or (one.owner is None and one.wanted == self.node_id)

    def _must_plan(self) -> bool:
        return self._may_fence() if self.view.has_dead else not self.view.is_planned

    def _may_fence(self) -> bool:
        """Whether nodes whose leases are over may be fenced, if there are any. If no node could
        reach the database, they get time to come back."""
        return not self.view.has_dead or self.lease.held_ms >= self.lease.lease_ms

    # What the database says ---------------------------------------------------------------

    def _see(self, state: ClusterState) -> None:
        """Take in what the database has answered. Raises LeaseLost, AnotherTimeline."""
        changed = self.view.see(state)
        if state.units is not None:
            self._check_owned()
        if changed:
            self._tell()

    def _check_owned(self) -> None:
        """Compare the units that are held here with what the database says. Raises LeaseLost."""
        gone = [
            one.unit
            for one in self.view.units.values()
            if one.unit in self.held
            and (one.owner, one.epoch) != (self.node_id, self.held.epoch(one.unit))
        ]
        if set(gone) - {one.unit for one in self.held.releasable}:
            raise LeaseLost(f"units of node {self.node_id} have another owner")
        # These units were released, but the answer was lost.
        self.held.forget(gone)

    def _renewed(self, sent: Moment) -> None:
        self._check_lease()
        self.lease.renewed(sent)
        if self.lease.valid():
            self.held.resume()
            self._check_lease()
            self._unanswered.notify()

    def _check_lease(self) -> None:
        """Once the lease is over, drop what is in memory. Otherwise the sessions of members would
        end in that time, because no node answers their heartbeats."""
        if not self.lease.valid():
            self.held.suspend()
            return
        self._lease_over.cancel()
        self._lease_over.at_latest(self._clock.monotonic_ms() + self.lease.left_ms + 1)

    def _settle(self) -> None:
        if not self._settled and self.lease.valid() and not self._unserved():
            self._settled = True
            self._settling.set()

    def _unserved(self) -> int:
        """How many units should be served here and are not."""
        waiting = sum(
            one.wanted == self.node_id and one.unit not in self.held
            for one in self.view.units.values()
        )
        return waiting + self.view.missing + self.held.loading

    # Waiting ------------------------------------------------------------------------------

    async def _wait(self) -> None:
        """Wait until the next renewal is due, the lease of another node may be over, or something
        has changed."""
        due_ms = self._asked_ms + self._renew_ms
        for one in self.view.live_others:
            over_ms = self._clock.monotonic_ms() + self.view.left_ms(one)
            due_ms = min(due_ms, over_ms + AFTER_LEASE_MS)
        early_ms = self._asked_ms + LEAST_PAUSE_MS - self._clock.monotonic_ms()
        if early_ms > 0:
            await pause(self._clock, early_ms)
        await self._sleep(due_ms - self._clock.monotonic_ms())

    async def _sleep(self, delay_ms: int) -> None:
        """Wait for this time, or until `_wake` is set."""
        if delay_ms <= 0:
            return
        timer = self._clock.call_at(self._clock.monotonic_ms() + delay_ms, self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    def _wake_up(self) -> None:
        self._wake.set()

    def _failed(self, error: LogUnavailable) -> None:
        self.failures += 1
        self._renewals.failed()
        level = log.warning if self.failures == 1 or not self.lease.valid() else log.info
        level("the database does not answer", node=self.node_id, reason=str(error))
