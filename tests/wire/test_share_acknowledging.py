"""What members say of their records, over TCP (docs/spec/share-group.md#4.6). All of it holds for a
real broker too (GROUPD_PEER=kafka), but for what says so."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from tests.support.kio_entities import Plain
from tests.support.peer import peer_kind
from tests.wire.share_members import (
    ACCEPT,
    GAP,
    LOCK_MS,
    REJECT,
    RELEASE,
    RENEW,
    ShareTopic,
    SharingMember,
    acked,
    acquired,
    entries_of,
    foo,
    partitions_of,
    peer,
)

__all__ = ["foo", "peer"]

SERVER_ERROR, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID = -1, 3, 100
INVALID, WRONG_STATE = 42, 121
SHORT_LOCK_MS = 1000
"""The shortest that both brokers allow."""


@pytest.fixture
def member(foo: ShareTopic) -> SharingMember:
    """A member that holds 0 to 9 of partition 0; its next epoch is 1."""
    foo.produce(10)
    made = foo.member()
    assert acquired(made.fetch(0, [0])) == [(0, 9, 1)]
    return made


@pytest.mark.parametrize("types", [(ACCEPT,), (ACCEPT,) * 10])
def test_sg_107_accepted_records_are_over(
    foo: ShareTopic, member: SharingMember, types: Sequence[int]
) -> None:
    assert member.code(1, acked(0, 9, *types)) == 0
    assert foo.offsets()[1] == 0
    foo.produce(1)
    assert acquired(member.fetch(2)) == [(10, 10, 1)]


@pytest.mark.parametrize(
    "batches",
    [
        [acked(5, 4)],
        [{"first_offset": 0, "last_offset": 9, "acknowledge_types": ()}],
        [acked(0, 9, ACCEPT, ACCEPT, ACCEPT)],
        [acked(0, 9, 5)],
        [acked(0, 9, -1)],
        [acked(0, 4), acked(3, 9)],
        [acked(0, 2**62, *[ACCEPT] * 10)],
    ],
)
def test_sg_108_malformed_acknowledgements(member: SharingMember, batches: Sequence[Plain]) -> None:
    assert member.code(1, *batches) == INVALID
    assert member.code(2, acked(0, 9)) == 0


def test_sg_109_locks_can_be_renewed(foo: ShareTopic, member: SharingMember) -> None:
    renewal = acked(0, 9, RENEW)
    assert member.code(1, renewal, version=1) == INVALID
    assert member.code(2, renewal) == INVALID
    assert member.code(3, renewal, is_renew_ack=True) == 0
    foo.configure(share_renew_acknowledge_enable="false")
    assert member.code(4, renewal, is_renew_ack=True) == WRONG_STATE
    assert member.code(5, acked(0, 9, RELEASE)) == 0
    assert acquired(member.fetch(6)) == [(0, 9, 2)]


def test_sg_109_a_renewed_lock_lasts_its_full_time_again(foo: ShareTopic) -> None:
    foo.configure(share_record_lock_duration_ms=str(2 * SHORT_LOCK_MS))
    foo.produce(10)
    member, other = foo.member(), foo.member("m2")
    assert acquired(member.fetch(0, [0])) == [(0, 9, 1)]
    time.sleep(SHORT_LOCK_MS / 2000)
    renewed_s = time.monotonic()
    assert member.code(1, acked(0, 9, RENEW), is_renew_ack=True) == 0
    assert acquired(other.fetch(0, [0], max_wait=10_000)) == [(0, 9, 2)]
    assert time.monotonic() - renewed_s >= 2 * SHORT_LOCK_MS / 1000


def test_sg_110_a_fetch_that_renews_fetches_nothing(foo: ShareTopic, member: SharingMember) -> None:
    foo.produce(10)
    limits: Plain = {"max_wait": 0, "min_bytes": 0, "max_bytes": 0, "max_records": 0}
    reply = member.fetch(1, acks={0: [acked(0, 9, RENEW)]}, is_renew_ack=True, **limits)
    entry = partitions_of(reply)[0]
    assert (entry["acknowledge_error_code"], entry["acquired_records"]) == (0, [])


def test_sg_111_only_the_holder_can_acknowledge(foo: ShareTopic, member: SharingMember) -> None:
    foo.produce(10)
    other = foo.member("m2")
    assert acquired(other.fetch(0, [0])) == [(10, 19, 1)]
    assert other.code(1, acked(0, 9)) == WRONG_STATE
    assert member.code(1, acked(5, 6), acked(8, 9, RELEASE)) == 0
    assert member.code(2, acked(5, 6)) == WRONG_STATE
    assert member.code(3, acked(8, 9)) == WRONG_STATE


def test_sg_94_sg_111_a_lock_ends(foo: ShareTopic) -> None:
    foo.configure(share_record_lock_duration_ms=str(SHORT_LOCK_MS))
    foo.produce(10)
    member, other = foo.member(), foo.member("m2")
    taken_s = time.monotonic()
    assert acquired(member.fetch(0, [0])) == [(0, 9, 1)]
    assert acquired(other.fetch(0, [0], max_wait=10_000)) == [(0, 9, 2)]
    assert time.monotonic() - taken_s >= SHORT_LOCK_MS / 1000
    assert member.code(1, acked(0, 9)) == WRONG_STATE


def test_sg_112_offsets_outside_of_what_is_in_flight(
    foo: ShareTopic, member: SharingMember
) -> None:
    foo.produce(10)
    assert member.code(1, acked(0, 14)) == INVALID
    assert member.code(2, acked(20, 25)) == INVALID
    assert member.code(3, acked(0, 2**62)) == INVALID
    assert member.code(4, acked(0, 9)) == 0
    assert acquired(member.fetch(5)) == [(10, 19, 1)]
    assert member.code(6, acked(0, 9)) == 0
    assert member.code(7, acked(5, 14)) == 0
    assert foo.offsets()[1] == 5


def test_sg_113_a_partition_is_acknowledged_as_a_whole(
    foo: ShareTopic, member: SharingMember
) -> None:
    foo.produce(5)
    foo.produce(10, partition=1)
    other = foo.member("m2")
    assert acquired(other.fetch(0, [0])) == [(10, 14, 1)]
    assert acquired(member.fetch(1, [1]), 1) == [(0, 9, 1)]
    found = partitions_of(
        member.acknowledge(2, {0: [acked(0, 4), acked(10, 14)], 1: [acked(0, 9)]})
    )
    codes = {number: one["error_code"] for number, one in found.items()}
    assert codes == {0: WRONG_STATE, 1: 0}
    assert member.code(3, acked(0, 4)) == 0


def test_sg_114_partitions_that_cannot_be_acknowledged(
    foo: ShareTopic, member: SharingMember
) -> None:
    """Where a right is missing, see test_share_rights.py."""
    wanted = {
        (foo.topic_id, 2): UNKNOWN_TOPIC_OR_PARTITION,
        (foo.topic_id, 9): UNKNOWN_TOPIC_OR_PARTITION,
        (b"?" * 16, 0): UNKNOWN_TOPIC_ID,
    }
    found = entries_of(member.acknowledge(1, {place: [acked(0, 1)] for place in wanted}))
    assert {place: one["error_code"] for place, one in found.items()} == wanted


def test_sg_115_gaps_are_over(foo: ShareTopic, member: SharingMember) -> None:
    types = [GAP if offset == 3 else ACCEPT for offset in range(10)]
    assert member.code(1, acked(0, 9, *types)) == 0
    assert foo.offsets()[1] == 0
    assert acquired(member.late(2)) == []


def test_sg_115_rejected_records_are_over(foo: ShareTopic, member: SharingMember) -> None:
    assert member.code(1, acked(0, 9, REJECT)) == 0
    assert foo.offsets()[1] == 0
    assert acquired(member.late(2)) == []


def test_sg_116_one_entry_for_acknowledgements_and_records(
    foo: ShareTopic, member: SharingMember
) -> None:
    foo.produce(10)
    reply = member.fetch(1, acks={0: [acked(0, 9)]})
    assert acquired(reply) == [(10, 19, 1)]
    assert partitions_of(reply)[0]["acknowledge_error_code"] == 0
    entry = partitions_of(member.late(2, acks={0: [acked(10, 19)]}))[0]
    assert (entry["error_code"], entry["acknowledge_error_code"], entry["records"]) == (0, 0, b"")


def test_sg_117_acknowledgements_that_cannot_be_written(
    foo: ShareTopic, member: SharingMember
) -> None:
    """Here because an administrator has deleted the state. groupd gives up what it had of that
    state, and delivers the records of the new one (docs/compat.md)."""
    foo.delete_state()
    assert member.code(1, acked(0, 9)) == SERVER_ERROR
    foo.initialize()
    epoch = 2
    if peer_kind() != "kafka":
        assert member.code(2, acked(0, 9)) == UNKNOWN_TOPIC_OR_PARTITION
        assert acquired(member.fetch(3)) == [(0, 9, 1)]
        epoch = 4
    assert member.code(epoch, acked(0, 9)) == 0
    assert foo.offsets()[1] == 0


def test_sg_118_partitions_without_acknowledgements(member: SharingMember) -> None:
    found = partitions_of(member.acknowledge(1, {0: [acked(0, 9)], 1: []}))
    assert {number: one["error_code"] for number, one in found.items()} == {0: 0, 1: 0}
    assert partitions_of(member.acknowledge(2, {1: []})) == {}


def test_sg_119_the_reply_says_how_long_records_stay_locked(
    foo: ShareTopic, member: SharingMember
) -> None:
    assert "acquisition_lock_timeout" not in member.acknowledge(1, version=1)
    assert member.acknowledge(2)["acquisition_lock_timeout"] == LOCK_MS
    foo.configure(share_record_lock_duration_ms="20000")
    assert member.acknowledge(3)["acquisition_lock_timeout"] == 20_000
