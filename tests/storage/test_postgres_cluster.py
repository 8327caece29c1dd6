"""Several stores on one database: members, units, fencing, the order of the catalogue's changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial

import pytest
from msgspec.structs import replace

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.storage import postgres_membership
from groupd.storage.cluster import (
    EPOCH_STEP,
    CatalogueBehind,
    ClusterState,
    LeaseLost,
    NodeFacts,
    NodeIdInUse,
    NodeState,
    NodeTooOld,
    UnitState,
)
from groupd.storage.log import (
    Append,
    ConfigEntry,
    LogCorrupt,
    LogFenced,
    MadePartitions,
    SecurityEntry,
    StoredTopic,
    StoreRefused,
)
from groupd.storage.membership_rows import PRODUCER_IDS_LOST
from groupd.storage.open import create_store
from groupd.storage.postgres_cluster import ClusterStore, cluster_store
from groupd.storage.units import GROUPS, PARTITIONS, OwnedUnit, Unit
from tests.support.loop_turns import until
from tests.support.postgres import PostgresServer

LEASE_MS = 300
LONG_MS = 30_000
COUNTS = {GROUPS: 4, PARTITIONS: 2}
TOPIC = StoredTopic(bytes(range(16)), "orders", 3)
MakeNode = Callable[[], ClusterStore]


@pytest.fixture
def database(postgres: PostgresServer) -> str:
    return postgres.emptied_database()


@pytest.fixture
async def new_node(postgres: PostgresServer, database: str) -> AsyncIterator[MakeNode]:
    """Makes stores, not started, on one database."""
    made: list[ClusterStore] = []

    def make() -> ClusterStore:
        made.append(cluster_store(postgres.url(database)))
        return made[-1]

    yield make
    for one in made:
        await one.close()


@pytest.fixture
async def nodes(new_node: MakeNode) -> list[ClusterStore]:
    """Two that have started."""
    both = [new_node(), new_node()]
    for one in both:
        await one.start()
    return both


def all_on(node_id: int) -> Callable[..., Mapping[Unit, int]]:
    """A plan that wants everything on one node."""

    def decide(nodes: Sequence[NodeState], units: Sequence[UnitState]) -> Mapping[Unit, int]:
        return {one.unit: node_id for one in units}

    return decide


def by_number(nodes: Sequence[NodeState], units: Sequence[UnitState]) -> Mapping[Unit, int]:
    ids = [one.facts.node_id for one in nodes]
    return {one.unit: ids[one.unit.number % len(ids)] for one in units}


async def join(node: ClusterStore, node_id: int, lease_ms: int = LONG_MS) -> int:
    facts = NodeFacts(node_id, (("PLAINTEXT", "127.0.0.1", 9092),), rack="a", version="1.0")
    return await node.membership.join(facts, lease_ms)


async def look(node: ClusterStore, known: int = -1) -> ClusterState:
    return await node.membership.renew(LONG_MS, 0, known)


@pytest.fixture
def end_lease(postgres: PostgresServer, database: str) -> Callable[[int], None]:
    """Ends the lease of a node, as time would."""

    def end(node_id: int) -> None:
        postgres.execute(
            database,
            f"UPDATE cluster_node SET lease_until_ms = 1 WHERE node_id = {node_id} RETURNING 1",
        )

    return end


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine answers late; nothing here is about that."""
    monkeypatch.setattr(postgres_membership, "ANSWER_MS", 20_000)


async def owned_log(node: ClusterStore, name: str = "__consumer_offsets-0") -> Append:
    """Opens a log of unit 0, which the node owns, and returns a first append to it."""
    (unit,) = [one for one in await node.membership.acquire() if one.unit == Unit(GROUPS, 0)]
    state = await node.open(name, OwnedUnit(unit.unit, unit.epoch))
    return Append(name, state.owner_epoch, state.next_offset, state.next_offset, 1, b"payload")


def following(append: Append) -> Append:
    offset = append.last_offset + 1
    return Append(append.name, append.owner_epoch, offset, offset, 1, b"more")


