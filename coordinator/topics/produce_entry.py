"""One partition of one produce request on its way from the wire to the log."""

from __future__ import annotations

from coordinator.producers.verification import Verification
from coordinator.topics.catalogue import Topic
from coordinator.topics.partition import PartitionLog
from protocol.errors import ErrorCode
from protocol.frozen import dataclass
from protocol.messages.data import ProducedPartition, ProducePartition
from protocol.records.batch import BatchHeader
from storage.log import Append


@dataclass(slots=True)
class ProduceEntry:
    """Exactly one of `append` (ours), `duplicate_of` (last offset of the first append) and an
    error in `result` is what decides. `transactional`: the header of a transactional batch;
    `verified_by`: the log that `verification` belongs to."""

    asked: ProducePartition
    result: ProducedPartition
    topic: Topic | None = None
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

    @property
    def failed(self) -> bool:
        return self.result.error != ErrorCode.NONE
