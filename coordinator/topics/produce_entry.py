"""One partition of one produce request on its way from the wire to the log."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from groupd.coordinator.producers.verification import Verification
from groupd.coordinator.topics.batch_checks import BatchCheck, Unpack
from groupd.coordinator.topics.catalogue import Topic
from groupd.coordinator.topics.partition import PartitionLog
from groupd.coordinator.topics.record_checks import BadRecords
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import ProducedPartition, ProducePartition
from groupd.protocol.records.batch import BatchHeader
from groupd.storage.log import Append

_WITHOUT_START = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)


class ProduceEntry(Struct):
    """Exactly one of `append` (ours), `duplicate_of` (last offset of the first append) and an
    error in `result` is what decides. `header`: of the one batch. `check`: the rest of a check
    under way, which waits for the result of `unpack` if that is not None; its outcome is the batch
    to append, `checked`, or a `refusal`. `transactional`: the header of a transactional batch;
    `verified_by`: the log that `verification` belongs to."""

    asked: ProducePartition
    result: ProducedPartition
    topic: Topic | None = None
    header: BatchHeader | None = None
    check: BatchCheck | None = None
    unpack: Unpack | None = None
    checked: tuple[BatchHeader, bytes] | None = None
    refusal: ApiError | None = None
    log: PartitionLog | None = None
    append: Append | None = None
    duplicate_of: int = -1
    transactional: BatchHeader | None = None
    verification: Verification | None = None
    verified_by: PartitionLog | None = None

    def fail(self, code: ErrorCode, message: str | None) -> None:
        self.result = ProducedPartition(self.asked.partition, code, error_message=message)
        self.append = None
        self.duplicate_of = -1

    def refuse(self, error: ApiError, log_start_offset: int) -> None:
        """The log does not take the batch. As in Kafka the answer says where the log starts,
        except for errors that are none of what the batch says."""
        self.fail(error.code, error.message)
        self.result = replace(
            self.result,
            log_start_offset=-1 if error.code in _WITHOUT_START else log_start_offset,
            record_errors=error.errors if isinstance(error, BadRecords) else (),
        )

    @property
    def failed(self) -> bool:
        return self.result.error != ErrorCode.NONE