# Who may use the database


async def test_three_nodes_start_at_once_on_an_empty_database(new_node: MakeNode) -> None:
    three = [new_node() for _ in range(3)]
    await asyncio.gather(*(one.start() for one in three))
    assert len({await one.cluster_id() for one in three}) == 1


async def test_a_cluster_and_a_daemon_that_is_alone_keep_each_other_out(
    postgres: PostgresServer, database: str, new_node: MakeNode
) -> None:
    alone = create_store(postgres.url(database), ".")
    await alone.start()
    with pytest.raises(StoreRefused, match="which runs without --cluster: stop it"):
        await new_node().start()
    await alone.close()
    node = new_node()
    await node.start()
    with pytest.raises(StoreRefused, match=r"in use by a cluster .*: join it with --cluster"):
        await alone.start()
    await node.close()
    await alone.start()
    await alone.close()


# Members


async def test_ids_are_drawn_once(nodes: list[ClusterStore]) -> None:
    a, b = nodes
    drawn = await asyncio.gather(*(one.membership.draw_node_id() for one in (a, b, a, b)))
    assert sorted(drawn) == [0, 1, 2, 3]
    await join(a, 9)
    assert await b.membership.draw_node_id() == 4


async def test_members_see_each_other(nodes: list[ClusterStore]) -> None:
    a, b = nodes
    assert await join(a, 1) == 1
    assert await join(b, 2) == 1
    seen = await b.membership.renew(LONG_MS, 17, -1)
    assert [one.facts.node_id for one in seen.nodes] == [1, 2]
    assert seen.nodes[0].facts.listeners == (("PLAINTEXT", "127.0.0.1", 9092),)
    assert 0 < seen.nodes[0].lease_left_ms <= LONG_MS
    assert [one.applied for one in (await look(a)).nodes] == [0, 17]
    await b.membership.leave()
    assert [one.facts.node_id for one in (await look(a)).nodes] == [1]


async def test_an_id_is_in_use_as_long_as_its_lease(
    nodes: list[ClusterStore], end_lease: Callable[[int], None]
) -> None:
    a, b = nodes
    await join(a, 1)
    with pytest.raises(NodeIdInUse) as used:
        await join(b, 1)
    assert 0 < used.value.left_ms <= LONG_MS
    end_lease(1)
    assert await join(b, 1) == 2
    for call in (look(a), a.membership.acquire(), a.membership.leave(), a.membership.retire()):
        with pytest.raises(LeaseLost):
            await call


async def test_a_process_knows_its_own_lease_again(nodes: list[ClusterStore]) -> None:
    """As if the answer to its join had been lost."""
    a, b = nodes
    mine = NodeFacts(1, process="mine")
    assert await a.membership.join(mine, LONG_MS) == 1
    assert await a.membership.join(mine, LONG_MS) == 2
    with pytest.raises(NodeIdInUse):
        await b.membership.join(NodeFacts(1, process="another"), LONG_MS)


async def test_a_newer_level_counts_once_all_members_know_it(nodes: list[ClusterStore]) -> None:
    a, b = nodes
    await a.membership.join(NodeFacts(1, level=2), LONG_MS)
    await b.membership.join(NodeFacts(2, level=1), LONG_MS)
    assert (await a.membership.plan(all_on(1), {})).level == 1
    await b.membership.leave()
    assert (await a.membership.plan(all_on(1), {})).level == 2
    with pytest.raises(NodeTooOld, match="works at level 2 of its features"):
        await b.membership.join(NodeFacts(2, level=1, version="0.1.0"), LONG_MS)
    await b.membership.join(NodeFacts(2, level=2), LONG_MS)
    assert (await look(a)).level == 2


# Units


