"""Who moved an offset, when, from where to where; and what happened to the group."""

from __future__ import annotations

from groupd.coordinator.core.group_type import LoggedEventKind
from groupd.coordinator.history import replay as history
from groupd.coordinator.history.changes import (
    Actor,
    ChangeKind,
    LoggedGroupEvent,
    OffsetChange,
)
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    OwnedTopic,
    Record,
)
from tests.unit.history.harness import (
    START_MS,
    T_ID,
    LoggedShard,
    changes,
    compacted,
    stream,
    survey,
)


async def moves(log: LoggedShard, group: str = "g") -> list[OffsetChange]:
    return [change for change in await changes(log, group) if isinstance(change, OffsetChange)]


def short(change: OffsetChange) -> tuple[ChangeKind, int | None, int | None, Actor, str]:
    return (
        change.kind,
        None if change.before is None else change.before.offset,
        None if change.after is None else change.after.offset,
        change.author.actor,
        change.author.member_id,
    )


async def test_members_an_operator_and_members_again() -> None:
    log = LoggedShard()
    member = {"member_id": "m1", "generation_or_epoch": 1}
    log.members("g", 1, m1=(0,), m2=(1,))
    log.commit("g", 0, 5, **member)
    log.commit("h", 0, 77)
    log.commit("g", 0, 9, **member)
    log.commit("g", 0, 9, **member)
    log.commit("g", 2, 4, **member)  # nobody holds partition 2
    log.members("g", 2)
    log.commit("g", 0, 2)
    log.members("g", 3, m1=(0,))
    log.commit("g", 0, 1, member_id="m1", generation_or_epoch=3)
    found = await moves(log)
    assert [short(change) for change in found] == [
        (ChangeKind.FIRST, None, 5, Actor.OWNER, "m1"),
        (ChangeKind.FORWARD, 5, 9, Actor.OWNER, "m1"),
        (ChangeKind.SAME, 9, 9, Actor.OWNER, "m1"),
        (ChangeKind.FIRST, None, 4, Actor.UNKNOWN, ""),
        (ChangeKind.RESET, 9, 2, Actor.ADMIN, ""),
        (ChangeKind.BACK, 2, 1, Actor.OWNER, "m1"),
    ]
    assert found[0].author.epoch == 1
    assert found[0].author.client_id == "client-m1"
    assert found[5].author.epoch == 3
    assert (found[1].log_offset, found[1].time_ms) == (3, START_MS + 4000)


async def test_of_a_group_that_never_had_members_nobody_can_be_told_from_a_tool() -> None:
    log = LoggedShard()
    for offset in (5, 3):
        log.commit("g", 0, offset)
    assert [short(change)[0] for change in await moves(log)] == [ChangeKind.FIRST, ChangeKind.BACK]
    assert {change.author.actor for change in await moves(log)} == {Actor.ADMIN}


async def test_transactions_count_from_their_marker_and_keep_who_wrote() -> None:
    log = LoggedShard()
    log.members("g", 1, m1=(0,))
    log.txn_commit("g", 0, 8, 1)
    log.txn_commit("g", 0, 9, 2)
    log.members("g", 2)
    log.marker(1, commit=True)
    log.marker(2, commit=False)
    (change,) = await moves(log)
    assert short(change) == (ChangeKind.FIRST, None, 8, Actor.OWNER, "m1")
    assert change.log_offset == 4
    assert change.after is not None
    assert change.after.log_offset == 1
    assert (change.author.producer_id, change.author.epoch) == (1, 1)


async def test_of51_a_later_plain_commit_wins_over_the_transaction() -> None:
    log = LoggedShard()
    log.txn_commit("g", 0, 8, 1)
    log.commit("g", 0, 5)
    log.marker(1, commit=True)
    assert [short(change)[:3] for change in await moves(log)] == [(ChangeKind.FIRST, None, 5)]


async def test_of44_a_tombstone_takes_what_is_pending() -> None:
    log = LoggedShard()
    log.commit("g", 0, 5)
    log.txn_commit("g", 0, 8, 1)
    log.delete("g", 0)
    log.marker(1, commit=True)
    assert [short(change)[:3] for change in await moves(log)] == [
        (ChangeKind.FIRST, None, 5),
        (ChangeKind.DELETED, 5, None),
    ]


