"""The start offsets of a share group along the logs of the share coordinator
(docs/spec/share-group.md#3), as changes of offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from groupd.coordinator.history.changes import (
    Actor,
    Author,
    ChangeKind,
    CommittedOffset,
    OffsetChange,
    kind_of_move,
)
from groupd.coordinator.history.stream import GroupStream, UnreadableLog, header_of
from groupd.protocol.messages import TopicId
from groupd.protocol.messages.share_state import NO_OFFSET
from groupd.protocol.records.batch import BatchRecord, CorruptBatch, check, iter_records
from groupd.protocol.records.codec import CorruptRecord, UnknownRecordType
from groupd.protocol.records.share_state_records import (
    SharePartitionKey,
    ShareUpdate,
    decode_record,
)

PRUNED = "what was before is pruned"


class ShareStarts:
    """Takes the batches of one log in order. `names`: topics by id; one that is gone is shown by
    its id. `pruned`: the log has lost its beginning."""

    def __init__(self, group_id: str, names: Mapping[TopicId, str], *, pruned: bool) -> None:
        self._stream = GroupStream(group_id)
        self._names = names
        self._pruned = pruned
        self._starts: dict[SharePartitionKey, CommittedOffset] = {}
        self._epochs: dict[SharePartitionKey, int] = {}

    def changes(self, payload: bytes) -> Iterator[OffsetChange]:
        """The changes in one batch. Raises UnreadableLog."""
        try:
            check(payload)
            for raw in iter_records(payload):
                if raw.key is not None and self._stream.is_ours(raw.key):
                    with suppress(UnknownRecordType):  # the same as in the coordinator
                        yield from self._changes(raw)
        except (CorruptBatch, CorruptRecord) as error:
            offset = header_of(payload).base_offset
            raise UnreadableLog(f"the log is damaged at offset {offset}: {error}") from error

    def _changes(self, raw: BatchRecord) -> Iterator[OffsetChange]:
        assert raw.key is not None
        key, value = decode_record(raw.key, raw.value)
        before = self._starts.get(key)
        start = NO_OFFSET if value is None else value.start_offset
        epoch = self._epochs.get(key, -1)
        if isinstance(value, ShareUpdate):
            if start == NO_OFFSET:
                return  # unchanged
        elif value is None:
            self._epochs.pop(key, None)
        else:
            self._epochs[key] = value.state_epoch
        after = None
        topic = self._names.get(key.topic_id, key.topic_id.hex())
        if start != NO_OFFSET:
            assert value is not None
            after = CommittedOffset(
                *(topic, key.partition, start, value.leader_epoch, ""),
                *(raw.timestamp_ms, raw.offset, key.topic_id),
            )
            self._starts[key] = after
        elif self._starts.pop(key, None) is None:
            return
        # Only an operator begins a share-partition anew; members move its start offset on. Before
        # Kafka 4.5 one that is set back may keep its state epoch.
        old = None if before is None else before.offset
        back = old is not None and start < old
        anew = epoch >= 0 and (back or self._epochs.get(key) != epoch)
        author = Author(Actor.ADMIN if anew or after is None else Actor.UNKNOWN)
        cause = PRUNED if before is None and epoch < 0 and self._pruned else ""
        kind = ChangeKind.DELETED
        if after is not None:
            kind = kind_of_move(old, after.offset, reset=anew)
        place = raw.timestamp_ms, raw.offset, topic, key.partition
        yield OffsetChange(kind, *place, before, after, author, cause)
