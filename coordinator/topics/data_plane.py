"""The data plane as a whole: constructs the parts and says who answers which request.

Start: `await start()` reads topics and group overrides, then requests may come. Stop: `close()`
once no more requests arrive; appends under way are waited for. A handler may raise ApiError for
the whole request; everything else that is foreseen is inside the reply.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from groupd.coordinator.config import ConfigError, CoordinatorConfig
from groupd.coordinator.core.types import Instant, RequestContext
from groupd.coordinator.producers.transactions import (
    MarkerTarget,
    NoTransactions,
    TransactionVerifier,
)
from groupd.coordinator.topics.alter_configs import AlterConfigs
from groupd.coordinator.topics.appends import Appends, Writer
from groupd.coordinator.topics.broker_configs import BrokerConfigs
from groupd.coordinator.topics.catalogue import TopicCatalogue
from groupd.coordinator.topics.client_metrics import ClientMetrics
from groupd.coordinator.topics.create_partitions import CreatePartitions
from groupd.coordinator.topics.create_topics import CreateTopics
from groupd.coordinator.topics.delete_records import DeleteRecords
from groupd.coordinator.topics.delete_topics import DeleteTopics
from groupd.coordinator.topics.describe_configs import DescribeConfigs
from groupd.coordinator.topics.describe_producers import DescribeProducers
from groupd.coordinator.topics.describe_quorum import DescribeQuorum
from groupd.coordinator.topics.describe_topic_partitions import DescribeTopicPartitions
from groupd.coordinator.topics.elect_leaders import ElectLeaders
from groupd.coordinator.topics.features import UpdateFeatures
from groupd.coordinator.topics.fetch import Fetch, Wait, wait_for_event
from groupd.coordinator.topics.fetch_sessions import FetchSessions
from groupd.coordinator.topics.group_overrides import GroupConfigFunctions, GroupOverrides
from groupd.coordinator.topics.layout import Layout
from groupd.coordinator.topics.leader_epoch import OffsetForLeaderEpoch
from groupd.coordinator.topics.list_config_resources import ListConfigResources
from groupd.coordinator.topics.list_offsets import ListOffsets
from groupd.coordinator.topics.log_dirs import LogDirs
from groupd.coordinator.topics.markers import NoOffsetsMarkers, TransactionMarkers, WriteTxnMarkers
from groupd.coordinator.topics.metadata import Metadata
from groupd.coordinator.topics.offsets_log import NoOffsetsLog, OffsetsLogView
from groupd.coordinator.topics.partitions import Partitions
from groupd.coordinator.topics.produce import Produce
from groupd.coordinator.topics.producer_ids import ProducerIds
from groupd.coordinator.topics.reassignments import Reassignments
from groupd.coordinator.topics.telemetry import Telemetry
from groupd.coordinator.topics.transactions_log import TransactionsLogView
from groupd.coordinator.topics.verifying import Verifying
from groupd.protocol.errors import ApiError
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
    Node,
)
from groupd.protocol.messages.data import (
    DeleteRecordsRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from groupd.protocol.messages.producers import DescribeProducersRequest, WriteTxnMarkersRequest
from groupd.protocol.messages.quorum import DescribeQuorumRequest, UpdateFeaturesRequest
from groupd.protocol.messages.replicas import (
    AlterPartitionReassignmentsRequest,
    AlterReplicaLogDirsRequest,
    DescribeLogDirsRequest,
    ElectLeadersRequest,
    ListPartitionReassignmentsRequest,
)
from groupd.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    PushTelemetryRequest,
)
from groupd.protocol.messages.topics import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from groupd.storage.log import Store

Handler = Callable[[RequestContext, Any], Awaitable[Any]]
"""(context, request) -> reply; None only from Produce with acks=0: send nothing."""


class DataPlane:
    """Topics, records and their administration on this node.

    `store` must be started. `writer` has the signature of `store.append` and serves calls in
    order (default: `store.append`). `new_topic_id()`: 16 random bytes; `new_id()`: a random UUID.
    `nodes` is read at every request. `offsets_view` shows the shards' logs, `offsets_markers` takes
    the markers for them. `verifier` knows the open transactions. `offsets_leader(partition)`: the
    node that serves a shard, by default this one. `elapsed` measures long polls and the use of
    fetch sessions (default: `now`), which are a matter between sockets and stay in real time when
    `now` does not. `wait` is for tests.
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
        group_configs: GroupConfigFunctions,
        writer: Writer | None = None,
        offsets_view: OffsetsLogView | None = None,
        verifier: TransactionVerifier | None = None,
        offsets_markers: MarkerTarget | None = None,
        wait: Wait = wait_for_event,
        elapsed: Callable[[], Instant] | None = None,
        offsets_leader: Callable[[int], int] | None = None,
    ) -> None:
        layout = Layout(config.node_id, nodes, offsets_leader)
        self.catalogue = TopicCatalogue(store, config, new_topic_id, now().wall_ms)
        self.broker_configs = BrokerConfigs(store, config, layout)
        self.client_metrics = ClientMetrics(store)
        self.telemetry = Telemetry(self.client_metrics, config, now, new_topic_id)
        self.group_overrides = GroupOverrides(store, self.broker_configs, group_configs)
        self.partitions = Partitions(self.catalogue, store, offsets_view or NoOffsetsLog())
        self._appends = Appends(self.partitions, writer or store.append)
        self._verifying = Verifying(verifier or NoTransactions(), self.broker_configs)
        self.markers = TransactionMarkers(
            self.partitions, self._appends, now, offsets_markers or NoOffsetsMarkers()
        )
        self.producer_ids = ProducerIds(store)
        self.fetch_sessions = FetchSessions(config, new_id)
        metadata = Metadata(self.catalogue, config, layout)
        self.handlers: Mapping[type, Handler] = MappingProxyType(
            {
                MetadataRequest: metadata.handle,
                DescribeClusterRequest: metadata.describe_cluster,
                DescribeTopicPartitionsRequest: DescribeTopicPartitions(
                    self.catalogue, layout
                ).handle,
                **self._topic_handlers(store, layout),
                **self._config_handlers(layout),
                **self._node_handlers(config, store, layout, now),
                **self._record_handlers(config, now, elapsed or now, wait),
            }
        )

    def _topic_handlers(self, store: Store, layout: Layout) -> Mapping[type, Handler]:
        broker = self.broker_configs
        return {
            CreateTopicsRequest: CreateTopics(self.catalogue, broker, layout).handle,
            DeleteTopicsRequest: DeleteTopics(self.catalogue, store).handle,
            CreatePartitionsRequest: CreatePartitions(self.catalogue, layout).handle,
            DeleteRecordsRequest: DeleteRecords(self.partitions, broker).handle,
        }

    def _config_handlers(self, layout: Layout) -> Mapping[type, Handler]:
        parts = (
            self.catalogue,
            self.broker_configs,
            self.group_overrides,
            self.client_metrics,
        )
        alter = AlterConfigs(*parts)
        return {
            DescribeConfigsRequest: DescribeConfigs(*parts).handle,
            AlterConfigsRequest: alter.handle,
            IncrementalAlterConfigsRequest: alter.handle,
            ListConfigResourcesRequest: ListConfigResources(
                self.catalogue, self.group_overrides, self.client_metrics, layout
            ).handle,
            GetTelemetrySubscriptionsRequest: self.telemetry.subscriptions_of,
            PushTelemetryRequest: self.telemetry.push,
        }

    def _node_handlers(
        self,
        config: CoordinatorConfig,
        store: Store,
        layout: Layout,
        now: Callable[[], Instant],
    ) -> Mapping[type, Handler]:
        log_dirs = LogDirs(self.catalogue, store)
        reassignments = Reassignments(self.catalogue, layout)
        return {
            DescribeLogDirsRequest: log_dirs.describe,
            AlterReplicaLogDirsRequest: log_dirs.alter,
            ElectLeadersRequest: ElectLeaders(self.catalogue).handle,
            AlterPartitionReassignmentsRequest: reassignments.alter,
            ListPartitionReassignmentsRequest: reassignments.list,
            DescribeQuorumRequest: DescribeQuorum(self.catalogue, layout, now).handle,
            UpdateFeaturesRequest: UpdateFeatures(config).handle,
        }

    def _record_handlers(
        self,
        config: CoordinatorConfig,
        now: Callable[[], Instant],
        elapsed: Callable[[], Instant],
        wait: Wait,
    ) -> Mapping[type, Handler]:
        produce = Produce(self.partitions, self._appends, self._verifying, self.broker_configs, now)
        fetch = Fetch(self.partitions, self.fetch_sessions, config, elapsed, wait)
        return {
            ProduceRequest: produce.handle,
            FetchRequest: fetch.handle,
            ListOffsetsRequest: ListOffsets(self.partitions).handle,
            OffsetForLeaderEpochRequest: OffsetForLeaderEpoch(self.partitions).handle,
            InitProducerIdRequest: self.producer_ids.init,
            DescribeProducersRequest: DescribeProducers(self.partitions).handle,
            WriteTxnMarkersRequest: WriteTxnMarkers(self.markers).handle,
        }

    def verify_with(self, verifier: TransactionVerifier, log: TransactionsLogView) -> None:
        """The transaction coordinator, which itself needs this data plane's `markers`, and its
        log."""
        self._verifying.verifier = verifier
        self.partitions.transactions_view = log

    async def start(self) -> None:
        """Load what the store knows. Raises LogError."""
        await self.catalogue.load()
        await self.broker_configs.load()
        await self.group_overrides.load()
        await self.client_metrics.load()

    async def create_missing(self, topics: Iterable[tuple[str, int]]) -> None:
        """Create those of (name, partitions) that are not there. Raises ConfigError, LogError."""
        for name, partitions in topics:
            try:
                if self.catalogue.topic(name) is None:
                    await self.catalogue.create(name, partitions, {})
            except ApiError as error:
                raise ConfigError(f"--topic {name}:{partitions}: {error.message}") from error

    async def close(self) -> None:
        """Let appends under way finish and wake every waiting fetch. The store stays open."""
        await self._appends.close()
        await self.partitions.close()