async def test_deletion_expiry_and_the_deletion_of_the_group_are_told_apart() -> None:
    log = LoggedShard()
    log.commit("g", 0, 5)
    log.delete("g", 0)
    log.commit("g", 0, 6)
    log.sweep(3_600_000)
    log.commit("g", 0, 7)
    log.delete_group("g")
    gone = [change for change in await moves(log) if change.after is None]
    assert [(change.kind, change.cause.split()[0]) for change in gone] == [
        (ChangeKind.DELETED, "OffsetDelete,"),
        (ChangeKind.EXPIRED, "retention"),
        (ChangeKind.DELETED, "the"),
    ]
    assert gone[1].author.actor is Actor.COORDINATOR


async def test_events_of_a_classic_group() -> None:
    log = LoggedShard()
    log.members("g", 1, m1=(0,), m2=(1,))
    log.members("g", 2, m2=(0, 1))
    log.members("g", 3)
    log.delete_group("g")
    events = [change for change in await changes(log, "g") if isinstance(change, LoggedGroupEvent)]
    assert [(event.kind, event.member_id, event.epoch) for event in events] == [
        (LoggedEventKind.MEMBER_JOINED, "m1", 1),
        (LoggedEventKind.MEMBER_JOINED, "m2", 1),
        (LoggedEventKind.REBALANCED, "", 1),
        (LoggedEventKind.MEMBER_LEFT, "m1", 2),
        (LoggedEventKind.REBALANCED, "", 2),
        (LoggedEventKind.MEMBER_LEFT, "m2", 3),
        (LoggedEventKind.EMPTIED, "", 3),
        (LoggedEventKind.DELETED, "", -1),
    ]


def consumer_member(log: LoggedShard, epoch: int, *partitions: int) -> None:
    value = ConsumerGroupMemberMetadataValue(None, None, "c", "/h", ("t",), None)
    owned = OwnedTopic(T_ID, partitions, (epoch,) * len(partitions))
    log.write(
        [
            Record(ConsumerGroupMemberMetadataKey("g", "m"), value),
            Record(ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(epoch)),
            Record(
                ConsumerGroupCurrentMemberKey("g", "m"),
                ConsumerGroupCurrentMemberValue(epoch, epoch - 1, 0, (owned,)),
            ),
        ]
    )


async def test_owners_and_events_of_a_consumer_group() -> None:
    log = LoggedShard()
    consumer_member(log, 4, 0)
    log.commit("g", 0, 5, member_id="m", generation_or_epoch=4)
    log.write(
        [
            Record(ConsumerGroupCurrentMemberKey("g", "m")),
            Record(ConsumerGroupMemberMetadataKey("g", "m")),
            Record(ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(5)),
        ]
    )
    log.commit("g", 0, 1)
    found = await changes(log, "g")
    assert [
        (change.kind, change.epoch) if isinstance(change, LoggedGroupEvent) else short(change)
        for change in found
    ] == [
        (LoggedEventKind.MEMBER_JOINED, -1),
        (LoggedEventKind.EPOCH, 4),
        (LoggedEventKind.MEMBER_ASSIGNED, 4),
        (ChangeKind.FIRST, None, 5, Actor.OWNER, "m"),
        (LoggedEventKind.MEMBER_LEFT, -1),
        (LoggedEventKind.EMPTIED, -1),
        (LoggedEventKind.EPOCH, 5),
        (ChangeKind.RESET, 5, 1, Actor.ADMIN, ""),
    ]


async def test_the_compacted_part_is_replayed_but_not_told() -> None:
    log = LoggedShard()
    for offset in range(5):
        log.commit("g", 0, offset)
    log.batches = compacted(log.batches, 4)
    extent = await survey(log.batches)
    found = [c async for c in history.changes(stream(log.batches), "g", extent)]
    told = [short(c)[:3] for c in found if isinstance(c, OffsetChange)]
    assert extent.complete_from == 4
    assert told == [(ChangeKind.FORWARD, 3, 4)]
