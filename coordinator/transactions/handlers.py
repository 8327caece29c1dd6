"""The transaction APIs: rights first, then the coordinator, then the codes that a version knows.

Versions without PRODUCER_FENCED get INVALID_PRODUCER_EPOCH. Rights are Kafka's:
WRITE on the transactional id to use it, DESCRIBE to see it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from msgspec.structs import replace

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.core.types import DataHandler, Operation, RequestContext, Resource
from groupd.coordinator.patterns import BadPattern, Pattern, compile_pattern
from groupd.coordinator.producers.transactions import TopicPartition, TransactionalWrite
from groupd.coordinator.topics.names import CLUSTER_NAME, INTERNAL_TOPICS, OFFSETS_TOPIC
from groupd.coordinator.transactions.coordinator import TransactionCoordinator
from groupd.coordinator.transactions.log_records import by_topic
from groupd.coordinator.transactions.metadata import EPOCH_BUMPS, PREPARED, STATES_BY_NAME
from groupd.coordinator.transactions.table import Entry, TransactionTable
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import InitProducerIdReply, InitProducerIdRequest
from groupd.protocol.messages.transactions import (
    AddedTopic,
    AddedTransaction,
    AddOffsetsToTxnReply,
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnReply,
    AddPartitionsToTxnRequest,
    AddPartitionsTransaction,
    DescribedTransaction,
    DescribeTransactionsReply,
    DescribeTransactionsRequest,
    EndTxnReply,
    EndTxnRequest,
    ListedTransaction,
    ListTransactionsReply,
    ListTransactionsRequest,
    TxnTopic,
)

_BROKERS_FROM = 4
"""AddPartitionsToTxn from this version on comes from brokers."""


class TransactionHandlers:
    """`exists(topic, partition)` knows all topics, `idempotent` answers InitProducerId without a
    transactional id."""

    def __init__(
        self,
        config: CoordinatorConfig,
        coordinator: TransactionCoordinator,
        exists: Callable[[str, int], bool],
        idempotent: DataHandler,
    ) -> None:
        self._config = config
        self._coordinator = coordinator
        self._exists = exists
        self._idempotent = idempotent
        self.handlers: Mapping[type, DataHandler] = {
            InitProducerIdRequest: self.init_producer_id,
            AddPartitionsToTxnRequest: self.add_partitions,
            AddOffsetsToTxnRequest: self.add_offsets,
            EndTxnRequest: self.end,
            DescribeTransactionsRequest: self.describe,
            ListTransactionsRequest: self.list,
        }

    async def init_producer_id(
        self, context: RequestContext, request: InitProducerIdRequest
    ) -> InitProducerIdReply:
        if request.transactional_id is None:
            reply: InitProducerIdReply = await self._idempotent(context, request)
            return reply
        if not _may_write(context, request.transactional_id):
            return InitProducerIdReply(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if (request.producer_id == -1) != (request.producer_epoch == -1):
            return InitProducerIdReply(ErrorCode.INVALID_REQUEST)
        answer = await self._coordinator.init_producer_id(request)
        return InitProducerIdReply(
            _known(answer.error, context, fenced_from=4),
            answer.producer_id,
            answer.producer_epoch if answer.error is ErrorCode.NONE else -1,
        )

    async def add_partitions(
        self, context: RequestContext, request: AddPartitionsToTxnRequest
    ) -> AddPartitionsToTxnReply:
        """Many transactions at once from brokers, one from a client."""
        if context.api_version >= _BROKERS_FROM and not context.allows(
            Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME
        ):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        results = await asyncio.gather(
            *(self._add_to_one(context, transaction) for transaction in request.transactions)
        )
        return AddPartitionsToTxnReply(tuple(results))

    async def _add_to_one(
        self, context: RequestContext, transaction: AddPartitionsTransaction
    ) -> AddedTransaction:
        partitions = dict.fromkeys(
            (topic.name, partition)
            for topic in transaction.topics
            for partition in topic.partitions
        )
        from_client = context.api_version < _BROKERS_FROM
        if from_client and not _may_write(context, transaction.transactional_id):
            denied = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            return _added(transaction, dict.fromkeys(partitions, denied))
        refused = {
            partition: code
            for partition in partitions
            if (code := self._refusal(context, partition, from_client)) is not ErrorCode.NONE
        }
        if refused:
            # If one partition is refused, the others are not attempted.
            rest = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
            return _added(transaction, rest | refused)
        write = TransactionalWrite(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            tuple(partitions),
        )
        if transaction.verify_only:
            return _added(transaction, self._coordinator.check(write))
        code = await self._coordinator.add_partitions(
            write, client_version=0 if from_client else EPOCH_BUMPS
        )
        code = _known(code, context, fenced_from=2)
        return _added(transaction, dict.fromkeys(partitions, code))

    def _refusal(
        self, context: RequestContext, partition: TopicPartition, from_client: bool
    ) -> ErrorCode:
        topic, index = partition
        if from_client and (
            topic in INTERNAL_TOPICS or not context.allows(Operation.WRITE, Resource.TOPIC, topic)
        ):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if not self._exists(topic, index):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    async def add_offsets(
        self, context: RequestContext, request: AddOffsetsToTxnRequest
    ) -> AddOffsetsToTxnReply:
        """Adds the group's partition of `__consumer_offsets`."""
        if not _may_write(context, request.transactional_id):
            return AddOffsetsToTxnReply(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not context.allows(Operation.READ, Resource.GROUP, request.group_id):
            return AddOffsetsToTxnReply(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        shard = partition_for(request.group_id, self._config.offsets_topic_num_partitions)
        write = TransactionalWrite(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            ((OFFSETS_TOPIC, shard),),
        )
        # A client of version 2 does not send this request.
        code = await self._coordinator.add_partitions(write, client_version=0)
        return AddOffsetsToTxnReply(_known(code, context, fenced_from=2))

    async def end(self, context: RequestContext, request: EndTxnRequest) -> EndTxnReply:
        """v5 is for clients of transaction version 2."""
        if not _may_write(context, request.transactional_id):
            return EndTxnReply(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        version = EPOCH_BUMPS if context.api_version >= 5 else 0
        answer = await self._coordinator.end(request, client_version=version)
        return EndTxnReply(
            _known(answer.error, context, fenced_from=2),
            answer.producer_id,
            answer.producer_epoch,
        )

    async def describe(
        self, context: RequestContext, request: DescribeTransactionsRequest
    ) -> DescribeTransactionsReply:
        return DescribeTransactionsReply(
            tuple(self._describe_one(context, name) for name in request.transactional_ids)
        )

    def _describe_one(self, context: RequestContext, transactional_id: str) -> DescribedTransaction:
        if not _may_describe(context, transactional_id):
            return DescribedTransaction(
                transactional_id, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            )
        try:
            found = describe_transaction(self._coordinator.log.serving(), transactional_id)
        except ApiError as error:
            return DescribedTransaction(transactional_id, error.code)
        visible = tuple(
            topic
            for topic in found.topics
            if context.allows(Operation.DESCRIBE, Resource.TOPIC, topic.name)
        )
        return replace(found, topics=visible)

    async def list(
        self, context: RequestContext, request: ListTransactionsRequest
    ) -> ListTransactionsReply:
        table = self._coordinator.log.serving()
        reply = list_transactions(table, request, self._coordinator.now_ms())
        visible = tuple(
            transaction
            for transaction in reply.transactions
            if _may_describe(context, transaction.transactional_id)
        )
        return replace(reply, transactions=visible)


def _may_write(context: RequestContext, transactional_id: str) -> bool:
    return context.allows(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)


def _may_describe(context: RequestContext, transactional_id: str) -> bool:
    return context.allows(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, transactional_id)


def _known(code: ErrorCode, context: RequestContext, *, fenced_from: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED and context.api_version < fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _added(
    transaction: AddPartitionsTransaction, codes: Mapping[TopicPartition, ErrorCode]
) -> AddedTransaction:
    topics = tuple(
        AddedTopic(name, tuple((index, codes[name, index]) for index in indexes))
        for name, indexes in by_topic(frozenset(codes))
    )
    return AddedTransaction(transaction.transactional_id, topics)


# DescribeTransactions and ListTransactions (KIP-664), read from the table ---------------------


def describe_transaction(table: TransactionTable, transactional_id: str) -> DescribedTransaction:
    """One transactional id; an error is in the answer."""
    if not transactional_id:
        return DescribedTransaction(transactional_id, ErrorCode.INVALID_REQUEST)
    entry = table.entries.get(transactional_id)
    if entry is None:
        return DescribedTransaction(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    metadata = entry.metadata
    shown = entry.unmarked if metadata.state in PREPARED else metadata.partitions
    return DescribedTransaction(
        transactional_id,
        state=metadata.state.shown,
        timeout_ms=metadata.timeout_ms,
        start_time_ms=metadata.start_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=tuple(TxnTopic(topic, partitions) for topic, partitions in by_topic(shown)),
    )


def list_transactions(
    table: TransactionTable, request: ListTransactionsRequest, now_ms: int
) -> ListTransactionsReply:
    """Those that pass all filters, by id. Raises ApiError INVALID_REGULAR_EXPRESSION."""
    states = frozenset(STATES_BY_NAME[name] for name in request.states if name in STATES_BY_NAME)
    unknown = tuple(dict.fromkeys(name for name in request.states if name not in STATES_BY_NAME))
    pattern = _compile(request.pattern)
    producer_ids = frozenset(request.producer_ids)
    found = []
    for transactional_id, entry in sorted(table.entries.items()):
        if (
            (not producer_ids or entry.metadata.producer_id in producer_ids)
            and (not request.states or entry.metadata.state in states)
            and _runs_longer(entry, request.duration_ms, now_ms)
            and (pattern is None or pattern.fullmatch(transactional_id))
        ):
            metadata = entry.metadata
            found.append(
                ListedTransaction(transactional_id, metadata.producer_id, metadata.state.shown)
            )
    return ListTransactionsReply(tuple(found), unknown)


def _runs_longer(entry: Entry, duration_ms: int, now_ms: int) -> bool:
    return duration_ms < 0 or now_ms - entry.metadata.start_ms > duration_ms


def _compile(pattern: str | None) -> Pattern | None:
    if not pattern:
        return None
    try:
        return compile_pattern(pattern)
    except BadPattern as error:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"Transaction ID pattern `{pattern}` is not a valid regular expression: {error}",
        ) from error
