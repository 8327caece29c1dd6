"""One run: nodes and their store, members and producers, faults, and what must always hold."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.coordinator_types import GROUP_COORDINATOR
from groupd.coordinator.share_partitions.in_flight import InFlightRecords
from groupd.coordinator.share_partitions.share_partition import SharePartition
from groupd.coordinator.topics.topic import bucket_of
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.data import ProducePartition, ProduceRequest, ProduceTopic
from groupd.protocol.messages.share_fetch import AcquiredRecords
from groupd.protocol.messages.topics import RESOURCE_GROUP
from groupd.protocol.records.batch_builder import encode_batch
from groupd.storage.log import StoredTopic
from groupd.storage.units import Unit
from tests.simulator.cluster.database import Database
from tests.simulator.cluster.process import LEASE_MS
from tests.simulator.logs import captured_log
from tests.simulator.shares import settling
from tests.simulator.shares.administrator import Administrators
from tests.simulator.shares.faults import ShareFaults
from tests.simulator.shares.ledger import CLOCK_SHARE, Acknowledged, ShareLedger
from tests.simulator.shares.member import ShareMemberClient
from tests.simulator.shares.network import ClientConnection, ShareNetwork
from tests.simulator.shares.node import Node
from tests.simulator.shares.states import Operation, Place, ShareStates
from tests.simulator.shares.store import SharedStore
from tests.simulator.simulation import SimulationFailed
from tests.simulator.world import Violation, World

PATIENCE_MS = 240_000
"""How long it may take until all is delivered once the faults are over. The persister's last pause
before it asks again lasts half a minute."""

LATE_MS = 20_000
"""For so long the persister may try what an administrator has asked for before."""

REST_MS = 8000
"""How long is looked whether something is delivered again."""

POLL_MS = 250
RESTART_MAX_MS = 4000
STORY_LINES = 80


@dataclass(frozen=True, slots=True)
class Result:
    """`acquisitions`, `accepts`: of records."""

    steps: int
    records: int
    acquisitions: int
    accepts: int
    settled_ms: int
    digest: str


@contextmanager
def left_behind() -> Iterator[None]:
    """What a killed process leaves behind is collected afterwards: no more of it may run in the
    world. Its coroutines may complain that they are not ended in order."""
    enabled, hook = gc.isenabled(), sys.unraisablehook
    gc.disable()
    sys.unraisablehook = lambda _: None
    try:
        yield
    finally:
        gc.collect()
        sys.unraisablehook = hook
        if enabled:
            gc.enable()


class ShareSimulation:
    def __init__(self, seed: int, *, verbose: bool = False) -> None:
        self.seed = seed
        world = self.world = World(seed, verbose=verbose)
        self.alone = world.chance(0.4)
        self.node_ids = [0] if self.alone else list(range(1, world.between(2, 3) + 1))
        self.lock_ms = world.random.choice([1000, 2000, 5000])
        self.config = self._draw_config()
        self.session_ms = int(self.config.share_session_timeout_ms * CLOCK_SHARE)
        """How long a member is in its group for sure after a heartbeat."""
        self.faults_ms = world.random.choice([10_000, 20_000, 40_000])
        self.produce_every_ms = world.random.choice([50, 200, 1000])
        self.work_max_ms = world.random.choice([20, 500, self.lock_ms])
        self.database = Database(world, LEASE_MS)
        self.topic_names = ("t0", "t1", "t2")
        self.states = ShareStates(world, self._has_member)
        self.store = self.states.store = SharedStore(
            self.database, self.states.appended, alone=self.alone
        )
        self.group_ids = [f"g{number}" for number in range(world.between(1, 2))]
        self._fill_store()
        self.nodes: dict[int, Node] = {}
        self.network = ShareNetwork(world)
        self.ledger = ShareLedger(
            world, self.states, self.lock_ms, self.config.share_delivery_count_limit, self._leads
        )
        self.network.handled = self._handled
        self.network.answered = self._answered
        self.network.ended = lambda one: self._session_ends(one)
        self.members = [
            ShareMemberClient(self, f"{group_id}m{number}", group_id, self._some_topics())
            for group_id in self.group_ids
            for number in range(world.between(1, 4))
        ]
        self.faults = ShareFaults(self)
        self.administrators = Administrators(self)
        self.log = captured_log()
        world.after_step = self._check
        self._openers: dict[tuple[int, str], ClientConnection] = {}

    def _draw_config(self) -> CoordinatorConfig:
        random = self.world.random
        return CoordinatorConfig(
            offsets_topic_num_partitions=random.choice([1, 3]),
            transaction_state_log_num_partitions=1,
            share_state_num_partitions=random.choice([1, 4]),
            share_min_session_timeout_ms=1000,
            share_session_timeout_ms=random.choice([3000, 8000]),
            share_min_heartbeat_interval_ms=200,
            share_heartbeat_interval_ms=random.choice([500, 1000]),
            share_assignment_interval_ms=random.choice([0, 1000]),
            share_initialize_retry_interval_ms=3000,
            share_min_record_lock_duration_ms=1000,
            share_record_lock_duration_ms=self.lock_ms,
            share_delivery_count_limit=random.choice([2, 5, 10]),
            share_partition_max_record_locks=random.choice([100, 2000]),
            share_snapshot_updates=random.choice([0, 3, 500]),
            share_cold_snapshot_interval_ms=random.choice([2000, 300_000]),
            share_state_prune_interval_ms=random.choice([3000, 300_000]),
            cluster_lease_ms=LEASE_MS,
        )

    def _fill_store(self) -> None:
        for number, count in enumerate([self.world.between(1, 3), self.world.between(1, 2)]):
            topic_id = bytes([self.world.between(0, 255)]) * 15 + bytes([number])
            self.store.put_topic(StoredTopic(topic_id, self.topic_names[number], count))
        for group_id in self.group_ids:
            self.store.rows.restore_config(
                RESOURCE_GROUP, group_id, "share.auto.offset.reset", "earliest"
            )

    def _some_topics(self) -> tuple[str, ...]:
        return self.topic_names if self.world.chance(0.8) else self.topic_names[:1]

    # What clients ask

    def connect(self, node_id: int | None, name: str) -> ClientConnection | None:
        node = None if node_id is None else self.nodes.get(node_id)
        return ClientConnection(node, name) if node is not None and node.serving else None

    def leader_of(self, unit: Unit) -> int | None:
        """The node that leads a unit, as some node sees it."""
        serving = [one for one in self.nodes.values() if one.serving]
        return self.world.random.choice(serving).leader(unit) if serving else None

    def coordinator_of(self, group_id: str) -> int | None:
        return self.leader_of(GROUP_COORDINATOR.unit_of(group_id, self.config))

    def work_ms(self) -> int:
        """How long an application works on records; now and then longer than its locks last."""
        if self.faults.healed:
            return self.world.between(0, 50)
        if self.world.chance(0.1):
            return self.lock_ms + self.world.between(0, 2000)
        return self.world.between(0, self.work_max_ms)

    def fetch_pause_ms(self) -> int:
        return self.world.between(0, 100 if self.faults.healed else 400)

    # What the ledger is told

    def _leads(self, node_id: int, topic_id: TopicId, partition: int) -> bool:
        return self.nodes[node_id].serves(bucket_of(topic_id, partition))

    def _has_member(self, group_id: str) -> bool:
        return any(
            one.in_group_until_ms > self.world.now_ms
            for one in self.members
            if one.group_id == group_id
        )

    def in_use(self, group_id: str) -> bool:
        """Whether a node has a session of a member of the group, or leads share-partitions of it,
        or still writes what it led."""
        parts = [one.parts.share_partitions for one in self.nodes.values() if one.serving]
        return any(
            one.sessions.of_group(group_id)
            or any(one.leaders.of_group(group_id))
            or any(group_id == key[0] for key in one.leaders._ending)
            for one in parts
        )

    def _handled(
        self, connection: ClientConnection, request: Any
    ) -> list[Acknowledged] | Operation:
        operation = self.states.asked(request)
        if operation is not None:
            return operation
        if getattr(request, "session_epoch", None) == 0:
            self._openers[connection.node.node_id, request.member_id] = connection
        return self.ledger.handled(connection.node.node_id, request)

    def _answered(
        self,
        connection: ClientConnection,
        request: Any,
        facts: Sequence[Acknowledged] | Operation,
        reply: Any,
    ) -> None:
        if isinstance(facts, Operation):
            self.world.watched(self.states.answered)(facts, reply)
            return
        self.world.watched(self.ledger.answered)(request, facts, reply)

    def _session_ends(self, connection: ClientConnection) -> None:
        """A session ends with the connection on which it was opened."""
        for (node_id, member), opener in list(self._openers.items()):
            if opener is connection:
                del self._openers[node_id, member]
                self.ledger.session_over(node_id, member)

    @contextmanager
    def _acquisitions(self) -> Iterator[None]:
        """Tell the ledger of states that leaders have loaded, and of all acquisitions, also of
        those whose replies nobody gets."""
        load, acquire = SharePartition._loaded, SharePartition.acquire
        told = self.world.watched(self.ledger.acquired)
        told_of_state = self.world.watched(self.ledger.loaded)

        def place_of(share: SharePartition) -> Place:
            return share.group_id, share.partition.topic_id, share.partition.partition

        async def loaded(share: SharePartition) -> InFlightRecords:
            records = await load(share)
            told_of_state(share, place_of(share), share._state_epoch)
            return records

        def noted(share: SharePartition, asked: Any, *found: Any) -> Sequence[AcquiredRecords]:
            acquired = acquire(share, asked, *found)
            told(self._running(), share, place_of(share), asked.member_id, acquired)
            return acquired

        SharePartition._loaded = loaded  # type: ignore[method-assign]
        SharePartition.acquire = noted  # type: ignore[method-assign]
        try:
            yield
        finally:
            SharePartition._loaded = load  # type: ignore[method-assign]
            SharePartition.acquire = acquire  # type: ignore[method-assign]

    def _running(self) -> int:
        """The node whose loop runs."""
        loop = asyncio.get_running_loop()
        (node_id,) = [one.node_id for one in self.nodes.values() if one.loop is loop]
        return node_id

    # Checks

    def _check(self) -> None:
        for node in self.nodes.values():
            if node.loop.failures:
                raise Violation(f"node {node.node_id}: {node.loop.failures[0]}")
        for error in self.log.errors:
            if not self.store.is_about_deleted(error):
                raise Violation(f"logged: {error}")
        self.log.errors.clear()

    # Producers

    def _produce(self) -> None:
        world = self.world
        if self.faults.healed:
            return
        world.after(world.between(1, 2 * self.produce_every_ms), self._produce)
        topics = self.store.topics()
        if not topics:
            return
        topic = world.random.choice(topics)
        self.produce_to(topic.topic_id, world.between(0, topic.partitions - 1))

    def produce_to(self, topic_id: TopicId, partition: int) -> None:
        world = self.world
        connection = self.connect(self.leader_of(bucket_of(topic_id, partition)), "producer")
        if connection is None:
            return
        count = world.random.choice([1, 1, 3, 10, 40])
        records = [(None, b"%d" % number) for number in range(count)]
        batch = encode_batch(0, 0, connection.node.clock.now().wall_ms, records)
        name = self.store.names[topic_id]
        asked = ProduceTopic(name, topic_id, (ProducePartition(partition, batch),))
        self.network.send(connection, ProduceRequest((asked,)), 13, lambda reply: None)

    # Life of the nodes

    def start_node(self, node_id: int) -> None:
        if node_id not in self.nodes:
            self.world.trace("starts", node_id)
            self.nodes[node_id] = Node(self, node_id, self._config_of(node_id), alone=self.alone)

    def _config_of(self, node_id: int) -> CoordinatorConfig:
        return replace(self.config, node_id=node_id)

    def gone(self, node: Node) -> None:
        """A life of a node is over; another one begins soon."""
        node.kill()
        if self.nodes.get(node.node_id) is node:
            del self.nodes[node.node_id]
            delay_ms = 100 if self.faults.healed else self.world.between(0, RESTART_MAX_MS)
            self.world.after(delay_ms, self.start_node, node.node_id)

    # Phases

    def run(self) -> Result:
        try:
            with self._acquisitions(), left_behind():
                return self._run()
        except Exception as error:
            story = "\n".join(self.world.story(STORY_LINES))
            raise SimulationFailed(
                f"{type(error).__name__}: {error}\n\nlast steps:\n{story}\n\n"
                f"seed {self.seed} failed: {type(error).__name__}: {str(error)[:300]}\n"
                f"repeat with: python -m tests.simulator.shares --seed {self.seed} -v"
            ) from error
        finally:
            for node in self.nodes.values():
                node.kill()

    def _run(self) -> Result:
        world = self.world
        for node_id in self.node_ids:
            self.start_node(node_id)
        for member in self.members:
            world.after(world.between(0, 3000), self._first_start, member)
        world.after(0, self._watch_nodes)
        self._produce()
        self.administrators.begin()
        world.after(world.between(0, 5000), self.faults.begin)
        world.run_until(self.faults_ms)
        self._heal()
        if self.states.may_change():
            world.run_until(world.now_ms + LATE_MS)
        settled_ms = self._settle()
        for topic in self.store.topics():
            for partition in range(topic.partitions):
                self.produce_to(topic.topic_id, partition)
        world.run_until(world.now_ms + POLL_MS)
        self._settle()
        records = sum(end - start for start, end in settling.log_ends(self).values())
        self._rest()
        return Result(
            world.steps,
            records,
            self.ledger.acquisitions,
            self.ledger.accepts,
            settled_ms,
            world.digest(),
        )

    def _first_start(self, member: ShareMemberClient) -> None:
        if not member.running:
            member.start()

    def _watch_nodes(self) -> None:
        """A node that cannot start ends, and is started again."""
        for node in list(self.nodes.values()):
            if node.failed:
                self.gone(node)
        self.world.after(POLL_MS, self._watch_nodes)

    def _heal(self) -> None:
        self.world.trace("---- all faults are over")
        self.network.healed = True
        self.faults.heal()
        for node_id in self.node_ids:
            self.start_node(node_id)
        for member in self.members:
            member.frozen = False
            if not member.running:
                member.start()

    def _settle(self) -> int:
        """Virtual ms until everything was delivered."""
        start_ms = self.world.now_ms
        while (why := settling.unsettled(self)) != "":
            if self.world.now_ms - start_ms > PATIENCE_MS:
                raise Violation(f"not all is over {PATIENCE_MS} ms after the last fault: {why}")
            self.world.run_until(self.world.now_ms + POLL_MS)
        for place, (start, end) in settling.log_ends(self).items():
            if why := self.ledger.lost(place, start, end):
                raise Violation(f"lost: {why}")
        return self.world.now_ms - start_ms

    def _rest(self) -> None:
        """After a restart of all nodes nothing is delivered again."""
        self.world.trace("---- all is over")
        self.ledger.at_rest = True
        for node in list(self.nodes.values()):
            self.gone(node)
        self.world.run_until(self.world.now_ms + REST_MS)
        self._settle()


def simulate_shares(seed: int, *, verbose: bool = False) -> Result:
    """Run one seed. Raises SimulationFailed."""
    return ShareSimulation(seed, verbose=verbose).run()
