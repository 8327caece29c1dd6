"""Retention and topic deletion, in slices (OF-57, OF-60)."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.classic_group.group import ClassicGroup
from groupd.coordinator.core.metadata_image import TopicDeletion
from groupd.coordinator.core.offset_metadata_manager import FORGET_DEADLINE, SWEEP_DEADLINE
from groupd.coordinator.core.offset_sweeps import (
    SLICE_BYTES,
    SLICE_OFFSETS,
    TOMBSTONE_COST,
    bytes_of,
)
from groupd.coordinator.core.types import AppliedAt, EventKind, Instant, Outcome
from groupd.coordinator.runtime.journal import measured
from groupd.protocol.records.codec import encode_pairs
from groupd.protocol.records.schema import (
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
)
from tests.unit.offsets.harness import DAY_MS, OLD_ID, T1_ID, T2_ID, Shard, places, topic


def later(shard: Shard, ms: int) -> None:
    shard.now = Instant(shard.now.monotonic_ms + ms, shard.now.wall_ms + ms)


def sweep(shard: Shard) -> Outcome:
    return shard.apply(shard.offsets.sweep(shard.now))


def groups_gone(outcome: Outcome) -> list[str]:
    return [
        record.key.group for record in outcome.records if isinstance(record.key, GroupMetadataKey)
    ]


def test_an_empty_classic_group_expires_from_the_moment_it_became_empty(shard: Shard) -> None:
    shard.commit(topic(p1=1, p0=1))
    emptied_ms = shard.now.wall_ms + 1000
    shard.group(protocol_type="consumer", base=lambda commit_ms: emptied_ms)
    later(shard, 1000 + 7 * DAY_MS - 1)
    assert sweep(shard).records == []
    later(shard, 1)
    # A commit after the group became empty expires by the state change, too.
    shard.commit(topic(p2=1))
    outcome = sweep(shard)
    assert places(outcome) == [("t1", 0), ("t1", 1), ("t1", 2)]
    assert outcome.records[-1] == Record(GroupMetadataKey("g"))
    assert shard.state.groups == {}


def test_of_57_no_base_time_nothing_expires(shard: Shard) -> None:
    shard.commit(topic(p0=1), version=3, retention_time_ms=5)
    shard.commit(topic(p1=1))
    shard.group(protocol_type="connect", state="Stable", base=lambda commit_ms: None)
    later(shard, 70 * DAY_MS)
    assert sweep(shard).records == []


def test_a_time_of_its_own_does_not_end_an_offset_of_a_subscribed_topic(shard: Shard) -> None:
    shard.commit(topic(p0=1), topic("t2", p0=1), version=3, retention_time_ms=60000)
    shard.group(protocol_type="consumer", state="Stable", subscribed=frozenset({"t1"}))
    later(shard, 59999)
    assert sweep(shard).records == []
    later(shard, 1)
    assert places(sweep(shard)) == [("t2", 0)]


def test_expire_timestamp_replaces_the_retention_time(shard: Shard) -> None:
    shard.commit(topic(p0=1), version=3, retention_time_ms=30 * DAY_MS)
    later(shard, 29 * DAY_MS)
    assert sweep(shard).records == []


def test_of_60_pending_keeps_offset_and_group(shard: Shard) -> None:
    shard.commit(topic(p0=1, p1=1))
    shard.txn_commit(topic(p0=9))
    later(shard, 8 * DAY_MS)
    outcome = sweep(shard)
    assert (places(outcome), groups_gone(outcome)) == ([("t1", 1)], [])
    shard.marker(commit=False)
    outcome = sweep(shard)
    assert (places(outcome), groups_gone(outcome)) == ([("t1", 0)], ["g"])


def test_of_60_pending_only_keeps_the_group(shard: Shard) -> None:
    shard.txn_commit(topic(p0=9))
    later(shard, 8 * DAY_MS)
    assert sweep(shard).records == []


def test_a_group_that_somebody_is_about_to_join_outlives_the_sweep(shard: Shard) -> None:
    """Its member was told to come again with an id (KIP-394)."""
    group = shard.state.groups["g"] = ClassicGroup("g", protocol_type="consumer")
    group.pending_members["asked"] = None
    assert sweep(shard).records == []
    group.pending_members.clear()
    assert groups_gone(sweep(shard)) == ["g"]


def test_sweep_interval(shard: Shard) -> None:
    shard.group(state="Stable")
    shard.offsets.start(shard.now)
    assert shard.state.deadlines.due(SWEEP_DEADLINE) == 1000 + 600000
    later(shard, 600000)
    sweep(shard)
    assert shard.state.deadlines.due(SWEEP_DEADLINE) == 1000 + 2 * 600000


def test_a_sweep_waits_for_the_first_group(shard: Shard) -> None:
    shard.offsets.start(shard.now)
    shard.offsets.go_on()
    assert shard.state.deadlines.next_deadline() is None
    shard.group()
    shard.offsets.go_on()
    assert shard.state.deadlines.due(SWEEP_DEADLINE) == 1000 + 600000


def stored(shard: Shard, partition: int, topic_id: bytes, producer: int = -1) -> None:
    value = OffsetCommitValue(1, topic_id=topic_id)
    record = Record(OffsetCommitKey("g", "t1", partition), value)
    shard.offsets.replay(record, AppliedAt(shard.end, producer))
    shard.end += 1


def delete_topic(shard: Shard, name: str = "t1", topic_id: bytes = OLD_ID) -> Outcome:
    deleted = [TopicDeletion(name, topic_id, shard.now.wall_ms)]
    return shard.apply(shard.offsets.on_topics_deleted(deleted, shard.now))


def test_pending_offsets_of_a_deleted_topic(shard: Shard) -> None:
    for partition, topic_id in enumerate((OLD_ID, bytes(16), T1_ID)):
        stored(shard, partition, topic_id)
    stored(shard, 3, OLD_ID, producer=1)
    # Committed before the topic was re-created, pending since: the new one must survive.
    stored(shard, 4, OLD_ID)
    stored(shard, 4, T1_ID, producer=1)
    shard.commit(topic("t2", p0=1))
    outcome = delete_topic(shard)
    assert places(outcome) == [("t1", 0), ("t1", 1), ("t1", 3)]
    assert groups_gone(outcome) == []
    (event,) = outcome.events
    assert (event.kind, event.details) == (EventKind.OFFSETS_FORGOTTEN, {"count": 3})
    assert shard.offset(0, "t2") == 1
    assert delete_topic(shard, "other").records == []


def replay(shard: Shard, place: tuple[str, str, int], value: OffsetCommitValue, at: int) -> None:
    shard.offsets.replay(Record(OffsetCommitKey(*place), value), AppliedAt(at))


def many(shard: Shard, groups: int, partitions: int) -> None:
    """Puts in simple groups of `partitions` offsets each on ten topics."""
    for group in range(groups):
        for partition in range(partitions):
            place = (f"g{group:04d}", f"t{partition % 10}", partition)
            value = OffsetCommitValue(1, commit_timestamp_ms=shard.now.wall_ms)
            replay(shard, place, value, partition)


def slices(shard: Shard) -> list[Outcome]:
    """The outcomes of one whole sweep."""
    found = [sweep(shard)]
    while shard.state.deadlines.next_deadline() == shard.now.monotonic_ms + 1:
        later(shard, 1)
        found.append(sweep(shard))
    return found


@pytest.mark.slow
def test_a_sweep_over_100000_offsets_comes_in_slices(shard: Shard) -> None:
    many(shard, 100, 1000)
    quiet = slices(shard)
    assert len(quiet) >= 100_000 // SLICE_OFFSETS
    assert not any(outcome.records for outcome in quiet)
    interval_ms = shard.state.config.offsets_retention_check_interval_ms
    assert shard.state.deadlines.next_deadline() == shard.now.monotonic_ms + interval_ms
    later(shard, 8 * DAY_MS)
    outcomes = slices(shard)
    assert max(len(outcome.records) for outcome in outcomes) <= SLICE_OFFSETS // TOMBSTONE_COST + 1
    assert sum(len(places(outcome)) for outcome in outcomes) == 100_000
    assert shard.offsets.store.count == 0
    assert shard.state.groups == {}


def test_a_group_that_is_cut_by_a_slice_goes_only_when_nothing_is_left(shard: Shard) -> None:
    many(shard, 1, SLICE_OFFSETS)
    later(shard, 8 * DAY_MS)
    first = sweep(shard)
    assert groups_gone(first) == []
    kept = OffsetCommitValue(2, commit_timestamp_ms=shard.now.wall_ms)
    replay(shard, ("g0000", "t0", 0), kept, 10_000)  # committed again between slices
    rest = slices(shard)
    assert sum(len(places(outcome)) for outcome in [first, *rest]) == SLICE_OFFSETS
    assert [group for outcome in rest for group in groups_gone(outcome)] == []
    assert shard.offsets.store.count == 1


def test_who_subscribes_between_two_slices_keeps_what_is_left_of_the_topic(shard: Shard) -> None:
    group = shard.group("g0000")
    for name in ("t0", "t1"):
        for partition in range(SLICE_OFFSETS):
            value = OffsetCommitValue(1, commit_timestamp_ms=shard.now.wall_ms)
            replay(shard, ("g0000", name, partition), value, partition)
    later(shard, 8 * DAY_MS)
    first = sweep(shard)
    gone = len(places(first))
    assert 0 < gone < SLICE_OFFSETS
    group.subscribed = frozenset({"t0"})
    rest = slices(shard)
    found = [place for outcome in rest for place in places(outcome)]
    assert found == [("t1", partition) for partition in range(SLICE_OFFSETS)]
    assert shard.offsets.store.count == SLICE_OFFSETS - gone
    assert "g0000" in shard.state.groups


# The offsets of a deleted topic, in slices --------------------------------------------------


def forgotten(shard: Shard, first: Outcome) -> list[Outcome]:
    """All outcomes of a deletion; the time stands still."""
    found = [first]
    while FORGET_DEADLINE in shard.state.deadlines.pop_due(shard.now.monotonic_ms):
        found.append(shard.apply(shard.offsets.forget(shard.now)))
    assert not shard.offsets.has_slices_left
    return found


def wide(shard: Shard, partitions: int, topic_id: bytes = OLD_ID, group: str = "g") -> None:
    """Offsets of `t1`, one for each partition."""
    value = OffsetCommitValue(1, topic_id=topic_id, commit_timestamp_ms=shard.now.wall_ms)
    for partition in range(partitions):
        replay(shard, (group, "t1", partition), value, partition)


@pytest.mark.slow
def test_a_topic_of_100000_offsets_is_forgotten_in_slices_without_time_passing(
    shard: Shard,
) -> None:
    wide(shard, 99_000)
    for group in range(1000):
        wide(shard, 1, group=f"g{group:04d}")
    stored(shard, 100_000, OLD_ID, producer=1)
    outcomes = forgotten(shard, delete_topic(shard))
    assert max(len(outcome.records) for outcome in outcomes) <= SLICE_OFFSETS // TOMBSTONE_COST
    counts = [event.details["count"] for outcome in outcomes for event in outcome.events]
    found = [record.key for outcome in outcomes for record in outcome.records]
    assert sum(counts) == len(found) == len(set(found)) == 100_001
    assert shard.offsets.store.count == 0
    assert shard.offsets.store.pending("g") == {}
    again = forgotten(shard, delete_topic(shard))
    assert not any(outcome.records for outcome in again)


def test_many_groups_that_know_nothing_of_a_deleted_topic_take_several_slices(
    shard: Shard,
) -> None:
    many(shard, 10_000, 1)
    outcomes = forgotten(shard, delete_topic(shard, "unknown"))
    assert 3 <= len(outcomes) <= 10


def test_names_that_are_compared_count_also_among_few_groups(shard: Shard) -> None:
    value = OffsetCommitValue(1)
    for group in range(50):
        for number in range(400):
            replay(shard, (f"g{group}", f"topic-{number}", 0), value, number)
    deleted = [TopicDeletion(f"other-{number}", OLD_ID, 1) for number in range(400)]
    first = shard.apply(shard.offsets.on_topics_deleted(deleted, shard.now))
    assert 3 <= len(forgotten(shard, first)) <= 5


def test_pending_offsets_of_other_topics_count_and_are_looked_at_once(shard: Shard) -> None:
    value = OffsetCommitValue(1, topic_id=OLD_ID)
    for number in range(20_000):
        record = Record(OffsetCommitKey("g", "other", number), value)
        shard.offsets.replay(record, AppliedAt(number, 1))
    deleted = []
    for number in range(40):
        record = Record(OffsetCommitKey("g", f"topic-{number}", 0), value)
        shard.offsets.replay(record, AppliedAt(number, 1))
        deleted.append(TopicDeletion(f"topic-{number}", OLD_ID, shard.now.wall_ms))
    first = shard.apply(shard.offsets.on_topics_deleted(deleted, shard.now))
    outcomes = forgotten(shard, first)
    assert 4 <= len(outcomes) <= 7
    assert len([place for outcome in outcomes for place in places(outcome)]) == 40
    assert len(shard.offsets.store.pending("g")) == 20_000


def test_a_pending_offset_whose_marker_comes_between_two_slices_goes_too(shard: Shard) -> None:
    wide(shard, 200)
    stored(shard, 1000, OLD_ID, producer=1)
    first = delete_topic(shard)
    assert 0 < len(places(first)) < 200
    shard.marker(commit=True)
    forgotten(shard, first)
    assert shard.offsets.store.count == 0


def test_offsets_of_a_topic_made_anew_survive_slices_that_come_later(shard: Shard) -> None:
    wide(shard, 200)
    first = delete_topic(shard)
    assert 0 < len(places(first)) < 100
    later(shard, 1)
    stored(shard, 150, T1_ID)
    # A commit of version 3 with a retention time says nothing of the topic's id.
    value = OffsetCommitValue(7, expire_timestamp_ms=10**15, commit_timestamp_ms=shard.now.wall_ms)
    replay(shard, ("g", "t1", 151), value, 1000)
    forgotten(shard, first)
    assert sorted(shard.offsets.store.topics("g")["t1"]) == [150, 151]


def test_a_second_deletion_meanwhile_takes_what_was_committed_since_the_first(
    shard: Shard,
) -> None:
    wide(shard, 200)
    delete_topic(shard)
    later(shard, 1)
    wide(shard, 20, T1_ID)
    forgotten(shard, delete_topic(shard, topic_id=T1_ID))
    assert shard.offsets.store.count == 0


def test_a_topic_that_was_deleted_twice_takes_offsets_of_both(shard: Shard) -> None:
    stored(shard, 0, OLD_ID)
    stored(shard, 0, T1_ID, producer=1)
    stored(shard, 1, T2_ID)
    deleted = [TopicDeletion("t1", one, shard.now.wall_ms) for one in (OLD_ID, T1_ID)]
    outcome = shard.apply(shard.offsets.on_topics_deleted(deleted, shard.now))
    assert places(outcome) == [("t1", 0)]


def test_who_deletes_its_offsets_meanwhile_leaves_no_tombstone_for_a_slice(shard: Shard) -> None:
    wide(shard, 200)
    first = delete_topic(shard)
    for partition in range(50, 200):
        shard.offsets.replay(Record(OffsetCommitKey("g", "t1", partition), None), AppliedAt(999))
    gone = [place for outcome in forgotten(shard, first) for place in places(outcome)]
    assert gone == [("t1", partition) for partition in range(50)]


def test_slices_have_a_limit_in_bytes(shard: Shard) -> None:
    long_name = "g" * 20_000
    wide(shard, 20, group=long_name)
    outcomes = forgotten(shard, delete_topic(shard))
    assert {len(outcome.records) for outcome in outcomes} <= {0, 2, 3}
    assert sum(len(outcome.records) for outcome in outcomes) == 20
    assert max(bytes_of(outcome.records) for outcome in outcomes) <= SLICE_BYTES
    later(shard, 8 * DAY_MS)
    (last,) = slices(shard)
    assert groups_gone(last) == [long_name]


def test_tombstones_that_are_larger_than_a_slice_are_slices_of_their_own(shard: Shard) -> None:
    long_name = "g" * (SLICE_BYTES + 1)
    wide(shard, 3, group=long_name)
    many(shard, 1, 3)
    later(shard, 8 * DAY_MS)
    written = [outcome.records for outcome in slices(shard)]
    assert [len(records) for records in written if records] == [4, 1, 1, 1, 1]
    assert shard.state.groups == {}


def test_tombstones_take_no_more_than_is_reckoned(shard: Shard) -> None:
    records = [Record(OffsetCommitKey("gruppe-ä", "t", 5)), Record(GroupMetadataKey("g"))]
    assert measured(encode_pairs(records), ["g"]).size_bytes <= bytes_of(records) < 200
