"""The parts of a daemon between its store and its sockets: which parts there are, and which of them
know each other.

They have no ports and open no store, so the replay of a recording runs them without a daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.cleaning.topic_cleaner import TopicCleaner
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.assignors.api import PartitionAssignor
from groupd.coordinator.core.assignors.loader import load_share_assignor
from groupd.coordinator.core.shard import shard_maker
from groupd.coordinator.core.share_group import initialization
from groupd.coordinator.core.share_group.inspect import SHARE_POSITIONS
from groupd.coordinator.core.share_group.offsets import SHARE_STATE_DELETION
from groupd.coordinator.core.types import OutsideCall
from groupd.coordinator.host import Host
from groupd.coordinator.lag.share_offsets import ShareOffsets
from groupd.coordinator.persister import Persister, first_error
from groupd.coordinator.producers.transactions import MarkerTarget, TransactionVerifier
from groupd.coordinator.runtime.audited_routes import audited
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.cleaner import Cleaner
from groupd.coordinator.runtime.clock import Clock
from groupd.coordinator.runtime.coordinator_types import COORDINATOR_TYPES
from groupd.coordinator.runtime.data_routes import plain, spreading
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.routes import ROUTES
from groupd.coordinator.runtime.served_shards import ServedShards
from groupd.coordinator.runtime.transactions import OffsetsMarkers
from groupd.coordinator.security.security import Security
from groupd.coordinator.server.frontend import Frontend
from groupd.coordinator.server.metering import Metering
from groupd.coordinator.server.slot import Requests
from groupd.coordinator.share_partitions.share_requests import ShareRequests
from groupd.coordinator.share_state.coordinator import ShareCoordinator
from groupd.coordinator.share_state.handlers import share_state_handlers
from groupd.coordinator.share_state.retries import NOT_NOW, NOT_THERE, PatientPersister
from groupd.coordinator.topics.coordinator_logs import CoordinatorLogView, fix_shard_count
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.topics.log_ends import StoredEnds
from groupd.coordinator.topics.requests import data_routes
from groupd.coordinator.transactions.coordinator import TransactionCoordinator
from groupd.coordinator.transactions.handlers import TransactionHandlers
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.cluster import Node
from groupd.storage.log import Store
from groupd.storage.units import GROUPS, PARTITIONS, SHARE_STATE, TRANSACTIONS

if TYPE_CHECKING:
    from groupd.coordinator.cluster.local_node import LocalNode


class Coordinator(Protocol):
    """What all coordinators of a node have in common."""

    @property
    def served(self) -> ServedShards[Any]: ...

    async def load(self) -> None:
        """Load the shards that this node serves from the start. A shard that cannot be loaded is
        tried again later. Raises LogError."""
        ...

    async def close(self) -> None:
        """Refuse new requests. What is under way becomes durable and is answered."""
        ...


class DaemonParts:
    """All parts of a daemon. `assemble` makes and starts them. After it call `announce` and `load`,
    and `finish` at the end."""

    def __init__(
        self,
        config: CoordinatorConfig,
        assignors: Mapping[str, PartitionAssignor],
        host: Host,
        clock: Clock,
        store: Store,
        changes: CatalogueChanges,
        member: LocalNode | None,
        wrap: Callable[[Requests], Requests] | None,
    ) -> None:
        """`changes`: all changes of the catalogue. The others: see `assemble`."""
        self.config = config
        self.clock = clock
        self.store = store
        self.catalogue_changes = changes
        self.nodes: list[Node] = []
        """This node, or all nodes of its cluster, as Metadata shows them."""
        self._host = host
        self._member = member
        self._views: dict[str, CoordinatorLogView] = {}
        if member is not None:
            changes.spread = member.make_node(changes).spread
        work = LongWork(host.slices)
        self.security = Security(config, store, work.turn, self.clock.monotonic_ms, changes)
        """Users, ACLs and quotas: what each client may do."""
        self.broker = self._make_broker(assignors, work)
        self.cleaner = Cleaner(store, self.broker.shards, config, self.clock.now)
        """The cleaner of the logs of groups. The daemon starts and closes it."""
        self.metering = Metering(self.security.quotas, self.clock, host.slices)
        """Counts how much of their quotas clients use."""
        plane = self.data_plane = self._make_data_plane()
        changes.on_forget.append(plane.producer_ids.forget)
        # A queue of its own, because a recording does not repeat the lag.
        self.log_ends = self._make_log_ends(LongWork())
        """Where the logs of topics end, for the lag of groups."""
        self.topic_cleaner = TopicCleaner(plane, store, config, self.clock)
        self.transactions = self._make_transactions()
        self.share_state = self._make_share_coordinator()
        self.persister = self._make_persister(self.share_state)
        """How everything on this node reaches the state of share-partitions."""
        self._answer_share_groups()
        self.share_partitions = self._make_share_partitions()
        """The leaders of share-partitions, and the requests of their members."""
        self.broker.tasks.routes.update(self.share_partitions.routes)
        self.coordinators = {row.kind: COORDINATORS[row.kind](self) for row in COORDINATOR_TYPES}
        """Kind -> coordinator, in the order in which they are loaded."""
        self._views.update({kind: one.served for kind, one in self.coordinators.items()})
        self.broker.expiry.logs.append(plane.partitions.producers)
        for routes in (data_routes(plane), plain(self.security.handlers)):
            self.broker.tasks.routes.update(spreading(routes, changes))
        frontend = Frontend(
            self.broker, lambda: plane.catalogue.cluster_id, plane.client_metrics.count
        )
        self.versions = frontend.versions
        """Answers ApiVersions to clients that have not logged in yet."""
        self.requests: Requests = frontend if wrap is None else wrap(frontend)
        """Takes the requests that connections decode."""
        if member is not None:
            self._join(member)

    @property
    def alone(self) -> bool:
        """Whether this node is in no cluster, so that it serves all shards from the start."""
        return self._member is None

    # Start --------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read topics, configs, users, ACLs and quotas. After an exception everything is closed
        again. Raises LogError."""
        self.broker.start_writer()
        try:
            await self.data_plane.start()
            await self.security.load()
            self._tell_broker_of_topics_and_configs()
        except BaseException:
            await self.finish()
            raise

    def _make_broker(self, assignors: Mapping[str, PartitionAssignor], work: LongWork) -> Broker:
        security = self.security
        return Broker(
            self.config,
            shard_maker(
                self.config,
                assignors,
                load_share_assignor(self.config.share_assignors),
                self._host.new_id,
            ),
            self.store,
            self.clock,
            audited(ROUTES, security.audit) if security.authorizer.enabled else ROUTES,
            work=work,
            ownership=None if self._member is None else self._member.node,
        )

    def _join(self, member: LocalNode) -> None:
        """Let coordinators and data plane serve the units that the cluster gives this node."""
        for kind, coordinator in self.coordinators.items():
            member.unit_servers[kind] = coordinator.served
        member.unit_servers[PARTITIONS] = self.data_plane.unit_server
        member.on_change(lambda: self._show_nodes(member.nodes))
        self.broker.find_node = member.find_node

    def _show_nodes(self, nodes: Iterable[Node]) -> None:
        self.nodes[:] = nodes

    def _make_data_plane(self) -> DataPlane:
        return DataPlane(
            self.config,
            self.store,
            new_topic_id=self._host.new_topic_id,
            new_id=self._host.new_id,
            now=self.clock.now,
            nodes=self.nodes,
            writer=self.broker.writer.append,
            views=self._views,
            offsets_markers=OffsetsMarkers(self.broker),
            elapsed=self._host.elapsed(),
            work=self.broker.work,
            ownership=self.broker.ownership,
            changes=self.catalogue_changes,
            quotas=self.security.quotas,
        )

    def _make_log_ends(self, work: LongWork) -> StoredEnds:
        return StoredEnds(
            self.data_plane.catalogue,
            self.data_plane.partitions,
            self.store,
            work,
            self.config.produce_unpacked_max_bytes,
            shared=self._member is not None,
        )

    def _make_transactions(self) -> TransactionCoordinator:
        """Returns the transaction coordinator. It writes markers through the data plane; broker and
        data plane ask it whether a write belongs to a transaction."""
        data_plane, member = self.data_plane, self._member
        transactions = TransactionCoordinator(
            self.config,
            self.store,
            self.broker.writer,
            self.clock,
            data_plane.producer_ids.next,
            data_plane.markers if member is None else self._routed_markers(member),
            alone=self.alone,
            may_answer=self.broker.ownership.may_answer,
        )
        verifier: TransactionVerifier = transactions
        if member is not None:
            verifier = self._routed_verifier(transactions, member)
        self.broker.verifier = verifier
        data_plane.verify_with(verifier)
        requests = TransactionHandlers(
            self.config,
            transactions,
            data_plane.catalogue.has_partition,
            data_plane.producer_ids.init,
            self.broker.work,
        )
        self.broker.tasks.routes.update(plain(requests.handlers))
        return transactions

    def _routed_markers(self, member: LocalNode) -> MarkerTarget:
        from groupd.coordinator.cluster.routed import RoutedMarkers

        plane = self.data_plane
        markers = RoutedMarkers(
            plane.markers,
            member.node,
            member.peers,
            plane.catalogue,
            self.catalogue_changes.catch_up,
        )
        member.closing.append(markers.close)
        return markers

    def _routed_verifier(
        self, transactions: TransactionCoordinator, member: LocalNode
    ) -> TransactionVerifier:
        from groupd.coordinator.cluster.routed import RoutedVerifier

        count = self.config.transaction_state_log_num_partitions
        verifier = RoutedVerifier(transactions, member.node, member.peers, count)
        member.closing.append(verifier.close)
        return verifier

    def _make_share_coordinator(self) -> ShareCoordinator:
        catalogue = self.data_plane.catalogue

        def exists(topic_id: TopicId, partition: int) -> bool:
            topic = catalogue.topic_by_id(topic_id)
            return topic is not None and partition < topic.partitions

        coordinator = ShareCoordinator(
            self.config,
            self.store,
            self.broker.writer,
            self.clock,
            exists,
            self.broker.work,
            alone=self.alone,
            may_answer=self.broker.ownership.may_answer,
        )
        self.broker.tasks.routes.update(plain(share_state_handlers(coordinator)))
        return coordinator

    def _make_persister(self, local: ShareCoordinator) -> Persister:
        """Returns the persister, which also answers the questions of share groups."""
        persister = PatientPersister(local, self.clock, NOT_NOW)
        if self._member is not None:
            persister = PatientPersister(self._routed(local, self._member), self.clock, NOT_THERE)
        self.broker.calls.add(initialization.SHARE_STATE, lambda call: persister.ask(call.request))
        return persister

    def _routed(self, local: ShareCoordinator, member: LocalNode) -> Persister:
        from groupd.coordinator.cluster.routed_persister import RoutedPersister

        routed = RoutedPersister(local, member.node, member.peers, self.config, self.broker.work)
        member.closing.append(routed.close)
        return routed

    def _make_share_partitions(self) -> ShareRequests:
        plane, member = self.data_plane, self._member
        shares = ShareRequests(self.config, plane, self.persister, self.clock, self._host.elapsed())
        if member is not None:
            from groupd.coordinator.cluster.routed_produce import RoutedProduce

            here = shares.dead_letters.produce_here
            shares.dead_letters.produce = RoutedProduce(here, plane.layout, member.peers)
        return shares

    def _answer_share_groups(self) -> None:
        """Let the share coordinator answer the calls of share groups, and requests about their
        offsets."""
        broker, persister = self.broker, self.persister
        offsets = ShareOffsets(broker, persister, self._make_log_ends(broker.work))
        self.share_offsets = offsets
        broker.tasks.routes.update(plain(offsets.handlers))

        async def delete(call: OutsideCall) -> ErrorCode:
            return first_error(await persister.ask(call.request))

        broker.calls.add(SHARE_STATE_DELETION, delete)
        broker.calls.add(SHARE_POSITIONS, offsets.positions)

    def _tell_broker_of_topics_and_configs(self) -> None:
        """Tell the broker which topics and configs there are, and from now on each change."""
        broker, data_plane = self.broker, self.data_plane
        broker.image = data_plane.catalogue.image
        data_plane.catalogue.add_listener(broker.on_metadata)
        data_plane.catalogue.add_listener(self.share_state.on_metadata)
        data_plane.group_overrides.add_listener(broker.on_group_configs)
        for group, overrides in data_plane.group_overrides.all().items():
            broker.on_group_configs(group, overrides)
        data_plane.broker_configs.follow(broker.on_broker_configs)

    def announce(
        self, host: str, port: int, listeners: tuple[tuple[str, str, int], ...] = ()
    ) -> None:
        """Set the advertised address of this node and, if it has several listeners, those of each,
        as (name, host, port)."""
        rack = self.config.broker_rack or None
        node = self.broker.node = Node(self.config.node_id, host, port, rack, listeners)
        if self._member is not None:
            self._member.announce(node)
        else:
            self._show_nodes([node])

    async def load(self, topics: Iterable[tuple[str, int]]) -> None:
        """Read the logs of the coordinators, then create those of `topics` (name, partitions) that
        do not exist. Raises LogError, ConfigError, DaemonFailed, CannotJoin."""
        for coordinator in self.coordinators.values():
            await coordinator.load()
        if self._member is not None:
            await self._member.start()
        await self.data_plane.create_missing(topics)
        self.topic_cleaner.start()

    def not_ready(self) -> str | None:
        """Says why not everything is served yet; None if it is."""
        for coordinator in self.coordinators.values():
            if (reason := coordinator.served.not_ready()) is not None:
                return reason
        return None if self._member is None else self._member.node.not_ready

    # Stop ---------------------------------------------------------------------------------

    async def finish(self) -> None:
        """Refuse new requests. What is under way becomes durable and is answered."""
        await self.topic_cleaner.close()
        await self.share_partitions.close()
        for coordinator in reversed(self.coordinators.values()):
            if coordinator is not self.broker:
                await coordinator.close()
        await self.data_plane.close()
        await self.broker.close()  # this closes the writer, too


