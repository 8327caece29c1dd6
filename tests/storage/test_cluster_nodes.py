"""Nodes of a cluster on a real PostgreSQL: who serves what, when one stops, dies or is fenced, and
when the server is away. The units are the toy ones of the simulator's kind: a list in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import pytest

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.cluster.lease import NodeLease, since_boot_ns
from groupd.coordinator.cluster.node import ClusterNode
from groupd.coordinator.runtime.clock import SystemClock
from groupd.storage import postgres_membership
from groupd.storage.cluster import ClusterState, NodeFacts
from groupd.storage.log import Append, ConfigEntry, LogFenced, LogUnavailable
from groupd.storage.postgres_cluster import ClusterStore, cluster_store
from groupd.storage.units import GROUPS, PARTITIONS, OwnedUnit, Unit
from tests.support.postgres import PostgresServer, running_postgres, running_standby

LEASE_MS, RENEW_MS = 900, 200
COUNTS = {GROUPS: 6, PARTITIONS: 5}
UNITS = [Unit(kind, number) for kind, count in COUNTS.items() for number in range(count)]


async def until(condition: Callable[[], bool]) -> None:
    """Waits until the condition is true; the nodes and the server work in real time."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


class Served:
    """A `UnitServer` that opens a log for each unit."""

    def __init__(self, store: ClusterStore) -> None:
        self.store = store
        self.logs: dict[Unit, Append] = {}
        """The append that comes next to the log of each unit that is served."""

    async def serve(self, unit: Unit, epoch: int) -> None:
        name = f"{unit.kind}-{unit.number}"
        state = await self.store.open(name, OwnedUnit(unit, epoch))
        end = state.next_offset
        self.logs[unit] = Append(name, state.owner_epoch, end, end, 1, b"value")

    async def give_up(self, unit: Unit) -> None:
        del self.logs[unit]

    def drop(self, unit: Unit) -> None:
        self.logs.pop(unit, None)

    async def write(self, unit: Unit) -> int:
        """The offset of a value that is durable."""
        append = self.logs[unit]
        await self.store.append([append])
        end = append.last_offset + 1
        self.logs[unit] = Append(append.name, append.owner_epoch, end, end, 1, b"value")
        return append.base_offset


class LeaseClock:
    """The clock of a node's lease. Slowed down, hardly any time passes for the lease, however busy
    the machine is. So the node never holds its lease for long enough to fence others."""

    def __init__(self) -> None:
        self._slow_from: int | None = None

    def slow_down(self) -> None:
        self._slow_from = since_boot_ns()

    def elapsed_ns(self) -> int:
        now = since_boot_ns()
        if self._slow_from is None:
            return now
        return self._slow_from + (now - self._slow_from) // 1000


class Member:
    def __init__(self, url: str, node_id: int, lease_ms: int = LEASE_MS) -> None:
        self.lease_clock = LeaseClock()
        self.store = cluster_store(url)
        self.host = Served(self.store)
        self.changes = CatalogueChanges(self.store.journal)
        self.node = ClusterNode(
            node_id,
            self.store.membership,
            self.changes,
            SystemClock(),
            NodeLease(lease_ms, self.lease_clock.elapsed_ns),
            {GROUPS: self.host, PARTITIONS: self.host},
            COUNTS,
            RENEW_MS,
        )

    async def start(self) -> Member:
        await self.store.start()
        self.node.start(NodeFacts(self.node.node_id))
        return self

    @property
    def units(self) -> set[Unit]:
        """What this node answers for."""
        return {unit for unit in self.host.logs if self.node.serves(unit)}

    async def die(self) -> None:
        """Like kill -9: nothing is given up."""
        task = self.node._task
        assert task is not None
        task.cancel()
        await asyncio.wait([task])
        await self.store.close()


StartMember = Callable[[int], Awaitable[Member]]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine answers late; nothing here is about that."""
    monkeypatch.setattr(postgres_membership, "ANSWER_MS", 20_000)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of this module, which is stopped and started."""
    with running_postgres() as server:
        yield server


@pytest.fixture
async def member(server: PostgresServer) -> AsyncIterator[StartMember]:
    """Starts members, which are stopped in the end."""
    url = server.url(server.emptied_database())
    made: list[Member] = []

    async def start(node_id: int) -> Member:
        made.append(Member(url, node_id))
        return await made[-1].start()

    yield start
    for one in made:
        await one.node.stop(1000)
        await one.store.close()


def shared_by(*members: Member) -> Callable[[], bool]:
    """Whether they serve everything, each its share, and nothing twice."""

    def settled() -> bool:
        shares = [one.units for one in members]
        together = sorted(unit for share in shares for unit in share)
        sizes = [len(share) for share in shares]
        return together == sorted(UNITS) and max(sizes) - min(sizes) <= 1

    return settled


def leases_over(*members: Member) -> Callable[[], bool]:
    """Whether their leases are over by the clock of the database, too."""
    return lambda: min(one.node.lease.age_ms for one in members) > LEASE_MS + RENEW_MS


async def test_members_come_and_go(member: StartMember) -> None:
    first = await member(1)
    await until(shared_by(first))
    assert await first.host.write(UNITS[0]) == 0
    second, third = await asyncio.gather(member(2), member(3))
    await until(shared_by(first, second, third))
    # Everybody knows who serves what, and at which epoch.
    await until(lambda: knows_all(first, second, third))
    await second.node.stop(3000)
    assert second.units == set()
    await until(shared_by(first, third))
    # What was written is there wherever the unit is now.
    owner = first if UNITS[0] in first.units else third
    assert await owner.host.write(UNITS[0]) == 1


