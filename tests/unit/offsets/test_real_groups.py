"""The scenarios whose verdict is the group's, with the real classic and consumer groups, loaded
from their records: OF-04..OF-19, OF-30..OF-32, OF-40..OF-43, OF-46..OF-49, OF-55, OF-57."""

from __future__ import annotations

import pytest

from groupd.coordinator.core.classic_group.group import ClassicGroup, State
from groupd.coordinator.core.types import Instant
from groupd.protocol.messages.offsets import FetchTopic
from groupd.protocol.records.schema import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberKey,
    ConsumerGroupCurrentMemberValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    OwnedTopic,
    Record,
)
from tests.support.replaying import apply
from tests.unit.offsets.harness import DAY_MS, T1_ID, Shard, codes, offsets, places, topic

SUBSCRIBED_T1 = b"\x00\x01\x00\x00\x00\x01\x00\x02t1\xff\xff\xff\xff"
M = {"member_id": "m", "generation_or_epoch": 3}


def classic(
    shard: Shard,
    state: State = State.STABLE,
    *,
    protocol_type: str = "consumer",
    subscription: bytes = SUBSCRIBED_T1,
) -> ClassicGroup:
    """Generation 3; member m, static member s with instance i. Sessions of 10 s."""
    members = () if state is State.EMPTY else (("m", None), ("s", "i"))
    value = GroupMetadataValue(
        protocol_type,
        3,
        "range" if members else None,
        "m" if members else None,
        shard.now.wall_ms,
        tuple(
            GroupMetadataMember(key, instance, "c", "/h", 30000, 10000, subscription, b"")
            for key, instance in members
        ),
    )
    apply(shard.state, Record(GroupMetadataKey("g"), value))
    group = shard.state.groups["g"]
    group.state = state
    return group


def consumer(shard: Shard, *, classic_protocol: bool = False, members: bool = True) -> None:
    """Group epoch 5; member m at epoch 5: p0 assigned at 3, p1 at 5, p2 pending revocation at
    3; it subscribes to t1."""
    key = Record(ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(5))
    apply(shard.state, key)
    if not members:
        return
    member = ConsumerGroupMemberMetadataValue(
        None,
        None,
        "c",
        "/h",
        ("t1",),
        None,
        classic=ClassicMemberMetadata(10000) if classic_protocol else None,
    )
    current = ConsumerGroupCurrentMemberValue(
        5, 4, 1, (OwnedTopic(T1_ID, (0, 1), (3, 5)),), (OwnedTopic(T1_ID, (2,), (3,)),)
    )
    for record in (
        Record(ConsumerGroupMemberMetadataKey("g", "m"), member),
        Record(ConsumerGroupCurrentMemberKey("g", "m"), current),
    ):
        apply(shard.state, record)


def session_due(shard: Shard) -> list[int]:
    return [due for key, due in shard.state.deadlines.items() if key[1:] == ("g", "m")]


@pytest.mark.parametrize("state", [State.STABLE, State.PREPARING_REBALANCE], ids=["OF-04", "OF-10"])
def test_right_member_and_generation(shard: Shard, state: State) -> None:
    classic(shard, state)
    assert codes(shard.commit(topic(p0=1), **M)) == {("t1", 0): 0}
    assert session_due(shard) == [shard.now.monotonic_ms + 10000]


S, CR, E = State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY
CLASSIC = [
    ("OF-05", S, "m", None, 4, 22),
    ("OF-06", S, "", None, -1, 25),
    ("OF-07", S, "x", None, 3, 25),
    ("OF-08-fenced", S, "m", "i", 3, 82),
    ("OF-08-unknown-instance", S, "m", "j", 3, 25),
    ("OF-09-right", CR, "m", None, 3, 27),
    ("OF-09-wrong", CR, "m", None, 2, 22),
    ("OF-11-anonymous", E, "x", None, -1, 0),
    ("OF-11-generation", E, "x", None, 3, 25),
]


@pytest.mark.parametrize(
    ("state", "member_id", "instance_id", "generation", "code"),
    [case[1:] for case in CLASSIC],
    ids=[case[0] for case in CLASSIC],
)
def test_classic_commit(
    shard: Shard,
    state: State,
    member_id: str,
    instance_id: str | None,
    generation: int,
    code: int,
) -> None:
    classic(shard, state)
    reply = shard.commit(
        topic(p0=1),
        member_id=member_id,
        group_instance_id=instance_id,
        generation_or_epoch=generation,
    )
    assert codes(reply) == {("t1", 0): code}
    assert len(shard.outcome.records) == (code == 0)
    assert session_due(shard) == []


CONSUMER = [
    ("OF-12-v9", 9, 5, (0,), 0),
    ("OF-12-v8", 8, 5, (0,), 35),
    ("OF-13", 9, 6, (0,), 113),
    ("OF-14", 9, 4, (0,), 0),
    ("OF-15", 9, 4, (0, 1), 113),
    ("OF-16", 9, 4, (2,), 0),
    ("OF-17", 9, 4, (9,), 113),
]