COORDINATORS: dict[str, Callable[[DaemonParts], Coordinator]] = {
    GROUPS: lambda parts: parts.broker,
    TRANSACTIONS: lambda parts: parts.transactions,
    SHARE_STATE: lambda parts: parts.share_state,
}
"""Kind -> the function that makes or returns its coordinator, for each row of `COORDINATOR_TYPES`.
Broker, data plane, transactions and share coordinator exist before it is called."""


async def assemble(
    config: CoordinatorConfig,
    host: Host,
    clock: Clock,
    store: Store,
    assignors: Mapping[str, PartitionAssignor],
    *,
    member: LocalNode | None = None,
    wrap: Callable[[Requests], Requests] | None = None,
) -> DaemonParts:
    """Returns the parts on `store`, which is open. No shard is loaded yet. `clock`: the time of
    groups, offsets and records. `assignors`: as `load_assignors` returns them. `member`: the node's
    part in its cluster. `wrap(requests)` may return an object between the connections and the
    broker. Raises LogError, ConfigError."""
    changes = CatalogueChanges(None if member is None else member.store.journal)
    await fix_shard_count(store, config, changes)
    # Members name assignors by the names that the assignors give themselves.
    config = replace(config, consumer_assignors=tuple(assignors))
    if member is not None:
        config = replace(config, node_id=member.node_id)
    parts = DaemonParts(config, assignors, host, clock, store, changes, member, wrap)
    await parts.start()
    return parts