def knows_all(*members: Member) -> bool:
    owners = {unit: one.node.node_id for one in members for unit in one.units}
    epochs = {unit: one.node.leader_epoch(unit) for one in members for unit in one.units}
    return all(
        (one.node.leader(unit), one.node.leader_epoch(unit)) == (owners.get(unit), epochs.get(unit))
        for one in members
        for unit in UNITS
    )


async def test_the_units_of_a_dead_member_are_served_by_the_others(member: StartMember) -> None:
    first, second = await member(1), await member(2)
    await until(shared_by(first, second))
    unit = min(first.units)
    await first.die()
    await until(shared_by(second))
    assert await second.host.write(unit) == 0


async def test_a_member_that_cannot_renew_answers_no_more_and_never_writes(
    member: StartMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await member(1), await member(2)
    await until(shared_by(first, second))
    unit = min(first.units)
    append = first.host.logs[unit]
    go_on = asyncio.Event()
    renew = first.store.membership.renew

    async def stuck(*arguments: int) -> object:
        await go_on.wait()
        return await renew(*arguments)

    monkeypatch.setattr(first.store.membership, "renew", stuck)
    await until(shared_by(second))
    assert first.units == set()
    assert not first.node.may_answer()
    with pytest.raises(LogFenced):
        await first.store.append([append])
    assert await second.host.write(unit) == 0
    # It learns that it was fenced, and begins anew.
    go_on.set()
    await until(shared_by(first, second))
    assert first.node.fenced == 1


async def test_all_goes_on_when_the_server_is_back(
    member: StartMember, server: PostgresServer
) -> None:
    first, second = await member(1), await member(2)
    await until(shared_by(first, second))
    mine = set(first.units)
    server.stop()
    await until(leases_over(first, second))
    assert not first.node.may_answer()
    assert first.units | second.units == set()
    # The one that is back first must not fence the other; after a whole lease it might.
    first.lease_clock.slow_down()
    second.lease_clock.slow_down()
    server.start()
    await until(shared_by(first, second))
    # Nobody was robbed while nobody could renew.
    assert first.units == mine
    assert (first.node.fenced, second.node.fenced) == (0, 0)


async def test_a_drained_member_serves_nothing_until_it_resumes(member: StartMember) -> None:
    first, second = await member(1), await member(2)
    await until(shared_by(first, second))
    assert await second.node.drain(1, True)
    await until(shared_by(second))
    assert first.node.not_ready is None
    assert await first.node.drain(1, False)
    await until(shared_by(first, second))


async def test_a_change_of_the_catalogue_reaches_every_member(member: StartMember) -> None:
    first, second = await member(1), await member(2)
    await until(shared_by(first, second))
    entry = ConfigEntry(4, "", "log.retention.ms", "5")
    await first.changes.make(lambda: first.store.put_configs([entry]))
    await first.node.spread(first.changes.made)
    assert second.store.journal.applied == first.store.journal.applied == 1


async def test_a_standby_takes_the_place_of_the_server() -> None:
    """With synchronous replication nothing is lost, and everything in memory is read again."""
    with running_postgres() as server, running_standby(server) as standby:
        database = server.new_database()
        server.wait_for_standbys()
        url = server.url_with(standby, database)
        # Leases that a busy disk does not outlast: the units must stay where they are.
        first, second = [await Member(url, number, 3000).start() for number in (1, 2)]
        await until(shared_by(first, second))
        writes = {unit: await one.host.write(unit) for one in (first, second) for unit in one.units}
        assert set(writes.values()) == {0}
        epochs = {unit: first.node.leader_epoch(unit) for unit in UNITS}
        server.kill()
        await until(lambda: not first.node.may_answer() and not second.node.may_answer())
        standby.promote()
        await until(shared_by(first, second))
        for one in (first, second):
            for unit in one.units:
                # Acquired anew on the other timeline, and nothing is missing.
                assert one.node.leader_epoch(unit) > epochs[unit]
                assert await one.host.write(unit) == 1
        for one in (first, second):
            await one.node.stop(1000)
            await one.store.close()


async def test_a_member_that_cannot_follow_the_catalogue_leaves_until_it_can(
    member: StartMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = await member(1), await member(2)
    await until(shared_by(first, second))

    async def away() -> None:
        raise LogUnavailable("too many connections")

    with monkeypatch.context() as patch:
        patch.setattr(second.changes, "catch_up", away)
        entry = ConfigEntry(4, "", "log.retention.ms", "5")
        await first.changes.make(lambda: first.store.put_configs([entry]))
        await until(shared_by(first))
        assert second.units == set()
    await until(shared_by(first, second))
    assert second.store.journal.applied == 1


async def test_a_member_that_stops_fences_nobody_at_once(
    member: StartMember, server: PostgresServer
) -> None:
    """The others may come back, if the server was away for all of them."""
    first, second = await member(1), await member(2)
    await until(shared_by(first, second))
    incarnations = {one.facts.node_id: one.incarnation for one in first.node.view.members}
    server.stop()
    await until(leases_over(first, second))
    assert second.node._task is not None
    monitor = second.store.membership
    renew = monitor.renew

    async def late(*args: int) -> ClusterState:
        await gone.wait()
        return await renew(*args)

    gone = asyncio.Event()
    monitor.renew = late  # type: ignore[method-assign]
    first.lease_clock.slow_down()
    server.start()
    await first.node.stop(20_000)
    gone.set()
    await until(shared_by(second))
    members = {one.facts.node_id: one.incarnation for one in second.node.view.members}
    assert members == {2: incarnations[2]}
