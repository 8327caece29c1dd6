"""The transaction APIs: first the rights are checked, then the coordinator is asked, then the code
is replaced by one that the version knows. Versions without PRODUCER_FENCED get
INVALID_PRODUCER_EPOCH.

The rights are Kafka's: WRITE on the transactional id to use it, DESCRIBE to see it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.slices import Pace, sorted_in_steps
from groupd.coordinator.core.types import (
    CLUSTER_NAME,
    DataHandler,
    Operation,
    RequestContext,
    Resource,
)
from groupd.coordinator.patterns import BadPattern, Pattern, compile_pattern
from groupd.coordinator.producers.transactions import TransactionalWrite
from groupd.coordinator.runtime.coordinator_types import GROUP_COORDINATOR, is_internal
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.transactions.coordinator import TransactionCoordinator
from groupd.coordinator.transactions.metadata import EPOCH_BUMPS, PREPARED, STATES_BY_NAME, by_topic
from groupd.coordinator.transactions.table import TransactionEntry, TransactionTable
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicPartition
from groupd.protocol.messages.data import InitProducerIdReply, InitProducerIdRequest
from groupd.protocol.messages.lazily import mapped
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
"""From this version on brokers send AddPartitionsToTxn."""


class TransactionHandlers:
    """The handlers of the transaction APIs. `exists(topic, partition)` knows all topics.
    `idempotent` answers InitProducerId without a transactional id."""

    def __init__(
        self,
        config: CoordinatorConfig,
        coordinator: TransactionCoordinator,
        exists: Callable[[str, int], bool],
        idempotent: DataHandler,
        work: LongWork,
    ) -> None:
        self._config = config
        self._coordinator = coordinator
        self._exists = exists
        self._idempotent = idempotent
        self._work = work
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
        """AddPartitionsToTxn: a broker sends many transactions at once, a client one."""
        if context.api_version >= _BROKERS_FROM and not context.allows(
            Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME
        ):
            raise ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        pace = self._work.pace()
        results = []
        for transaction in request.transactions:
            if pace.due():
                await pace.turn()
            results.append(await self._add_to_one(context, transaction, pace))
        return AddPartitionsToTxnReply(tuple(results))

    async def _add_to_one(
        self, context: RequestContext, transaction: AddPartitionsTransaction, pace: Pace
    ) -> AddedTransaction:
        from_client = context.api_version < _BROKERS_FROM
        if from_client and not _may_write(context, transaction.transactional_id):
            return _added(transaction, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        # If one partition is refused, none is added (OPERATION_NOT_ATTEMPTED).
        refused: dict[TopicPartition, ErrorCode] = {}
        partitions: dict[TopicPartition, None] = {}
        for topic in transaction.topics:
            if pace.due():
                await pace.turn()
            for number in topic.partitions:
                if pace.due():
                    await pace.turn()
                partition = (topic.name, number)
                code = self._refusal(context, partition, from_client)
                if code is not ErrorCode.NONE:
                    refused[partition] = code
                partitions[partition] = None
        if refused:
            return _added(transaction, ErrorCode.OPERATION_NOT_ATTEMPTED, refused)
        if len(partitions) > self._config.max_transaction_partitions:
            return _added(transaction, ErrorCode.POLICY_VIOLATION)
        write = TransactionalWrite(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            tuple(partitions),
        )
        if transaction.verify_only:
            return _added(transaction, ErrorCode.NONE, self._coordinator.check(write))
        code = await self._coordinator.add_partitions(
            write, client_version=0 if from_client else EPOCH_BUMPS
        )
        return _added(transaction, _known(code, context, fenced_from=2))

    def _refusal(
        self, context: RequestContext, partition: TopicPartition, from_client: bool
    ) -> ErrorCode:
        topic, index = partition
        if from_client and (
            is_internal(topic) or not context.allows(Operation.WRITE, Resource.TOPIC, topic)
        ):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        if not self._exists(topic, index):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE

    async def add_offsets(
        self, context: RequestContext, request: AddOffsetsToTxnRequest
    ) -> AddOffsetsToTxnReply:
        """AddOffsetsToTxn: add the group's partition of `__consumer_offsets`."""
        if not _may_write(context, request.transactional_id):
            return AddOffsetsToTxnReply(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not context.allows(Operation.READ, Resource.GROUP, request.group_id):
            return AddOffsetsToTxnReply(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        shard = GROUP_COORDINATOR.unit_of(request.group_id, self._config).number
        write = TransactionalWrite(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            ((GROUP_COORDINATOR.topic.name, shard),),
        )
        # A client of version 2 does not send this request.
        code = await self._coordinator.add_partitions(write, client_version=0)
        return AddOffsetsToTxnReply(_known(code, context, fenced_from=2))

    async def end(self, context: RequestContext, request: EndTxnRequest) -> EndTxnReply:
        """EndTxn. Clients that use v5 have transaction version 2."""
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
        """DescribeTransactions. An id that is there several times is answered once."""
        pace = self._work.pace()
        found: dict[str, DescribedTransaction] = {}
        for name in request.transactional_ids:
            if pace.due():
                await pace.turn()
            if name not in found:
                found[name] = self._describe_one(context, name)
                # Its topics and partitions are sorted, which takes time.
                if pace.due(found[name].partition_count // 10):
                    await pace.turn()
        return DescribeTransactionsReply(tuple(found.values()))

    def _describe_one(self, context: RequestContext, transactional_id: str) -> DescribedTransaction:
        if not context.allows(Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, transactional_id):
            return DescribedTransaction(
                transactional_id, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            )
        try:
            found = describe_transaction(
                self._coordinator.table_of(transactional_id), transactional_id
            )
        except ApiError as error:
            return DescribedTransaction(transactional_id, error.code)
        visible = tuple(
            topic
            for topic in found.topics
            if context.sees(Operation.DESCRIBE, Resource.TOPIC, topic.name)
        )
        return replace(found, topics=visible)

    async def list(
        self, context: RequestContext, request: ListTransactionsRequest
    ) -> ListTransactionsReply:
        """ListTransactions: the ids of this node. Raises ApiError if one of its shards cannot be
        asked now, because its ids would be missing."""
        entries = [item for table in self._coordinator.tables() for item in table.entries.items()]
        pace = self._work.pace()
        matches = TransactionFilter(request, self._coordinator.now_ms())
        unknown: dict[str, None] = {}
        for name in request.states:
            if pace.due():
                await pace.turn()
            if name not in STATES_BY_NAME:
                unknown[name] = None
        found = []
        for transactional_id, entry in await pace.through(sorted_in_steps(entries)):
            if pace.due():
                await pace.turn()
            if matches(transactional_id, entry) and context.sees(
                Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, transactional_id
            ):
                metadata = entry.metadata
                found.append(
                    ListedTransaction(transactional_id, metadata.producer_id, metadata.state.shown)
                )
        self._coordinator.check_answers()  # the lease may have run out meanwhile
        return ListTransactionsReply(tuple(found), tuple(unknown))


def _may_write(context: RequestContext, transactional_id: str) -> bool:
    return context.allows(Operation.WRITE, Resource.TRANSACTIONAL_ID, transactional_id)


def _known(code: ErrorCode, context: RequestContext, *, fenced_from: int) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED and context.api_version < fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _added(
    transaction: AddPartitionsTransaction,
    code: ErrorCode,
    others: Mapping[TopicPartition, ErrorCode] | None = None,
) -> AddedTransaction:
    """Returns the answer for one transaction. The code of a partition is in `others`, or else it is
    `code`."""
    codes = others or {}

    def topic(asked: TxnTopic) -> AddedTopic:
        def added(number: int) -> tuple[int, ErrorCode]:
            return number, codes.get((asked.name, number), code)

        return AddedTopic(asked.name, mapped(added, asked.partitions))

    return AddedTransaction(transaction.transactional_id, mapped(topic, transaction.topics))


# DescribeTransactions and ListTransactions (KIP-664), read from the table ---------------------


def describe_transaction(table: TransactionTable, transactional_id: str) -> DescribedTransaction:
    """Returns the answer about one transactional id; an error is in the answer."""
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


class TransactionFilter:
    """Says whether ListTransactions shows a transactional id. Raises ApiError
    INVALID_REGULAR_EXPRESSION."""

    def __init__(self, request: ListTransactionsRequest, now_ms: int) -> None:
        self._states = frozenset(
            state for name, state in STATES_BY_NAME.items() if name in request.states
        )
        self._any_state = not request.states
        self._pattern = _compile(request.pattern)
        self._producer_ids = frozenset(request.producer_ids)
        self._duration_ms = request.duration_ms
        self._now_ms = now_ms

    def __call__(self, transactional_id: str, entry: TransactionEntry) -> bool:
        metadata = entry.metadata
        return (
            (not self._producer_ids or metadata.producer_id in self._producer_ids)
            and (self._any_state or metadata.state in self._states)
            and _runs_longer(entry, self._duration_ms, self._now_ms)
            and (self._pattern is None or self._pattern.fullmatch(transactional_id) is not None)
        )


def _runs_longer(entry: TransactionEntry, duration_ms: int, now_ms: int) -> bool:
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
