"""The data requests that a worker answers: it leads the partitions of `__consumer_offsets` that
its shards write, and no others.

The main process coordinates transactional ids and leads topics. A client that asks a worker for
them has old metadata and gets the error that makes it fetch metadata again. Requests that any node
answers are forwarded (`worker_frontend`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import DataHandler, RequestContext
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.ids import new_id
from groupd.coordinator.runtime.offsets_view import OffsetsView
from groupd.coordinator.runtime.transactions import OffsetsMarkers
from groupd.coordinator.runtime.unpacking import Unpacking
from groupd.coordinator.security.quotas import Quotas
from groupd.coordinator.topics.broker_keys import LOG_DIR
from groupd.coordinator.topics.fetch import Fetch
from groupd.coordinator.topics.fetch_sessions import FetchSessions
from groupd.coordinator.topics.layout import Layout
from groupd.coordinator.topics.markers import write_txn_markers
from groupd.coordinator.topics.partition_queries import (
    describe_producers,
    list_offsets,
    offsets_for_leader_epochs,
)
from groupd.coordinator.topics.partitions import KnownTopics, Partitions
from groupd.coordinator.topics.time_search import TimeSearch
from groupd.coordinator.workers.ownership import WorkerOwnership
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import (
    DeleteRecordsRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
)
from groupd.protocol.messages.producers import DescribeProducersRequest, WriteTxnMarkersRequest
from groupd.protocol.messages.replicas import DescribeLogDirsReply, DescribeLogDirsRequest, LogDir
from groupd.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    ListTransactionsReply,
    ListTransactionsRequest,
)
from groupd.storage.log import PartitionLogs


def offsets_handlers(
    config: CoordinatorConfig, broker: Broker, topics: KnownTopics, logs: PartitionLogs
) -> Mapping[type, DataHandler]:
    """Request type -> handler."""
    ownership = WorkerOwnership(config.node_id)
    partitions = Partitions(topics, logs, OffsetsView(broker), ownership)
    search = TimeSearch(Unpacking(broker.work), config.produce_unpacked_max_bytes)
    not_leader = _refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    not_coordinator = _refuse(ErrorCode.NOT_COORDINATOR)
    return {
        FetchRequest: Fetch(
            partitions,
            Layout(config.node_id, (), ownership),
            FetchSessions(config, new_id),
            config,
            broker.work,
            broker.clock.now,
            quotas=Quotas(config, broker.clock.monotonic_ms),
        ).handle,
        ListOffsetsRequest: partial(list_offsets, partitions, search, broker.work),
        OffsetForLeaderEpochRequest: partial(offsets_for_leader_epochs, partitions, broker.work),
        DescribeProducersRequest: partial(describe_producers, partitions, broker.work),
        WriteTxnMarkersRequest: partial(write_txn_markers, OffsetsMarkers(broker), broker.work),
        ProduceRequest: not_leader,
        DeleteRecordsRequest: not_leader,
        AddPartitionsToTxnRequest: not_coordinator,
        AddOffsetsToTxnRequest: not_coordinator,
        EndTxnRequest: not_coordinator,
        DescribeTransactionsRequest: not_coordinator,
        ListTransactionsRequest: _no_transactions,
        DescribeLogDirsRequest: _no_logs,
    }


def forwarded(request: Any) -> bool:
    """Whether a request that neither a shard nor a handler from here takes is forwarded. A producer
    without transactional id asks any node for its id; with one, only its coordinator."""
    return not isinstance(request, InitProducerIdRequest) or request.transactional_id is None


def _refuse(code: ErrorCode) -> DataHandler:
    async def handle(context: RequestContext, request: Any) -> Any:
        raise ApiError(code)

    return handle


async def _no_transactions(context: RequestContext, request: Any) -> ListTransactionsReply:
    """Answers with an empty list: each node lists its own."""
    return ListTransactionsReply()


async def _no_logs(context: RequestContext, request: Any) -> DescribeLogDirsReply:
    """Answers without sizes: the store is the first node's, which tells the sizes of all logs."""
    return DescribeLogDirsReply(log_dirs=(LogDir(LOG_DIR),))
