"""A life of one broker: all that a daemon has between its store and its sockets, on virtual
time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from groupd.client.errors import TIMEOUT, CallFailed
from groupd.coordinator.cluster.lease import FollowedCatalogue, NodeLease
from groupd.coordinator.cluster.local_node import LocalNode
from groupd.coordinator.cluster.node import ClusterNode
from groupd.coordinator.cluster.node_id import CannotJoin
from groupd.coordinator.cluster.peers import Peers
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.assignors.loader import load_assignors
from groupd.coordinator.core.types import Instant, RequestContext
from groupd.coordinator.daemon.parts import DaemonParts, assemble
from groupd.coordinator.host import Host
from groupd.coordinator.runtime.waiting import Waiter
from groupd.coordinator.server.client_session import PLAINTEXT, ClientSession
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.storage.log import LogError, Store
from groupd.storage.units import Unit
from tests.simulator.cluster.database import Session
from tests.simulator.cluster.process import NodeClock
from tests.simulator.loop import VirtualLoop
from tests.simulator.shares.store import NodeStore
from tests.simulator.world import World

if TYPE_CHECKING:
    from tests.simulator.shares.simulation import ShareSimulation

PEER_TIMEOUT_MS = 3000
STOP_MS = 3000
VERSIONS = {api.request_type: api.max_version for api in API_BY_KEY.values()}
_FAILURES = {api.request_type: api.failure for api in API_BY_KEY.values()}


class VirtualHost(Host):
    """What a daemon gets from outside: time and identifiers of the simulated world."""

    slices = staticmethod(lambda: 0)

    def __init__(self, world: World, clock: NodeClock) -> None:
        self._world = world
        self._clock = clock

    def elapsed(self) -> Callable[[], Instant]:
        return self._clock.now

    def new_id(self) -> str:
        return f"{self._world.random.getrandbits(128):032x}"

    def new_topic_id(self) -> bytes:
        return self._world.random.getrandbits(127).to_bytes(16, "big")


class NodeWaiter(Waiter):
    """A request of a client on a connection, or of another node. `hung_up()`: the node closes the
    connection instead of an answer."""

    def __init__(
        self,
        request: Any,
        session: ClientSession | None,
        resolve: Callable[[Any], None],
        hung_up: Callable[[], None],
    ) -> None:
        super().__init__(request, _FAILURES[type(request)])
        self.session = session
        self._resolve = resolve
        self.hang_up = hung_up  # type: ignore[method-assign]

    def send(self, reply: Any) -> None:
        self._resolve(reply)

    def on_disconnect(self, callback: Callable[[], None]) -> Callable[[], None]:
        assert self.session is not None
        return self.session.on_disconnect(callback)


class SimulatedPeers(Peers):
    """Calls between nodes: late, lost, or carried out although the caller hears nothing."""

    def __init__(self, simulation: ShareSimulation, node: Node) -> None:
        super().__init__(node.config, node.clock, lambda node_id: None)
        self._simulation = simulation
        self._node = node

    async def call(self, node_id: int, request: Any) -> Any:
        world, loop, network = self._node.world, self._node.loop, self._simulation.network
        answer: asyncio.Future[Any] = loop.create_future()

        def settle(reply: Any) -> None:
            if answer.done():
                return
            if reply is None:
                answer.set_exception(CallFailed("simulated: no answer", TIMEOUT))
            else:
                answer.set_result(reply)

        def arrive() -> None:
            other = self._simulation.nodes.get(node_id)
            if other is None or not other.serving or network.loses(network.peer_loss):
                return
            other.loop.enter(
                other.submit, request, VERSIONS[type(request)], None, resolve, lambda: None
            )

        def resolve(reply: Any) -> None:
            if not network.loses(network.peer_loss):
                world.after(network.delay_ms(), loop.enter, settle, reply)

        world.after(network.delay_ms(), arrive)
        world.after(PEER_TIMEOUT_MS, loop.enter, settle, None)
        return await answer


class SimulatedMember(LocalNode):
    """The node's part in its cluster, with clocks and calls of the simulated world."""

    def __init__(self, simulation: ShareSimulation, node: Node) -> None:
        super().__init__(
            node.config, cast(Any, node.store), node.clock, Path("nowhere"), "PLAINTEXT"
        )
        self.listeners = (("PLAINTEXT", f"node{self.node_id}", 9092),)
        self._simulation = simulation
        self._here = node

    def make_node(self, catalogue: FollowedCatalogue) -> ClusterNode:
        node = self._here
        self.peers = SimulatedPeers(self._simulation, node)
        self.node = ClusterNode(
            self.node_id,
            node.session,
            catalogue,
            node.clock,
            NodeLease(node.config.cluster_lease_ms, node.clock.elapsed_ns, node.clock.wall_ns),
            self.unit_servers,
            self._counts,
            node.config.cluster_renew_ms,
            self._seen,
            self._levels,
        )
        self.node.view.timeline = node.store.journal.timeline
        return self.node


class Node:
    """One life of a broker. `serving`: it has started. `alone`: it is in no cluster. `failed`: it
    could not start; its process ends then, as a daemon does."""

    parts: DaemonParts

    def __init__(
        self, simulation: ShareSimulation, node_id: int, config: CoordinatorConfig, *, alone: bool
    ) -> None:
        world = self.world = simulation.world
        self.node_id = node_id
        self.config = config
        self.loop = VirtualLoop(world)
        self.clock = NodeClock(world, self.loop)
        self.session = Session(world, simulation.database, self.loop, node_id)
        self.store = NodeStore(simulation.store, self.session)
        self.serving = self.stopping = self.failed = False
        self.member: SimulatedMember | None = None
        if not alone:
            self.member = SimulatedMember(simulation, self)
        self.loop.enter(lambda: self.loop.create_task(self._run(), name="node"))

    async def _run(self) -> None:
        host = VirtualHost(self.world, self.clock)
        assignors = load_assignors(self.config.consumer_assignors)
        store = cast(Store, self.store)
        try:
            self.parts = await assemble(
                self.config, host, self.clock, store, assignors, member=self.member
            )
            self.parts.announce(f"node{self.node_id}", 9092)
            self.serving = True
            await self.parts.load(())
        except (LogError, CannotJoin) as error:
            self.world.trace("cannot start", self.node_id, str(error))
            self.failed = True

    def leader(self, unit: Unit) -> int | None:
        """The node that leads a unit, as this one sees it."""
        return self.parts.broker.ownership.leader(unit)

    def serves(self, unit: Unit) -> bool:
        return self.parts.broker.ownership.serves(unit)

    def submit(
        self,
        request: Any,
        version: int,
        session: ClientSession | None,
        resolve: Callable[[Any], None],
        hung_up: Callable[[], None],
    ) -> NodeWaiter:
        """Hands a request to the broker, inside `loop.enter`."""
        waiter = NodeWaiter(request, session, resolve, hung_up)
        self.parts.broker.submit(RequestContext(waiter, version, "client"), request)
        return waiter

    def new_session(self) -> ClientSession:
        return PLAINTEXT.session("/10.0.0.1")

    def stop(self, stopped: Callable[[], None]) -> None:
        """As SIGTERM does: `stopped` runs when all is handed over, written and answered."""
        self.stopping = True
        if not self.serving:
            stopped()
            return

        async def run() -> None:
            if self.member is not None:
                await self.member.stop()
            await self.parts.finish()
            stopped()

        self.loop.enter(lambda: self.loop.create_task(run(), name="stop"))

    def kill(self) -> None:
        self.serving = False
        self.loop.kill()
