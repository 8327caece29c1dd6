"""The index of owners, kept member by member, against one that is made anew for every question."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from groupd.coordinator.core.consumer_group.group import ConsumerGroup
from groupd.coordinator.core.errors import ReplayError
from groupd.coordinator.core.types import AppliedAt
from groupd.coordinator.history.authors import Authors
from groupd.protocol.records.schema import (
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    OwnedTopic,
    Record,
)
from tests.support.examples import examples
from tests.unit.history.harness import T_ID, LoggedShard

PARTITIONS = range(4)
MEMBERS = st.sampled_from(["m1", "m2", "m3"])
PICKS = st.sets(st.sampled_from(PARTITIONS))
STEPS = st.one_of(
    st.tuples(st.just("own"), MEMBERS, PICKS, PICKS),
    st.tuples(st.just("own"), MEMBERS, PICKS, PICKS),
    st.tuples(st.just("describe"), MEMBERS),
    st.tuples(st.just("leave"), MEMBERS),
    st.tuples(st.just("delete")),
    st.tuples(st.just("replace")),
)


def records(step: str, epoch: int, *args: object) -> list[Record]:
    if step == "own":
        member, *picks = args
        assigned, revoking = (
            (OwnedTopic(T_ID, tuple(sorted(pick)), (epoch,) * len(pick)),) for pick in picks
        )
        value = ConsumerGroupCurrentMemberValue(epoch, epoch - 1, 0, assigned, revoking)
        return [Record(ConsumerGroupCurrentMemberKey("g", member), value)]
    if step == "describe":
        value = ConsumerGroupMemberMetadataValue(None, None, f"at-{epoch}", "/h", ("t",), None)
        return [Record(ConsumerGroupMemberMetadataKey("g", *args), value)]
    if step == "leave":
        return [
            Record(ConsumerGroupCurrentMemberKey("g", *args)),
            Record(ConsumerGroupMemberMetadataKey("g", *args)),
        ]
    # A group that is gone, and one of the same id whose members come anew.
    return [Record(ConsumerGroupMetadataKey("g") if step == "delete" else GroupMetadataKey("g"))]


def owner(group: ConsumerGroup | None, partition: int) -> str:
    found = ""
    for member_id, member in sorted(group.members.items() if group else ()):
        for places in (member.assigned, member.pending_revocation):
            if partition in places.get(T_ID, {}):
                found = member_id
    return found


@examples(150)
@given(st.lists(STEPS, max_size=30))
def test_the_index_is_what_a_look_at_all_members_would_give(
    steps: list[tuple[object, ...]],
) -> None:
    shard, authors = LoggedShard().shard, Authors()
    for number, (step, *args) in enumerate(steps, 1):
        for record in records(str(step), number, *args):
            try:
                shard.replay(record, AppliedAt(number, -1, -1))
            except ReplayError:
                continue  # a group with members is not deleted
            group = shard.state.groups.get("g")
            authors.group_changed(group, record.key)
            for partition in PARTITIONS:
                told = authors.of(group, "t", T_ID, partition)
                assert told.member_id == owner(group, partition)
                if told.member_id:
                    assert told.client_id == group.members[told.member_id].client_id
