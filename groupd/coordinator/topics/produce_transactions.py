"""Transactional Produce: the rights, and whether partitions are in the transaction. The rules are
Kafka's. All transactional batches of a request belong to one producer, whose client has WRITE on
the transactional id. If the producer's transaction is not yet open in a partition, the transaction
coordinator is asked whether the partition is in it. From Produce v12 on (transaction version 2) the
same call adds the partition. The coordinator's errors become errors that producers can handle: a
coordinator that is not ready is NOT_ENOUGH_REPLICAS, which every client retries.
"""

from __future__ import annotations

from collections.abc import Sequence

from groupd.coordinator.core.types import Operation, RequestContext, Resource
from groupd.coordinator.producers.transactions import TransactionalWrite, TransactionVerifier
from groupd.coordinator.topics.broker_configs import BrokerConfigs
from groupd.coordinator.topics.produce_entry import ProduceEntry
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicPartition
from groupd.protocol.messages.data import ProduceRequest
from groupd.protocol.records.batch import is_transactional, parse_header

ABORTABLE_FROM = 11
"""From this Produce version on, producers know TRANSACTION_ABORTABLE."""

ADDS_FROM = 12
"""From this Produce version on, a request adds its partitions to the transaction."""

_RETRIED = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class ProduceTransactions:
    """Verifies transactional batches with `verifier`, which may be set later."""

    def __init__(self, verifier: TransactionVerifier, broker: BrokerConfigs) -> None:
        self.verifier = verifier
        self._broker = broker

    @property
    def enforced(self) -> bool:
        """Whether only verified batches are appended to a transaction."""
        return self._broker.config.transaction_partition_verification_enable

    def check_access(self, context: RequestContext, request: ProduceRequest) -> None:
        """Raises ApiError TRANSACTIONAL_ID_AUTHORIZATION_FAILED, for the whole request."""
        name = request.transactional_id
        if not any(
            is_transactional(asked.records or b"")
            for topic in request.topics
            for asked in topic.partitions
        ):
            return
        if name is None or not context.allows(Operation.WRITE, Resource.TRANSACTIONAL_ID, name):
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    def mark(self, entries: Sequence[ProduceEntry]) -> list[ProduceEntry]:
        """Returns the transactional entries. Raises ApiError INVALID_PRODUCER_ID_MAPPING, for the
        whole request, if they are of several producers."""
        found = []
        for entry in entries:
            records = entry.asked.records or b""
            if is_transactional(records):
                entry.transactional = parse_header(records)
                found.append(entry)
        producers = {
            (entry.transactional.producer_id, entry.transactional.producer_epoch)
            for entry in found
            if entry.transactional is not None
        }
        if len(producers) > 1:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "Transactional records contained more than one producer ID",
            )
        return found

    def needed(self, context: RequestContext, entries: Sequence[ProduceEntry]) -> bool:
        """Whether the coordinator must be asked before these entries, whose logs are open, may be
        staged."""
        if not self._asks(context):
            return False
        for entry in entries:
            header, log = entry.transactional, entry.log
            if header is not None and log is not None and not entry.failed:
                known = log.producers.in_transaction(header.producer_id, header.producer_epoch)
                if not known:
                    return True
        return False

    async def verify(
        self, context: RequestContext, request: ProduceRequest, entries: Sequence[ProduceEntry]
    ) -> None:
        """Ask the coordinator about the entries whose transaction is not open in their logs.
        Entries that it refuses fail."""
        if not self._asks(context) or request.transactional_id is None:
            return
        add = context.api_version >= ADDS_FROM
        asked: dict[TopicPartition, ProduceEntry] = {}
        for entry in entries:
            if not entry.failed and self._start(entry, add):
                assert entry.topic is not None
                asked[entry.topic.name, entry.asked.partition] = entry
        if not asked:
            return
        header = next(iter(asked.values())).transactional
        assert header is not None
        write = TransactionalWrite(
            request.transactional_id, header.producer_id, header.producer_epoch, tuple(asked)
        )
        codes = await self.verifier.verify(write, add=add)
        for partition, entry in asked.items():
            code = codes.get(partition, ErrorCode.NONE)
            if code:
                _refuse(entry, code, context.api_version)

    def _asks(self, context: RequestContext) -> bool:
        return self.enforced or context.api_version >= ADDS_FROM

    @staticmethod
    def _start(entry: ProduceEntry, add: bool) -> bool:
        header, log = entry.transactional, entry.log
        assert header is not None
        assert log is not None
        try:
            entry.verification = log.producers.start_verification(
                header.producer_id, header.producer_epoch, header.base_sequence, bumps_epoch=add
            )
        except ApiError as error:
            entry.fail(error)
            return False
        entry.verified_by = log
        return entry.verification is not None


def _refuse(entry: ProduceEntry, code: ErrorCode, api_version: int) -> None:
    """Fail the entry with the coordinator's error, as a producer of that version understands it."""
    if code is ErrorCode.TRANSACTION_ABORTABLE and api_version < ABORTABLE_FROM:
        code = ErrorCode.INVALID_TXN_STATE
    retried = code in _RETRIED or (
        code is ErrorCode.CONCURRENT_TRANSACTIONS and api_version < ADDS_FROM
    )
    message = None
    if code is ErrorCode.INVALID_TXN_STATE:
        message = "Partition was not added to the transaction"
    elif retried:
        message = (
            "Unable to verify the partition has been added to the transaction. Underlying error: "
            + code.name
        )
        code = ErrorCode.NOT_ENOUGH_REPLICAS
    entry.fail(ApiError(code, message))
