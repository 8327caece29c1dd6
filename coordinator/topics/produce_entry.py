"""One partition of one Produce request on its way to the log, and the checks of its batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from groupd.coordinator.producers.verification import Verification
from groupd.coordinator.topics.batch_checks import BatchCheck, Unpack, Unpacked, check_batch
from groupd.coordinator.topics.broker_configs import BrokerConfigs
from groupd.coordinator.topics.catalogue import Topic
from groupd.coordinator.topics.partition import PartitionLog
from groupd.coordinator.topics.record_checks import BadRecords
from groupd.coordinator.topics.topic_configs import TopicSettings
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

AT_ONCE_BYTES = 1 << 16
"""Batches of one request that are checked before others have a turn; the first one always is."""


class ProduceEntry(Struct):
    """In the end exactly one of these is set: `append` (the batch is written), `duplicate_of` (the
    last offset of the first append of the same batch), or an error in `result`. `header`: of the
    one batch. `check`: a check under way, which waits for the result of `unpack` if that is not
    None; its outcome is the batch to append, `checked`, or a `refusal`. `transactional`: the header
    of a transactional batch; `verified_by`: the log that `verification` belongs to."""

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

    def fail(self, error: ApiError) -> None:
        self.result = ProducedPartition(
            self.asked.partition, error.code, error_message=error.message
        )
        self.append = None
        self.duplicate_of = -1

    def refuse(self, error: ApiError, log_start_offset: int) -> None:
        """The log does not take the batch. As in Kafka the answer says where the log starts,
        except for errors that are not about the content of the batch."""
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
    """The checks of the batches of a Produce: short ones at once, long ones between other work.

    A request checks a few batches before anything is awaited, so that most producers wait for
    nothing. What is left, and a batch with many records, goes on in slices; a batch that unpacks to
    much is unpacked in another thread, one at a time, so that the memory for that is bounded. The
    outcome is left in the entries: `checked` or `refusal`.
    """

    def __init__(self, broker: BrokerConfigs) -> None:
        self._broker = broker
        self._unpacking = asyncio.Lock()

    def start(self, entries: Sequence[ProduceEntry], now_ms: int) -> list[ProduceEntry]:
        """Check what does not take long; the entries that are left for `finish`. `now_ms`: wall
        clock, for the timestamps."""
        room = AT_ONCE_BYTES
        for entry in entries:
            assert entry.topic is not None
            assert entry.header is not None
            entry.check = check_batch(
                entry.header,
                entry.asked.records or b"",
                TopicSettings(self._broker.config, entry.topic.configs),
                f"{entry.topic.name}-{entry.asked.partition}",
                self._broker.config.produce_unpacked_max_bytes,
                now_ms,
            )
            if room > 0:
                _step(entry)
            room -= entry.header.size
        return [entry for entry in entries if entry.check is not None]

    async def finish(self, entry: ProduceEntry) -> None:
        """The rest of a check that `start` has begun."""
        while entry.check is not None and entry.unpack is None:
            await asyncio.sleep(0)
            _step(entry)
        if entry.unpack is not None:
            async with self._unpacking:
                loop = asyncio.get_running_loop()
                unpacked = await loop.run_in_executor(None, entry.unpack)
                _step(entry, unpacked)
                while entry.check is not None:
                    await asyncio.sleep(0)
                    _step(entry)


def _step(entry: ProduceEntry, unpacked: Unpacked | None = None) -> None:
    assert entry.check is not None
    entry.unpack = None
    try:
        entry.unpack = entry.check.send(unpacked)
        return
    except StopIteration as done:
        entry.checked = done.value
    except ApiError as error:
        entry.refusal = error
    entry.check = None
