"""The data plane of this node, made of its parts: topics, records, and their administration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.core.types import Instant, RequestContext
from groupd.coordinator.producers.transactions import (
    MarkerTarget,
    NoTransactions,
    TransactionVerifier,
)
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.ownership import Ownership, SingleNodeOwnership
from groupd.coordinator.runtime.unpacking import Unpacking
from groupd.coordinator.security.quotas import Mutations, Quotas
from groupd.coordinator.topics.appends import Appends, AppendWriter, PartitionServer
from groupd.coordinator.topics.broker_configs import BrokerConfigs
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.configs import Configs, TopicConfigs
from groupd.coordinator.topics.coordinator_logs import CoordinatorLogView
from groupd.coordinator.topics.fetch import Fetch
from groupd.coordinator.topics.fetch_sessions import FetchSessions
from groupd.coordinator.topics.group_overrides import GroupOverrides
from groupd.coordinator.topics.layout import Layout
from groupd.coordinator.topics.long_polls import LongPolls, WaitForEvent, wait_for_event
from groupd.coordinator.topics.markers import TransactionMarkers
from groupd.coordinator.topics.partition import PartitionLog
from groupd.coordinator.topics.partition_queries import TimeSearch
from groupd.coordinator.topics.partition_states import P, PartitionStates
from groupd.coordinator.topics.partitions import Partitions
from groupd.coordinator.topics.produce import Produce
from groupd.coordinator.topics.produce_transactions import ProduceTransactions
from groupd.coordinator.topics.producer_ids import ProducerIds
from groupd.coordinator.topics.telemetry import ClientMetrics, Telemetry
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.topics import (
    RESOURCE_BROKER,
    RESOURCE_CLIENT_METRICS,
    RESOURCE_GROUP,
    RESOURCE_TOPIC,
)
from groupd.storage.call_batcher import CallBatcher
from groupd.storage.log import Store


class DataPlane:
    """Makes and holds all parts of the data plane.

    `store` must be started. `writer` has the signature of `store.append` and serves calls in order.
    `new_topic_id()` returns 16 random bytes, `new_id()` a random UUID. `nodes` is read at every
    request. `views` show the logs of coordinators, and `offsets_markers` takes the markers for
    `__consumer_offsets`. `ownership` says which partitions this node leads (default: all).
    `changes` makes all changes of the catalogue (default: without a cluster). `elapsed` times long
    polls and the use of fetch sessions: they concern only sockets, and stay in real time when `now`
    does not. `work` runs long work. `quotas`: of the clients (default: none). `wait` is for tests.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        store: Store,
        *,
        new_topic_id: Callable[[], TopicId],
        new_id: Callable[[], str],
        now: Callable[[], Instant],
        nodes: Sequence[Node],
        elapsed: Callable[[], Instant],
        work: LongWork,
        writer: AppendWriter,
        views: Mapping[str, CoordinatorLogView],
        offsets_markers: MarkerTarget,
        wait: WaitForEvent = wait_for_event,
        ownership: Ownership | None = None,
        changes: CatalogueChanges | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        self.quotas = quotas or Quotas(lambda: now().monotonic_ms)
        self.config = config
        self.store = store
        self.now = now
        self.work = work
        self.time_search = TimeSearch(Unpacking(work), config.produce_unpacked_max_bytes)
        ownership = ownership or SingleNodeOwnership(config.node_id)
        self.layout = Layout(config.node_id, nodes, ownership)
        self.changes = changes = changes or CatalogueChanges()
        self.catalogue = TopicCatalogue(store, config, new_topic_id, changes, now().wall_ms)
        self.broker_configs = BrokerConfigs(store, changes, config, self.layout)
        self.client_metrics = ClientMetrics(store, changes)
        self.telemetry = Telemetry(self.client_metrics, now, new_topic_id)
        self.group_overrides = GroupOverrides(store, changes, self.broker_configs)
        self.configs = Configs(
            {
                RESOURCE_GROUP: self.group_overrides,
                RESOURCE_CLIENT_METRICS: self.client_metrics,
                RESOURCE_BROKER: self.broker_configs,
                RESOURCE_TOPIC: TopicConfigs(self.catalogue, self.broker_configs),
            },
            work,
        )
        self.partitions = Partitions(self.catalogue, store, views, ownership)
        self._appends = Appends(self.partitions, writer)
        self.unit_server = PartitionServer(self.partitions, self._appends)
        self._transactions = ProduceTransactions(NoTransactions(), self.broker_configs)
        where = self.partitions, self.layout
        self.produce = Produce(
            *where, self._appends, self._transactions, self.broker_configs, now, work
        )
        self.markers = TransactionMarkers(self.partitions, self._appends, now, offsets_markers)
        self.producer_ids = ProducerIds(store)
        self.log_sizes = CallBatcher(partial(_log_sizes, store))
        """The size in bytes of the batches of each log, by its name; empty logs are missing. An
        answer is never older than the question."""
        self.fetch_sessions = FetchSessions(config, new_id)
        self.long_polls = LongPolls(work, elapsed, wait)
        self.fetch = Fetch(
            *where, self.fetch_sessions, self.long_polls, config, work, elapsed, self.quotas
        )

    def verify_with(self, verifier: TransactionVerifier) -> None:
        """Set the transaction coordinator, which itself needs this data plane's `markers`."""
        self._transactions.verifier = verifier

    def keep_states(self, make: Callable[[PartitionLog], P]) -> PartitionStates[P]:
        """The soft state that a feature keeps beside the partitions that this node leads."""
        return PartitionStates(self.partitions, make)

    async def start(self) -> None:
        """Load topics and configs from the store. Raises LogError."""
        await self.catalogue.load()
        await self.broker_configs.load()
        await self.group_overrides.load()
        await self.client_metrics.load()

    async def create_missing(self, topics: Iterable[tuple[str, int]]) -> None:
        """Create those of the topics (name, partitions) that do not exist. Raises ConfigError,
        LogError."""
        for name, partitions in topics:
            try:
                if self.catalogue.topic(name) is None:
                    await self.catalogue.create(name, partitions, {})
            except ApiError as error:
                if error.code == ErrorCode.TOPIC_ALREADY_EXISTS:
                    continue  # Another node of the cluster has just created it.
                raise ConfigError(f"--topic {name}:{partitions}: {error.message}") from error

    def mutations(self, context: RequestContext, strict_from: int = 0) -> Mutations:
        """Counts what a request creates and deletes against the client's quota. From version
        `strict_from` of its API on, a request beyond the quota is refused."""
        limit = self.quotas.mutation_limit(context.principal, context.client_id)
        return self.quotas.mutations(limit, strict=context.api_version >= strict_from)

    async def close(self) -> None:
        """Let appends under way finish and wake every waiting fetch. The store stays open."""
        await self._appends.close()
        await self.partitions.close()


async def _log_sizes(store: Store, questions: Sequence[None]) -> list[Mapping[str, int]]:
    """One answer for all questions. The store reads all of its rows to sum up the sizes, and
    appends and reads of others need its time, too. Raises LogError."""
    return [await store.log_sizes()] * len(questions)