async def test_units_are_planned_acquired_and_given_back(nodes: list[ClusterStore]) -> None:
    a, b = nodes
    await join(a, 1)
    await join(b, 2)
    planned = await a.membership.plan(by_number, COUNTS)
    assert planned.units is not None
    assert len(planned.units) == sum(COUNTS.values())
    assert {one.owner for one in planned.units} == {None}
    mine = await a.membership.acquire()
    assert {one.unit.number % 2 for one in mine} == {0}
    assert {one.epoch for one in mine} == {EPOCH_STEP}
    # Once more it is the same: nothing is acquired twice.
    assert await a.membership.acquire() == mine
    await b.membership.acquire()
    seen = await look(b, planned.units_version)
    assert seen.units is not None
    assert [one.owner for one in seen.units] == [1, 2, 1, 2, 1, 2]
    assert (await look(b, seen.units_version)).units is None
    # A unit moves when its owner has given it up, and its epoch grows.
    await a.membership.plan(all_on(2), COUNTS)
    assert len(await b.membership.acquire()) == 3
    await a.membership.release([OwnedUnit(one.unit, one.epoch) for one in mine])
    taken = {one.unit: one.epoch for one in await b.membership.acquire()}
    assert [taken[one.unit] for one in mine] == [2 * EPOCH_STEP] * 3


async def test_a_release_that_comes_late_frees_nothing(nodes: list[ClusterStore]) -> None:
    (a, _) = nodes
    await join(a, 1)
    await a.membership.plan(all_on(1), COUNTS)
    first = await a.membership.acquire()
    given_up = [OwnedUnit(one.unit, one.epoch) for one in first]
    await a.membership.release(given_up)
    await a.membership.acquire()
    await a.membership.release(given_up)
    units = (await look(a)).units
    assert units is not None
    assert {one.owner for one in units} == {1}


async def test_a_node_that_drains_or_retires_says_so(nodes: list[ClusterStore]) -> None:
    a, b = nodes
    await join(a, 1)
    await join(b, 2)
    assert await a.membership.drain(2, True)
    assert not await a.membership.drain(3, True)
    await a.membership.retire()
    assert [one.draining for one in (await look(b)).nodes] == [True, True]
    await a.membership.leave()
    await b.membership.leave()
    # Who drains does so until somebody lets it resume; who has left comes back to work.
    await join(a, 1)
    await join(b, 2)
    assert [one.draining for one in (await look(b)).nodes] == [False, True]


# Fencing


async def test_a_node_whose_lease_is_over_is_fenced(
    nodes: list[ClusterStore], end_lease: Callable[[int], None]
) -> None:
    a, b = nodes
    await join(a, 1)
    await join(b, 2)
    await a.membership.plan(all_on(1), COUNTS)
    append = await owned_log(a)
    await a.append([append])
    end_lease(1)
    # Nobody has fenced it yet, so it may still write.
    await a.append([following(append)])
    state = await b.membership.plan(all_on(2), COUNTS)
    assert [one.facts.node_id for one in state.nodes] == [2]
    with pytest.raises(LogFenced, match="__consumer_offsets-0"):
        await a.append([following(following(append))])
    with pytest.raises(LeaseLost):
        await a.put_topic(TOPIC)
    with pytest.raises(LeaseLost):
        await look(a)
    taken = await owned_log(b)
    assert (taken.owner_epoch, taken.base_offset) == (2, 2)


async def test_a_node_whose_own_lease_is_over_plans_nothing(
    nodes: list[ClusterStore], end_lease: Callable[[int], None]
) -> None:
    a, b = nodes
    await join(a, 1)
    await join(b, 2)
    end_lease(1)
    with pytest.raises(LeaseLost):
        await a.membership.plan(all_on(1), COUNTS)
    # Neither has it fenced anybody.
    state = await b.membership.renew(LONG_MS, 0, -1)
    assert {one.facts.node_id for one in state.nodes} == {1, 2}


