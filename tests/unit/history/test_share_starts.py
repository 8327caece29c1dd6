"""How start offsets of a share group moved, by the log of the share coordinator."""

from __future__ import annotations

import pytest

from groupd.coordinator.history.changes import Actor, ChangeKind, OffsetChange
from groupd.coordinator.history.share_starts import PRUNED, ShareStarts
from groupd.coordinator.history.stream import UnreadableLog
from groupd.protocol.records.batch import BatchRecord
from groupd.protocol.records.batch_builder import plain_batch
from groupd.protocol.records.share_state_records import (
    SharePartitionKey,
    ShareSnapshot,
    ShareStateValue,
    ShareUpdate,
    encode_record,
)

TOPIC, GONE = b"t" * 16, b"g" * 16
KEY = SharePartitionKey("parcels", TOPIC, 3)


def snapshot(start: int, state_epoch: int = 2, epoch: int = 0) -> ShareSnapshot:
    return ShareSnapshot(epoch, state_epoch, 0, start, 0, 0)


def update(start: int) -> ShareUpdate:
    return ShareUpdate(0, 7, start)


def batch(*values: ShareStateValue, key: SharePartitionKey = KEY) -> bytes:
    records = [
        BatchRecord(at, 1000 + at, *encode_record(key, value), ())
        for at, value in enumerate(values)
    ]
    return plain_batch(records)


def told(*batches: bytes, pruned: bool = False) -> list[OffsetChange]:
    starts = ShareStarts("parcels", {TOPIC: "orders"}, pruned=pruned)
    return [change for one in batches for change in starts.changes(one)]


def shown(changes: list[OffsetChange]) -> list[tuple[str, int | None, int | None]]:
    return [
        (
            one.kind.value,
            None if one.before is None else one.before.offset,
            None if one.after is None else one.after.offset,
        )
        for one in changes
    ]


def test_members_move_a_start_offset_on() -> None:
    changes = told(batch(snapshot(-1), update(0), update(5), update(-1), snapshot(5, epoch=1)))
    assert shown(changes) == [("first", None, 0), ("forward", 0, 5), ("same", 5, 5)]
    first = changes[0]
    assert (first.topic, first.partition, first.time_ms, first.log_offset) == ("orders", 3, 1001, 1)
    assert (first.author.actor, first.cause) == (Actor.UNKNOWN, "")
    assert first.after is not None
    assert (first.after.leader_epoch, first.after.topic_id) == (7, TOPIC)


def test_an_operator_sets_it_back_or_deletes_it() -> None:
    changes = told(batch(snapshot(40), update(60), snapshot(10, state_epoch=3), None, None))
    assert shown(changes)[2:] == [("reset", 60, 10), ("deleted", 10, None)]
    assert {one.author.actor for one in changes[2:]} == {Actor.ADMIN}


def test_before_kafka_4_5_it_is_set_back_in_the_same_state_epoch() -> None:
    changes = told(batch(snapshot(40), update(60), snapshot(10, epoch=1)))
    assert shown(changes)[2:] == [("reset", 60, 10)]
    assert changes[2].author.actor is Actor.ADMIN


def test_a_state_that_is_given_up_has_no_start_offset() -> None:
    changes = told(batch(snapshot(40), snapshot(-1, state_epoch=3), update(8)))
    assert shown(changes) == [("first", None, 40), ("deleted", 40, None), ("first", None, 8)]


def test_other_groups_and_topics_that_are_gone() -> None:
    other = SharePartitionKey("parcels-2", TOPIC, 3)
    gone = SharePartitionKey("parcels", GONE, 0)
    (change,) = told(batch(snapshot(1), key=other), batch(snapshot(2), key=gone))
    assert change.topic == GONE.hex()


def test_of_a_pruned_log_the_first_state_says_so() -> None:
    changes = told(batch(snapshot(40), update(41)), pruned=True)
    assert [(one.kind, one.cause) for one in changes] == [
        (ChangeKind.FIRST, PRUNED),
        (ChangeKind.FORWARD, ""),
    ]


def test_a_damaged_log_is_not_told() -> None:
    damaged = bytearray(batch(snapshot(1)))
    damaged[-1] ^= 1
    with pytest.raises(UnreadableLog, match="damaged at offset 0"):
        told(bytes(damaged))
