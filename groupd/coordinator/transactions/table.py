"""TransactionTable: the transactional ids of a shard, as a state machine.

Pure: no clock, no I/O, nothing awaited. Time is `now_ms` (wall clock, because it is persisted). A
request returns a `TransactionStep`: a `TransactionAnswer`, or a `TransactionChange` whose record
must become durable first. From then until `applied` or `refused` the id is *pending* and refuses
every other change with CONCURRENT_TRANSACTIONS. A prepared transaction stays pending until its
markers are written and its completion is applied. ApiError and NeedsProducerId are raised before
any change.

There is no undo for a failed append: the log shard drops the table and loads another one from the
log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.slices import WORK_ITEMS, Steps, chunks
from groupd.coordinator.producers.transactions import TransactionalWrite
from groupd.coordinator.transactions.end import end_v1, end_v2, fence
from groupd.coordinator.transactions.metadata import (
    AT_REST,
    EPOCH_BUMPS,
    LAST_EPOCH,
    NO_EPOCH,
    PREPARED,
    NeedsProducerId,
    TransactionAnswer,
    TransactionChange,
    TransactionMetadata,
    TransactionState,
    TransactionStep,
)
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages import TopicPartition
from groupd.protocol.messages.data import InitProducerIdRequest
from groupd.protocol.messages.transactions import EndTxnRequest

ID_MAX = 1000
"""The most characters of a transactional id, so that a table of ids stays small."""

_FENCING = TransactionAnswer(ErrorCode.CONCURRENT_TRANSACTIONS)
"""The answer to a new producer while the transaction of the old producer is being aborted."""


class TransactionEntry:
    """One transactional id. `pending`: the state that the change under way leads to; None if there
    is none. `unmarked`: the partitions of a prepared transaction that still lack their marker.
    `offset`: of its newest record in the log."""

    __slots__ = ("metadata", "offset", "pending", "unmarked")

    def __init__(self, metadata: TransactionMetadata) -> None:
        self.metadata = metadata
        self.pending: TransactionState | None = None
        self.unmarked: set[TopicPartition] = set()
        self.offset = -1


class TransactionTable:
    """The transactional ids of a shard. `ids_in_all()`: how many ids count against the limit; by
    default only those of this table."""

    def __init__(
        self, config: CoordinatorConfig, ids_in_all: Callable[[], int] | None = None
    ) -> None:
        self._config = config
        self._ids_in_all = ids_in_all or (lambda: len(self.entries))
        self.entries: dict[str, TransactionEntry] = {}

    # Requests -----------------------------------------------------------------------------

    def init_producer_id(
        self, request: InitProducerIdRequest, now_ms: int, fresh_id: int | None
    ) -> TransactionStep:
        """InitProducerId with a transactional id."""
        transactional_id = self._checked_init(request)
        entry = self.entries.get(transactional_id)
        if entry is None:
            metadata = self._new_metadata(request, now_ms, fresh_id)
        elif entry.pending is not None:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        else:
            metadata = entry.metadata
        expected = _expected_epoch(request, metadata)
        if metadata.state in PREPARED:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        if metadata.state is TransactionState.ONGOING:
            return self._begin(
                fence(
                    transactional_id,
                    metadata,
                    server_version=self._config.transaction_version,
                    now_ms=now_ms,
                    fresh_id=fresh_id,
                    answer=_FENCING,
                )
            )
        timeout_ms = request.transaction_timeout_ms
        if metadata.epoch_exhausted and expected in (None, metadata.producer_epoch):
            if fresh_id is None:
                raise NeedsProducerId
            after = metadata.rotated(fresh_id, timeout_ms, now_ms, record_last=expected is not None)
        else:
            after = metadata.initialised(timeout_ms, expected, now_ms)
        answer = TransactionAnswer(
            producer_id=after.producer_id, producer_epoch=after.producer_epoch
        )
        if entry is None:
            self.entries[transactional_id] = TransactionEntry(metadata)
        return self._begin(TransactionChange(transactional_id, after, answer))

    def _checked_init(self, request: InitProducerIdRequest) -> str:
        if not request.transactional_id or len(request.transactional_id) > ID_MAX:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        if not 0 < request.transaction_timeout_ms <= self._config.transaction_max_timeout_ms:
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        return request.transactional_id

    def _new_metadata(
        self, request: InitProducerIdRequest, now_ms: int, fresh_id: int | None
    ) -> TransactionMetadata:
        if self._ids_in_all() >= self._config.max_transactional_ids:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        if fresh_id is None:
            raise NeedsProducerId
        return TransactionMetadata(fresh_id, NO_EPOCH, request.transaction_timeout_ms, now_ms)

    def add_partitions(
        self, write: TransactionalWrite, client_version: int, now_ms: int
    ) -> TransactionStep:
        """AddPartitionsToTxn, AddOffsetsToTxn, and the partitions that a write of version 2 adds by
        itself."""
        entry = self._entry(write.transactional_id)
        if entry.pending is not None:
            # Checked first: the producer may already use an id that is on its way to the log.
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        metadata = entry.metadata
        _check_producer(metadata, write)
        if metadata.state is TransactionState.ONGOING and metadata.partitions.issuperset(
            write.partitions
        ):
            return TransactionAnswer()
        ongoing = metadata.with_partitions(write.partitions, client_version, now_ms)
        if len(ongoing.partitions) > self._config.max_transaction_partitions:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        return self._begin(TransactionChange(write.transactional_id, ongoing))

    def verify(self, write: TransactionalWrite) -> dict[TopicPartition, ErrorCode]:
        """Returns for each partition whether it is in the open transaction. A pending change does
        not matter, because the partition checks the append itself once more."""
        metadata = self._entry(write.transactional_id).metadata
        _check_producer(metadata, write)
        return {
            partition: ErrorCode.NONE
            if partition in metadata.partitions
            else ErrorCode.TRANSACTION_ABORTABLE
            for partition in write.partitions
        }

    def end(
        self, request: EndTxnRequest, client_version: int, now_ms: int, fresh_id: int | None
    ) -> TransactionStep:
        entry = self._entry(request.transactional_id)
        pending = entry.pending is not None
        if client_version >= EPOCH_BUMPS:
            step = end_v2(
                request, entry.metadata, pending=pending, now_ms=now_ms, fresh_id=fresh_id
            )
        else:
            step = end_v1(request, entry.metadata, pending=pending, now_ms=now_ms)
        return self._begin(step) if isinstance(step, TransactionChange) else step

    def _entry(self, transactional_id: str) -> TransactionEntry:
        entry = self.entries.get(transactional_id)
        if entry is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return entry

    def count_states(self) -> Steps[dict[TransactionState, int]]:
        """How many ids are in each state. A generator that stops where other work may run."""
        found = dict.fromkeys(TransactionState, 0)
        for entries in chunks(list(self.entries.values()), WORK_ITEMS):
            for entry in entries:
                found[entry.metadata.state] += 1
            yield
        return found

    # Time ---------------------------------------------------------------------------------

    def ongoing(self) -> list[str]:
        """The ids whose transaction is open or will be after their pending change, so that it may
        time out."""
        ongoing = TransactionState.ONGOING
        return [
            transactional_id
            for transactional_id, entry in self.entries.items()
            if ongoing in (entry.metadata.state, entry.pending)
        ]

    def timed_out(self, ongoing: Iterable[str], now_ms: int) -> list[str]:
        """Returns those of the ids whose transaction has been open for too long, sorted."""
        entries = self.entries
        return sorted(one for one in ongoing if _times_out(entries[one], now_ms))

    def abort_timed_out(
        self, transactional_id: str, now_ms: int, fresh_id: int | None
    ) -> TransactionChange | None:
        """Begin to abort a transaction that has been open for too long. Returns None if it has
        ended meanwhile."""
        entry = self.entries.get(transactional_id)
        if entry is None or not _times_out(entry, now_ms):
            return None
        change = fence(
            transactional_id,
            entry.metadata,
            server_version=self._config.transaction_version,
            now_ms=now_ms,
            fresh_id=fresh_id,
        )
        self._begin(change)
        return change

    def expired(self, transactional_ids: Iterable[str], now_ms: int) -> list[TransactionChange]:
        """Begin to delete those of the ids that were not used for `transactional.id.expiration.ms`.
        Unknown ids are ignored."""
        before_ms = now_ms - self._config.transactional_id_expiration_ms
        changes = []
        for transactional_id in transactional_ids:
            entry = self.entries.get(transactional_id)
            if (
                entry is not None
                and entry.pending is None
                and entry.metadata.state in AT_REST
                and entry.metadata.last_update_ms <= before_ms
            ):
                changes.append(self._begin(TransactionChange(transactional_id, None)))
        return changes

    # Markers ------------------------------------------------------------------------------

    def marked(self, transactional_id: str, partitions: Iterable[TopicPartition]) -> None:
        """These partitions have their marker, or need none."""
        self.entries[transactional_id].unmarked.difference_update(partitions)

    def completion(self, transactional_id: str, now_ms: int) -> TransactionChange:
        """Returns the last step of a prepared transaction, when no partition lacks its marker."""
        entry = self.entries[transactional_id]
        assert not entry.unmarked
        return TransactionChange(transactional_id, entry.metadata.completed(now_ms))

    # The log ------------------------------------------------------------------------------

    def _begin(self, change: TransactionChange) -> TransactionChange:
        state = TransactionState.DEAD if change.metadata is None else change.metadata.state
        self.entries[change.transactional_id].pending = state
        return change

    def refused(self, change: TransactionChange) -> None:
        """The record of `change` cannot be written: undo the change."""
        entry = self.entries[change.transactional_id]
        entry.pending = None
        if entry.metadata.producer_epoch == NO_EPOCH:
            del self.entries[change.transactional_id]

    def applied(self, change: TransactionChange) -> None:
        """The record of `change` is durable: the change takes effect."""
        if change.metadata is None:
            del self.entries[change.transactional_id]
        else:
            _install(self.entries[change.transactional_id], change.metadata)

    def replay(
        self, transactional_id: str, metadata: TransactionMetadata | None, offset: int
    ) -> None:
        """Apply a record of the log, at load."""
        if metadata is None:
            self.entries.pop(transactional_id, None)
            return
        entry = self.entries.get(transactional_id)
        if entry is None:
            entry = self.entries[transactional_id] = TransactionEntry(metadata)
        _install(entry, metadata)
        entry.offset = offset

    def prepared(self) -> Iterator[str]:
        """The ids whose transaction is decided and not complete: their markers must be written."""
        yield from sorted(
            transactional_id
            for transactional_id, entry in self.entries.items()
            if entry.metadata.state in PREPARED
        )


def _install(entry: TransactionEntry, metadata: TransactionMetadata) -> None:
    entry.metadata = metadata
    entry.pending, entry.unmarked = None, set()
    if metadata.state in PREPARED:
        entry.pending = metadata.completed(0).state
        entry.unmarked = set(metadata.partitions)


def _times_out(entry: TransactionEntry, now_ms: int) -> bool:
    metadata = entry.metadata
    return (
        entry.pending is None
        and metadata.state is TransactionState.ONGOING
        and metadata.start_ms + metadata.timeout_ms < now_ms
    )


def _check_producer(metadata: TransactionMetadata, write: TransactionalWrite) -> None:
    if metadata.producer_id != write.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if metadata.producer_epoch != write.producer_epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if metadata.state in PREPARED:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)


def _expected_epoch(request: InitProducerIdRequest, metadata: TransactionMetadata) -> int | None:
    """Returns the epoch that a producer has when it continues after an error (KIP-360); None from a
    new producer. Raises ApiError PRODUCER_FENCED for a producer id that is not the current one,
    unless the transactional id was just created, or epochs ran out and the producer does not know
    its new id."""
    if request.producer_id == -1:
        return None
    known = (
        metadata.producer_epoch == NO_EPOCH
        or metadata.producer_id == request.producer_id
        or (
            metadata.previous_producer_id == request.producer_id
            and request.producer_epoch >= LAST_EPOCH
        )
    )
    if not known:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    return request.producer_epoch
