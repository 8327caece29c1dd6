"""One partition of a Produce request on its way to the log, and the checks of its batch."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from groupd.coordinator.core.slices import Steps
from groupd.coordinator.producers.producer_state import Verification
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.unpacking import TakesLong, Unpacking, unpacked_at_once
from groupd.coordinator.topics.batch_checks import TURN_RECORDS, BadRecords, BatchCheck, refusal
from groupd.coordinator.topics.broker_configs import BrokerConfigs
from groupd.coordinator.topics.partition import PartitionLog
from groupd.coordinator.topics.topic import Topic
from groupd.coordinator.topics.topic_configs import TopicSettings
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import ProducedPartition, ProducePartition
from groupd.protocol.records.batch import BatchHeader, CorruptBatch
from groupd.protocol.records.compression import UnpacksTooLarge
from groupd.storage.log import Append

_WITHOUT_START = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)

AT_ONCE_BYTES = 1 << 16
"""How many bytes of one request are checked before other work gets a turn. They are unpacked bytes,
and a fixed cost for each batch and record. The first batch is always checked, unless that takes
long."""
_BATCH_BYTES = 500
_RECORD_BYTES = 16
_Wrong = (ApiError, CorruptBatch, UnpacksTooLarge)
"""The errors that a check raises."""


class ProduceEntry(Struct):
    """One partition of a Produce request.

    In the end exactly one of these is set: `append` (the batch is written), `duplicate_of` (the
    last offset of the first append of the same batch), or an error in `result`. The check of the
    batch sets either `checked`, the batch to append, or `refusal`. `header`: of the batch;
    `transactional`: the same if the batch is transactional. `verified_by`: the log that
    `verification` belongs to.
    """

    asked: ProducePartition
    result: ProducedPartition
    topic: Topic | None = None
    header: BatchHeader | None = None
    check: BatchCheck | None = None
    checked: tuple[BatchHeader, bytes] | None = None
    refusal: ApiError | None = None
    log: PartitionLog | None = None
    append: Append | None = None
    duplicate_of: int = -1
    transactional: BatchHeader | None = None
    verification: Verification | None = None
    verified_by: PartitionLog | None = None

    def fail(self, error: ApiError) -> None:
        self.result = ProducedPartition(
            self.asked.partition, error.code, error_message=error.message
        )
        self.append = None
        self.duplicate_of = -1

    def refuse(self, error: ApiError, log_start_offset: int) -> None:
        """The log refuses the batch. As in Kafka the reply has the log's start offset, except for
        errors that are not about the content of the batch."""
        self.fail(error)
        self.result = replace(
            self.result,
            log_start_offset=-1 if error.code in _WITHOUT_START else log_start_offset,
            record_errors=error.errors if isinstance(error, BadRecords) else (),
        )

    @property
    def failed(self) -> bool:
        return self.result.error != ErrorCode.NONE


class BatchChecking:
    """Checks the batches of a Produce request: short ones at once, long ones as long work.

    A request checks a few batches before anything is awaited, so that most producers wait for
    nothing. A check that does not end in its first step is given up, with what it has unpacked, and
    begins again when its turn in the queue of long work comes. The outcome is left in the entries:
    `checked` or `refusal`.
    """

    def __init__(self, broker: BrokerConfigs, work: LongWork) -> None:
        self._broker = broker
        self._unpacking = Unpacking(work)

    def start(self, entries: Sequence[ProduceEntry], now_ms: int) -> list[ProduceEntry]:
        """Check the batches that do not take long. Returns the entries that are left for `finish`.
        `now_ms`: wall clock, for the timestamps."""
        room, left = AT_ONCE_BYTES, []
        for entry in entries:
            assert entry.topic is not None
            assert entry.header is not None
            entry.check = BatchCheck(
                entry.header,
                entry.asked.records or b"",
                TopicSettings(self._broker.config, entry.topic.configs),
                f"{entry.topic.name}-{entry.asked.partition}",
                self._broker.config.produce_unpacked_max_bytes,
                now_ms,
            )
            if room > 0:
                room -= _BATCH_BYTES + _RECORD_BYTES * entry.header.record_count
                room -= _first_step(entry)
            if entry.checked is None and entry.refusal is None:
                left.append(entry)
        return left

    async def finish(self, entries: Sequence[ProduceEntry]) -> None:
        """Check the batches that `start` has left."""
        for entry in await self._unpacking.work.run(_small_ones(entries)):
            check = entry.check
            assert check is not None
            try:
                entry.checked = await self._unpacking.run_large(
                    check.header, check.payload, check.limit, check.steps
                )
            except _Wrong as error:
                entry.refusal = refusal(error)


def _first_step(entry: ProduceEntry) -> int:
    """Check one batch as far as one step goes. Returns the number of bytes to count for it."""
    check = entry.check
    assert check is not None
    try:
        check.check_header()
        if check.header.record_count > TURN_RECORDS:
            return AT_ONCE_BYTES
        records = unpacked_at_once(check.header, check.payload, check.limit)
        next(check.steps(records))
    except StopIteration as done:
        entry.checked = done.value
        return records.end - records.start
    except _Wrong as error:
        entry.refusal = refusal(error)
    except TakesLong:
        pass
    return AT_ONCE_BYTES


def _small_ones(entries: Sequence[ProduceEntry]) -> Steps[list[ProduceEntry]]:
    """Check the batches that unpack to little. Returns the entries whose batches unpack to much."""
    large = []
    for entry in entries:
        yield  # nothing unpacked is held while waiting for a turn
        check = entry.check
        assert check is not None
        try:
            check.check_header()
            records = unpacked_at_once(check.header, check.payload, check.limit)
            entry.checked = yield from check.steps(records)
        except _Wrong as error:
            entry.refusal = refusal(error)
        except TakesLong:
            large.append(entry)
    return large