@pytest.mark.parametrize(
    ("version", "epoch", "partitions", "code"),
    [case[1:] for case in CONSUMER],
    ids=[case[0] for case in CONSUMER],
)
def test_consumer_commit(
    shard: Shard, version: int, epoch: int, partitions: tuple[int, ...], code: int
) -> None:
    consumer(shard)
    entries = {f"p{partition}": 7 for partition in partitions}
    reply = shard.commit(
        topic(**entries), version=version, member_id="m", generation_or_epoch=epoch
    )
    assert codes(reply) == {("t1", partition): code for partition in partitions}
    assert len(shard.outcome.records) == (len(partitions) if code == 0 else 0)


def test_of_18_classic_protocol_member(shard: Shard) -> None:
    consumer(shard, classic_protocol=True)
    reply = shard.commit(topic(p0=1), member_id="m", generation_or_epoch=6)
    assert codes(reply) == {("t1", 0): 22}


@pytest.mark.parametrize(("members", "code"), [(True, 25), (False, 0)])
def test_of_19_anonymous_commit(shard: Shard, members: bool, code: int) -> None:
    consumer(shard, members=members)
    assert codes(shard.commit(topic(p0=1))) == {("t1", 0): code}


def test_of_30_of_31_consumer_fetch(shard: Shard) -> None:
    consumer(shard)
    shard.commit(topic(p0=8), member_id="m", generation_or_epoch=5)
    p0 = FetchTopic("t1", (0,))
    assert shard.fetch(p0, member_id="m", member_epoch=4).error == 113
    assert shard.fetch(p0, member_id="x", member_epoch=5).error == 25
    assert offsets(shard.fetch(p0)) == offsets(shard.fetch(p0, member_id="m", member_epoch=5))
    assert offsets(shard.fetch(p0)) == {("t1", 0): 8}


def test_of_32_classic_fetch_ignores_the_member(shard: Shard) -> None:
    classic(shard)
    shard.commit(topic(p0=8), **M)
    reply = shard.fetch(FetchTopic("t1", (0,)), member_id="any", member_epoch=99)
    assert offsets(reply) == {("t1", 0): 8}


def test_of_40_of_43_delete(shard: Shard) -> None:
    classic(shard)
    shard.commit(topic(p0=1), topic("t2", p0=1), **M)
    both = (FetchTopic("t1", (0,)), FetchTopic("t2", (0,)))
    assert codes(shard.delete(*both)) == {("t1", 0): 86, ("t2", 0): 0}
    assert places(shard.outcome) == [("t2", 0)]
    classic(shard, protocol_type="connect")
    assert shard.delete(*both).error == 68
    classic(shard, subscription=b"?")
    assert codes(shard.delete(*both)) == {("t1", 0): 86, ("t2", 0): 86}


@pytest.mark.parametrize(
    ("state", "fields"),
    [(S, {}), (CR, M), (S, M)],
    ids=["OF-46", "OF-49", "OF-46-member"],
)
def test_txn_commit_accepted(shard: Shard, state: State, fields: dict) -> None:
    classic(shard, state)
    reply = shard.txn_commit(topic(p0=1), version=3 if fields else 0, **fields)
    assert codes(reply) == {("t1", 0): 0}
    assert session_due(shard) == []


@pytest.mark.parametrize(("version", "code"), [(5, 22), (6, 113)])
def test_of_48_stale_epoch_in_a_transaction(shard: Shard, version: int, code: int) -> None:
    consumer(shard)
    reply = shard.txn_commit(
        topic("t1", T1_ID, p1=1), version=version, member_id="m", generation_or_epoch=4
    )
    assert codes(reply) == {("t1", 1): code}


@pytest.mark.parametrize(
    ("state", "protocol_type", "gone"),
    [(E, "consumer", True), (S, "connect", False), (S, "consumer", False)],
    ids=["OF-55", "OF-57", "OF-56"],
)
def test_sweep(shard: Shard, state: State, protocol_type: str, gone: bool) -> None:
    fields = {} if state is E else M
    classic(shard, state, protocol_type=protocol_type)
    shard.commit(topic(p0=1), **fields)
    shard.now = Instant(shard.now.monotonic_ms, shard.now.wall_ms + 7 * DAY_MS)
    outcome = shard.offsets.sweep(shard.now)
    assert places(outcome) == ([("t1", 0)] if gone else [])
    assert (Record(GroupMetadataKey("g")) in outcome.records) is gone


def test_a_group_that_somebody_is_about_to_join_outlives_the_sweep(shard: Shard) -> None:
    """Its member was told to come again with an id (KIP-394)."""
    group = classic(shard, State.EMPTY)
    group.pending_members["asked"] = None
    assert shard.offsets.sweep(shard.now).records == []
    group.pending_members.clear()
    assert shard.offsets.sweep(shard.now).records == [Record(GroupMetadataKey("g"))]