async def test_a_plan_waits_for_the_writes_of_whom_it_fences(
    new_node: MakeNode,
    end_lease: Callable[[int], None],
    postgres: PostgresServer,
    database: str,
) -> None:
    a, b = new_node(), new_node()
    await a.start()
    incarnation = await join(a, 1)
    await b.start()
    await join(b, 2)
    end_lease(1)
    session = await postgres.connect(database)
    writing = session.transaction()
    await writing.start()
    hold = "SELECT 1 FROM cluster_node WHERE node_id = 1 AND incarnation = $1 FOR KEY SHARE"
    assert await session.fetchval(hold, incarnation) == 1
    planning = asyncio.ensure_future(b.membership.plan(by_number, COUNTS))
    waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPD%'"
    async with asyncio.timeout(60):
        while not postgres.execute(database, waiting):
            await asyncio.sleep(0.01)
    assert not planning.done()
    await writing.commit()
    await session.close()
    assert [one.facts.node_id for one in (await planning).nodes] == [2]


async def test_a_renewal_does_not_wait_for_writes(
    nodes: list[ClusterStore], postgres: PostgresServer, database: str
) -> None:
    (a, _) = nodes
    incarnation = await join(a, 1)
    session = await postgres.connect(database)
    async with session.transaction():
        hold = "SELECT 1 FROM cluster_node WHERE node_id = 1 AND incarnation = $1 FOR KEY SHARE"
        assert await session.fetchval(hold, incarnation) == 1
        await look(a)
    await session.close()


async def test_a_log_is_opened_and_deleted_only_by_the_owner_of_its_unit(
    nodes: list[ClusterStore],
) -> None:
    a, b = nodes
    await join(a, 1)
    await join(b, 2)
    await a.membership.plan(all_on(1), COUNTS)
    unit = OwnedUnit(Unit(GROUPS, 0), EPOCH_STEP)
    with pytest.raises(LogFenced):
        await a.open("log", unit)  # wanted, not acquired
    await a.membership.acquire()
    assert (await a.open("log", unit)).owner_epoch == 1
    for node, owned in ((b, unit), (a, OwnedUnit(unit.unit, EPOCH_STEP + 1))):
        with pytest.raises(LogFenced):
            await node.open("log", owned)
    assert (await a.open("log", unit)).owner_epoch == 2
    for node, owned in ((b, unit), (a, OwnedUnit(unit.unit, EPOCH_STEP + 1))):
        with pytest.raises(LogFenced):
            await node.delete(["log"], owned)
    await a.delete(["log"], unit)
    assert await a.ends(["log"]) == {}


async def test_nothing_is_given_out_right_after_a_promotion(
    nodes: list[ClusterStore], postgres: PostgresServer, database: str
) -> None:
    a, _ = nodes
    await join(a, 1, LEASE_MS)
    await look(a)  # the row has a long lease now; what was asked for first counts here
    await a.membership.plan(by_number, COUNTS)
    before = await a.next_producer_ids(1)
    # What the tables say when the server is another one.
    postgres.execute(database, "UPDATE cluster_state SET timeline = '0000000F' RETURNING 1")
    assert await a.membership.acquire() == ()
    units = (await a.membership.plan(lambda nodes, units: {}, COUNTS)).units
    assert units is not None
    assert {one.wanted for one in units} == {1}

    async def acquired() -> bool:
        await look(a)
        return bool(await a.membership.acquire())

    async with asyncio.timeout(60):
        while not await acquired():
            await asyncio.sleep(0.01)
    # Blocks that were given out last may not be known here: once, they are passed over.
    assert await a.next_producer_ids(1) == before + 1 + PRODUCER_IDS_LOST


# The catalogue


