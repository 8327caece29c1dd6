"""A request sees what those before it on its connection have done, though none was waited for:
records and groups. With `GROUPD_PEER=kafka` the same tests run against Apache Kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.wire_client import Request, WireClient
from tests.support.wire_requests import (
    RECORDS,
    batch,
    commit,
    delete_records,
    fetch,
    fetch_offset,
    fetched,
    list_offsets,
    listed,
    produce,
    produced,
)

ROUNDS = 20
UNKNOWN_MEMBER = 25


# The log of a topic --------------------------------------------------------------------------


@pytest.mark.parametrize("produces", [1, 5])
def test_produced_records_are_listed_and_fetched(
    leader: WireClient, name: str, produces: int
) -> None:
    end = 0
    for _ in range(ROUNDS):
        asked = [produce(name)] * produces + [list_offsets(name, -1), fetch(name, end)]
        *made, latest, read = leader.pipeline(asked)
        assert [produced(one) for one in made] == [end + 3 * n for n in range(produces)]
        end += 3 * produces
        assert listed(latest) == end
        (partition,) = read["responses"][0]["partitions"]
        assert (partition["error_code"], partition["high_watermark"]) == (0, end)
        assert len(partition["records"]) == produces * len(RECORDS)


def test_records_produced_without_acknowledgement_are_listed(leader: WireClient, name: str) -> None:
    for number in range(1, ROUNDS + 1):
        *_, latest = leader.pipeline([produce(name, acks=0), list_offsets(name, -1)])
        assert listed(latest) == 3 * number


def test_deleted_records_are_not_listed(leader: WireClient, name: str) -> None:
    leader.pipeline([produce(name, batch(ROUNDS))])
    for offset in range(1, ROUNDS + 1):
        deleted, earliest = leader.pipeline([delete_records(name, offset), list_offsets(name, -2)])
        assert deleted["topics"][0]["partitions"][0]["error_code"] == 0
        assert listed(earliest) == offset


def test_a_read_is_not_changed_by_the_write_behind_it(leader: WireClient, name: str) -> None:
    for number in range(ROUNDS):
        before, made, after = leader.pipeline(
            [list_offsets(name, -1), produce(name), list_offsets(name, -1)]
        )
        assert (listed(before), produced(made), listed(after)) == (
            3 * number,
            3 * number,
            3 * number + 3,
        )


# Groups --------------------------------------------------------------------------------------


def test_committed_offsets_are_fetched_and_deleted_ones_are_not(
    coordinator: WireClient, name: str
) -> None:
    for offset in range(1, ROUNDS + 1):
        topics = [{"name": name, "partitions": [{"partition_index": 0}]}]
        delete: Request = ("OffsetDelete", 0, {"group_id": name, "topics": topics})
        ask = fetch_offset(name)
        delete_group: Request = ("DeleteGroups", 2, {"groups_names": [name]})
        commits = [commit(name, offset), ask]
        replies = coordinator.pipeline(
            [*commits, commit(name, offset + 1), ask, delete, ask, *commits, delete_group, ask]
        )
        seen = [fetched(replies[at]) for at in (1, 3, 5, 7, 9)]
        assert seen == [(offset, 0), (offset + 1, 0), (-1, 0), (offset, 0), (-1, 0)]


@pytest.fixture
def beat(coordinator: WireClient, name: str) -> Callable[..., Request]:
    def beat(epoch: int, **fields: Any) -> Request:
        said = {"group_id": name, "member_id": "m", "member_epoch": epoch, **fields}
        return ("ConsumerGroupHeartbeat", 1, said)

    return beat


def test_whoever_has_left_is_told_so_even_if_its_reply_was_stored(
    coordinator: WireClient, beat: Callable[..., Request], name: str
) -> None:
    for _ in range(ROUNDS):
        join = beat(0, subscribed_topic_names=[name], rebalance_timeout=9000, topic_partitions=())
        (joined,) = coordinator.pipeline([join])
        assert joined["error_code"] == 0, joined
        epoch = joined["member_epoch"]
        coordinator.pipeline([beat(epoch, topic_partitions=joined["assignment"][
            "topic_partitions"])])  # fmt: skip
        for _ in range(3):  # repeats itself, so that its reply may come from a table
            assert {one["error_code"] for one in coordinator.pipeline([beat(epoch)] * 2)} == {0}
        first, left, late = coordinator.pipeline([beat(epoch), beat(-1), beat(epoch)])
        assert [one["error_code"] for one in (first, left, late)] == [0, 0, UNKNOWN_MEMBER]


def test_a_classic_member_that_has_left_may_neither_beat_nor_commit(
    coordinator: WireClient, name: str
) -> None:
    for _ in range(ROUNDS):
        protocols = [{"name": "range", "metadata": b""}]
        joined = coordinator.call("JoinGroup", 3, group_id=name, session_timeout=30_000,
                                  rebalance_timeout=30_000, member_id="", protocols=protocols,
                                  protocol_type="consumer")  # fmt: skip
        assert joined["error_code"] == 0
        member, generation = joined["member_id"], joined["generation_id"]
        who = {"group_id": name, "generation_id": generation, "member_id": member}
        given = [{"member_id": member, "assignment": b""}]
        heartbeat: Request = ("Heartbeat", 3, who)
        topics = [{"name": name, "partitions": [{"partition_index": 0, "committed_offset": 7}]}]
        committing: Request = (
            "OffsetCommit",
            7,
            {
                "group_id": name,
                "member_id": member,
                "generation_id_or_member_epoch": generation,
                "topics": topics,
            },
        )
        replies = coordinator.pipeline(
            [
                ("SyncGroup", 3, {**who, "assignments": given}),
                *[heartbeat] * 3,
                committing,
                heartbeat,
                ("LeaveGroup", 3, {"group_id": name, "members": [{"member_id": member}]}),
                heartbeat,
                committing,
            ]
        )
        codes = [one.get("error_code", 0) for one in replies[:-1]]
        assert codes == [0] * 7 + [UNKNOWN_MEMBER]
        committed = [
            replies[at]["topics"][0]["partitions"][0]["error_code"] for at in (4, len(replies) - 1)
        ]
        assert committed == [0, UNKNOWN_MEMBER]
