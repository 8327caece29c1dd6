"""Which function answers which request of the data plane. Requests of groups and of transactions
have their own tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from groupd.coordinator.core.types import DataHandler
from groupd.coordinator.runtime.data_routes import DataRoute, plain
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.topics.markers import write_txn_markers
from groupd.coordinator.topics.metadata import (
    describe_cluster,
    describe_topic_partitions,
    metadata,
)
from groupd.coordinator.topics.partition_queries import (
    describe_producers,
    list_offsets,
    offsets_for_leader_epochs,
)
from groupd.coordinator.topics.produce import is_long
from groupd.coordinator.topics.quorum import describe_quorum
from groupd.coordinator.topics.replicas import (
    describe_log_dirs,
    unchangeable,
)
from groupd.coordinator.topics.topic_admin import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
)
from groupd.protocol.messages.cluster import (
    DescribeClusterRequest,
    DescribeTopicPartitionsRequest,
    MetadataRequest,
)
from groupd.protocol.messages.data import (
    DeleteRecordsRequest,
    FetchRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from groupd.protocol.messages.producers import DescribeProducersRequest, WriteTxnMarkersRequest
from groupd.protocol.messages.quorum import DescribeQuorumRequest
from groupd.protocol.messages.replicas import (
    DescribeLogDirsRequest,
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


def data_routes(plane: DataPlane) -> Mapping[type, DataRoute]:
    """The route of each type of request."""
    partitions = plane.partitions
    others: dict[type, DataHandler] = {
        # Nodes and topics
        MetadataRequest: partial(metadata, plane),
        DescribeClusterRequest: partial(describe_cluster, plane),
        DescribeTopicPartitionsRequest: partial(describe_topic_partitions, plane),
        CreateTopicsRequest: partial(create_topics, plane),
        DeleteTopicsRequest: partial(delete_topics, plane),
        CreatePartitionsRequest: partial(create_partitions, plane),
        DeleteRecordsRequest: partial(delete_records, plane),
        # Records
        ListOffsetsRequest: partial(list_offsets, partitions, plane.time_search, plane.work),
        OffsetForLeaderEpochRequest: partial(offsets_for_leader_epochs, partitions, plane.work),
        DescribeProducersRequest: partial(describe_producers, partitions, plane.work),
        WriteTxnMarkersRequest: partial(write_txn_markers, plane.markers, plane.work),
        # Configs and clients' metrics
        DescribeConfigsRequest: plane.configs.describe,
        AlterConfigsRequest: plane.configs.alter,
        IncrementalAlterConfigsRequest: plane.configs.alter,
        ListConfigResourcesRequest: plane.configs.list,
        GetTelemetrySubscriptionsRequest: plane.telemetry.subscriptions_of,
        PushTelemetryRequest: plane.telemetry.push,
        # Replicas and the controller
        DescribeLogDirsRequest: partial(describe_log_dirs, plane),
        DescribeQuorumRequest: partial(describe_quorum, plane),
        **unchangeable(plane),
    }
    return {
        ProduceRequest: DataRoute(plane.produce.handle, is_long=is_long),
        FetchRequest: DataRoute(plane.fetch.begin, plane.fetch.read),
        **plain(others),
    }