async def test_topics_remember_at_which_epochs_their_partitions_began(
    nodes: list[ClusterStore], postgres: PostgresServer, database: str
) -> None:
    a, b = nodes
    await join(a, 1)
    await join(b, 2)
    units = [Unit(PARTITIONS, number) for number in range(3)]
    made = MadePartitions(0, units)
    assert (await a.put_topic(TOPIC, made)).first_epochs == ((0, (2, 2, 2)),), "none is there yet"
    await a.membership.plan(all_on(1), {PARTITIONS: 2})
    await a.membership.acquire()
    moved = [OwnedUnit(units[1], EPOCH_STEP)]
    await a.membership.release(moved)
    grown = await a.put_topic(replace(TOPIC, first_epochs=((0, (2, 2, 2)),)), made)
    # The first one is led at epoch 2, the second will be at 4, the third is still to be made.
    assert grown.first_epochs == ((0, (2, 2, 2)), (0, (2, 4, 2)))
    assert await b.topics() == [grown]
    assert (await a.put_topic(grown)).first_epochs == grown.first_epochs
    postgres.execute(database, "UPDATE topic SET first_epochs = '[[0, [1]]]' RETURNING 1")
    with pytest.raises(LogCorrupt, match="orders"):
        await b.topics()


async def test_a_change_is_refused_until_all_changes_before_are_known(
    nodes: list[ClusterStore],
) -> None:
    a, b = nodes
    await join(a, 1)
    await join(b, 2)
    await a.put_topic(TOPIC)
    a.journal.advance(a.journal.written)
    with pytest.raises(CatalogueBehind):
        await b.put_configs([ConfigEntry(4, "", "log.retention.ms", "5")])
    assert await b.configs() == []
    changes = await b.journal.changes()
    assert changes.entries == (("topic", TOPIC.topic_id.hex()),)
    assert (changes.version, changes.complete) == (1, True)
    assert await b.topics_by_id([TOPIC.topic_id, bytes(16)]) == [TOPIC]
    b.journal.advance(changes.version)
    await b.put_configs([ConfigEntry(4, "", "log.retention.ms", "5")])
    await b.change_security([SecurityEntry("acl", "k", "v"), SecurityEntry("scram", "u", None)])
    await b.delete_topic(TOPIC.topic_id)
    # What b has written counts once it is in memory.
    assert (b.journal.applied, b.journal.written) == (1, 4)
    b.journal.advance(b.journal.written)
    assert (await b.journal.changes()).entries == ()
    assert (await a.journal.changes()).entries == (
        ("config", '[4,"","log.retention.ms"]'),
        ("security", '["acl","k"]'),
        ("security", '["scram","u"]'),
        ("topic", TOPIC.topic_id.hex()),
    )
    assert (await look(a)).catalogue == 4


async def test_writes_of_one_node_at_once_do_not_get_in_each_others_way(
    nodes: list[ClusterStore],
) -> None:
    a, _ = nodes
    await join(a, 1)
    entries = [ConfigEntry(4, "", f"key{number}", "5") for number in range(5)]
    changes = CatalogueChanges(a.journal)
    await asyncio.gather(*(changes.make(partial(a.put_configs, [one])) for one in entries))
    assert a.journal.applied == 5
    assert len(await a.configs()) == 5


async def test_a_node_that_is_far_behind_reads_everything(
    nodes: list[ClusterStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = nodes
    monkeypatch.setattr("groupd.storage.postgres_cluster.CHANGES_KEPT", 3)
    for number in range(3):
        await a.put_configs([ConfigEntry(4, "", f"key{number}", "5")])
    assert (await b.journal.changes()).complete
    await a.put_configs([ConfigEntry(4, "", "key3", "5")])
    changes = await b.journal.changes()
    assert (changes.version, changes.entries, changes.complete) == (4, (), False)


# Notifications


async def test_nodes_are_told_of_changes_also_after_a_lost_session(
    nodes: list[ClusterStore],
    postgres: PostgresServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(postgres_membership, "LISTEN_AGAIN_S", 0.01)
    a, b = nodes
    told: list[str] = []
    a.membership.listen(lambda: told.append("told"))
    await until(lambda: told != [])  # it listens from now on
    told.clear()
    await b.put_topic(TOPIC)
    await until(lambda: told != [])
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
    told.clear()
    assert postgres.execute(database, end)
    await until(lambda: len(told) >= 2)  # at the end of the session, and when there is another
    told.clear()
    await b.put_configs([ConfigEntry(4, "", "log.retention.ms", "5")])
    await until(lambda: told != [])
