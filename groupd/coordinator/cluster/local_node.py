"""This process as a node of a cluster: its id, what it serves, where the other nodes are.

The order of a start: `connect` (the id), `make_node` with the catalogue, servers of the units,
`start` once the ports are open. The parts between a store and its sockets
(`coordinator.daemon.parts`) only use `node`, which is their `Ownership`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from secrets import token_hex

import structlog

from groupd import __version__
from groupd.client.connection import UNPROTECTED, ClientSecurity
from groupd.coordinator.admin.groups import Elsewhere
from groupd.coordinator.cluster.lease import FollowedCatalogue, NodeLease
from groupd.coordinator.cluster.node import ClusterNode
from groupd.coordinator.cluster.node_id import NodeIdFile
from groupd.coordinator.cluster.peers import PeerAddress, Peers, address_in
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.runtime.clock import Clock, SystemClock
from groupd.coordinator.runtime.coordinator_types import COORDINATOR_TYPES, GROUP_COORDINATOR
from groupd.coordinator.runtime.ownership import UnitServer
from groupd.coordinator.topics.topic import PARTITION_UNITS
from groupd.protocol.messages.cluster import Node
from groupd.storage.cluster import NodeFacts
from groupd.storage.log import Store, StoreRefused
from groupd.storage.postgres_cluster import ClusterStore
from groupd.storage.units import PARTITIONS, Unit

log = structlog.get_logger("groupd.cluster")

LEVEL = 2
"""The newest level of features that this version can work at. If a change makes stored data
unreadable for older versions, it belongs to the next level and is made once all nodes have that
level."""

HAND_OVER_MS = 3000
"""How long a node that stops may take to hand over its units. The rest is dropped, and other nodes
take it."""


class LocalNode:
    """This process in the cluster. `directory`: where the node's id is kept. `inter_broker`: the
    name of the listener that other nodes use. `security`: how this node logs in to them. `version`:
    the version of groupd."""

    node: ClusterNode
    """Set by `make_node`, like `peers`."""
    peers: Peers
    """The calls to other nodes."""

    def __init__(
        self,
        config: CoordinatorConfig,
        store: ClusterStore,
        clock: Clock,
        directory: Path,
        inter_broker: str,
        security: ClientSecurity = UNPROTECTED,
        version: str = "",
    ) -> None:
        self.node_id = config.node_id
        self.unit_servers: dict[str, UnitServer] = {}
        """By kind of unit. Must be filled before `start`."""
        self.nodes: list[Node] = []
        """All members including this node, sorted by id."""
        self.closing: list[Callable[[], Awaitable[None]]] = []
        """`stop` calls these after the hand-over. Then it closes the connections to other nodes."""
        self.store = store
        self._config = config
        self._clock = clock
        self._directory = directory
        self._inter_broker = inter_broker
        self._security = security
        self._version = version
        self._file: NodeIdFile | None = None
        self.listeners: tuple[tuple[str, str, int], ...] = ()
        """(name, host, port) of each listener, as other nodes should use it. Set once the ports are
        open."""
        self.admin_url = ""
        """The address of the admin port for other nodes; empty if they cannot reach it."""
        self._me = Node(self.node_id, "", -1)
        self._changed: list[Callable[[], None]] = []
        self._counts = {one.kind: one.shards(config) for one in COORDINATOR_TYPES}
        self._counts[PARTITIONS] = PARTITION_UNITS
        self._levels = {one.kind: one.level for one in COORDINATOR_TYPES}

    # Start --------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Find out the node's id: the setting `node.id`, or the id that was drawn before in this
        cluster, or a new one. The store must be open. Raises StoreRefused, LogError."""
        if self.node_id:
            return
        cluster_id = await self.store.cluster_id()
        self._file = await asyncio.to_thread(NodeIdFile, self._directory)
        known = self._file.node_id if self._file.cluster_id == cluster_id else None
        if known is None:
            known = await self.store.membership.draw_node_id()
            try:
                await asyncio.to_thread(self._file.keep, known, cluster_id)
            except OSError as error:
                raise StoreRefused(
                    f"{self._directory}: the node id cannot be kept ({error.strerror})"
                ) from None
            log.info("node id drawn", node=known, directory=str(self._directory))
        self.node_id = known

    def make_node(self, catalogue: FollowedCatalogue) -> ClusterNode:
        """Make `node`, which is not started yet, and `peers`."""
        config = replace(self._config, node_id=self.node_id)
        self.peers = Peers(config, self._clock, self._address_of, self._security)
        self.on_change(self.peers.look)
        self.node = ClusterNode(
            self.node_id,
            self.store.membership,
            catalogue,
            self._clock,
            NodeLease(config.cluster_lease_ms),
            self.unit_servers,
            self._counts,
            config.cluster_renew_ms,
            self._seen,
            self._levels,
        )
        self.node.view.timeline = self.store.journal.timeline
        return self.node

    def _address_of(self, node_id: int) -> PeerAddress | None:
        return address_in(self.node.view.members, node_id)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` when members or units have changed. It must not raise."""
        self._changed.append(listener)

    def announce(self, node: Node) -> None:
        """Set how clients see this node."""
        self._me = node
        self._seen()

    async def start(self) -> None:
        """Join, and wait until this node serves its share. Raises CannotJoin."""
        self.node.start(
            NodeFacts(
                self.node_id,
                self.listeners,
                self._inter_broker,
                rack=self._config.broker_rack or None,
                version=self._version,
                level=LEVEL,
                admin=self.admin_url,
                process=token_hex(8),
                lease_ms=self.node.lease.lease_ms,
            )
        )
        await self.node.settled()

    async def lost(self) -> str:
        """Wait until this process cannot be a node any more, or until another daemon has the
        database for itself. Returns one line that says so."""
        waiting = [
            asyncio.ensure_future(self.store.lost()),
            asyncio.ensure_future(self.node.refused()),
        ]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waiting:
                one.cancel()
        return done.pop().result()

    async def stop(self) -> None:
        """Hand all units over and leave. Then another process may use the node's id."""
        if hasattr(self, "node"):
            await self.node.stop(HAND_OVER_MS)
            for close in self.closing:
                await close()
            self.peers.close()
        if self._file is not None:
            self._file.close()

    # Where things are ---------------------------------------------------------------------

    def find_node(self, unit: Unit) -> Node | None:
        """Returns the node that serves a unit; None while there is none. A node that has died is
        returned until another one takes its place: a client that cannot connect asks again."""
        leader = self.node.leader(unit)
        return None if leader is None else self.node_of(leader)

    def elsewhere(self, group_id: str) -> Elsewhere | None:
        """Returns the node that serves a group if it is another node, else None."""
        leader = self.node.leader(GROUP_COORDINATOR.unit_of(group_id, self._config))
        if leader == self.node_id:
            return None
        facts = next(
            (one.facts for one in self.node.view.members if one.facts.node_id == leader), None
        )
        if facts is None:
            return Elsewhere(f"no node serves group {group_id} at the moment")
        address = "{1}:{2}".format(*facts.listeners[0])
        told = f"group {group_id} is served by node {leader} at {address}"
        return Elsewhere(told if facts.admin else f"{told}: ask there", facts.admin)

    def node_of(self, node_id: int) -> Node | None:
        """Returns the member with this id; None if there is none."""
        return next((one for one in self.nodes if one.node_id == node_id), None)

    def _seen(self) -> None:
        others = [
            _node(one.facts)
            for one in self.node.view.members
            if one.facts.node_id != self.node_id and one.facts.listeners
        ]
        self.nodes[:] = sorted([self._me, *others], key=lambda one: one.node_id)
        for listener in self._changed:
            listener()

    @property
    def units(self) -> Mapping[int | None, Sequence[Unit]]:
        """The units of each node, by node id; under None the units that no node owns."""
        found: dict[int | None, list[Unit]] = {}
        for one in self.node.view.units.values():
            found.setdefault(one.owner, []).append(one.unit)
        return found


def _node(facts: NodeFacts) -> Node:
    _, host, port = facts.listeners[0]
    several = facts.listeners if len(facts.listeners) > 1 else ()
    return Node(facts.node_id, host, port, facts.rack, several)


def member_of(
    config: CoordinatorConfig,
    store: Store,
    directory: Path,
    inter_broker: str,
    security: ClientSecurity,
) -> LocalNode:
    """Returns the member for a store that was opened as a shared one. Leases last in real time,
    also while the process stands still, so their clock is not the clock of groups."""
    assert isinstance(store, ClusterStore)
    return LocalNode(config, store, SystemClock(), directory, inter_broker, security, __version__)
