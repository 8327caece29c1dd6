"""Requests that are asked in pieces: the reply is that of one request, and what may happen between
two pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from groupd.coordinator.core.metadata_image import MetadataImage, TopicImage
from groupd.coordinator.core.slices import run_through
from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime import transactions
from groupd.coordinator.runtime.dispatch import PIECE, is_long, split_topics
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.waiting import Callback
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import LeaveGroupRequest, LeavingMember
from groupd.protocol.messages.groups import DeleteGroupsRequest
from groupd.protocol.messages.offsets import (
    CommitPartition,
    CommitTopic,
    FetchTopic,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchGroup,
    OffsetFetchRequest,
    TxnOffsetCommitRequest,
    commit_topic,
)
from groupd.protocol.wire.api.offset_fetch import OFFSET_FETCH
from tests.support.access import ByRule, allow_all
from tests.support.loop_turns import OneStepATurn
from tests.unit.runtime.harness import APIS, TOPIC_ID, Bench, join, settle

MANY = 3 * PIECE
OTHER_ID = TOPIC_ID[::-1]
NAMES = [f"s{number}" for number in range(MANY)]


def partitions(count: int = MANY) -> tuple[CommitPartition, ...]:
    return tuple(CommitPartition(number, number + 5) for number in range(count))


def by_name(*topics: CommitTopic) -> OffsetCommitRequest:
    return OffsetCommitRequest("g", topics)


async def made(**config: Any) -> Bench:
    bench = await Bench(**config).start()
    small = [TopicImage(name.encode().ljust(16), name, 1) for name in NAMES]
    topics = [TopicImage(TOPIC_ID, "t", MANY), TopicImage(OTHER_ID, "u", 1), *small]
    bench.broker.image = MetadataImage(topics, version=2)
    return bench


async def answer(bench: Bench, request: Any, version: int | None = None) -> Any:
    """The reply, with every sequence in it made and a body that can be encoded."""
    replies = bench.ask(request, version)
    for _ in range(50):
        await settle()
        bench.clock.advance(0)
        if replies:
            break
    (reply,) = replies
    api = APIS[type(request)]
    assert api.encode(reply, api.max_version if version is None else version)
    assert len(bench.broker.waiting) == 0
    return reply


def errors(topics: Sequence[Any]) -> dict[str, list[tuple[int, ErrorCode]]]:
    return {
        topic.name: [(one.partition, one.error) for one in topic.partitions] for topic in topics
    }


@pytest.mark.parametrize("topic", [commit_topic("t", partitions()), FetchTopic("t", (1,) * MANY)])
def test_no_piece_is_long_and_nothing_is_lost(topic: Any) -> None:
    small = [type(topic)(f"t{number}", topic.partitions[: number % 3]) for number in range(MANY)]
    topics = [*small, topic, *small]
    pieces = run_through(split_topics(topics))
    assert len(pieces) > 5
    assert not any(is_long(piece) for piece in pieces)
    again: dict[str, tuple[Any, ...]] = {}
    for piece in pieces:
        for part in piece:
            again[part.name] = (*again.get(part.name, ()), *part.partitions)
    assert again["t"] == topic.partitions
    assert again["t2"] == tuple(topic.partitions[:2]) * 2
    assert len(again) == MANY + 1


async def test_a_long_commit_is_one_reply_and_is_read_back() -> None:
    bench = await made()
    small = [commit_topic(name, partitions(2)) for name in NAMES]
    reply = await answer(bench, by_name(commit_topic("t", partitions()), *small), 9)
    found = errors(reply.topics)
    assert list(found) == ["t", *NAMES], "each topic once"
    assert found["t"] == [(number, ErrorCode.NONE) for number in range(MANY)]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert sorted(found["s7"]) == [(0, ErrorCode.NONE), (1, unknown)]
    everything = OffsetFetchGroup("g", None)
    (group,) = (await answer(bench, OffsetFetchRequest((everything,)), 9)).groups
    assert [topic.name for topic in group.topics] == sorted(["t", *NAMES])
    offsets = {topic.name: [one.offset for one in topic.partitions] for topic in group.topics}
    assert offsets["t"] == [number + 5 for number in range(MANY)]
    assert offsets["s9"] == [5]
    asked = (FetchTopic("t", tuple(range(MANY))), FetchTopic("nobody", (0,)))
    (group,) = (await answer(bench, OffsetFetchRequest((OffsetFetchGroup("g", asked),)), 9)).groups
    assert [one.offset for one in group.topics[0].partitions] == offsets["t"]
    assert [one.offset for one in group.topics[1].partitions] == [-1]
    await bench.broker.close()


async def test_a_group_that_changes_between_two_pieces_refuses_the_rest() -> None:
    bench = await made(work=LongWork(OneStepATurn()))
    replies = bench.ask(by_name(commit_topic("t", partitions())), 9)
    shard = bench.shard.shard
    while "g" not in shard.state.groups:
        await settle(1)
    first = len(shard.offsets.store.topics("g")["t"])
    assert 0 < first < MANY
    # Once the group has a member, it takes no commit from somebody who is none.
    assert (await bench.answer(join("g"), 3)).error is ErrorCode.NONE
    await settle(200)
    (reply,) = replies
    codes = [one.error for one in reply.topics[0].partitions]
    refused = ErrorCode.UNKNOWN_MEMBER_ID
    done = len(shard.offsets.store.topics("g")["t"])
    assert first <= done < MANY
    assert codes == [ErrorCode.NONE] * done + [refused] * (MANY - done)
    await bench.broker.close()


async def test_a_long_transactional_commit_asks_the_coordinator_once_per_piece_in_order() -> None:
    bench = await made()
    asked: list[int] = []

    class Verifier:
        async def verify(self, write: Any, *, add: bool) -> dict[Any, ErrorCode]:
            asked.append(len(bench.shard.shard.offsets.store.pending("g")))
            return dict.fromkeys(write.partitions, ErrorCode.NONE)

    bench.broker.verifier = Verifier()  # type: ignore[assignment]
    request = TxnOffsetCommitRequest("x", "g", 7, 0, (commit_topic("t", partitions()),))
    reply = await answer(bench, request, 5)
    assert errors(reply.topics)["t"] == [(number, ErrorCode.NONE) for number in range(MANY)]
    assert asked == [0], "after the first piece the transaction is open in the log"
    assert len(bench.shard.shard.offsets.store.pending("g")) == MANY
    await bench.broker.close()


async def test_a_producer_has_a_most_of_pending_offsets() -> None:
    """Its marker decides all of them in one go, so there may not be more."""
    bench = await made(max_transaction_partitions=PIECE)

    class Verifier:
        async def verify(self, write: Any, *, add: bool) -> dict[Any, ErrorCode]:
            return dict.fromkeys(write.partitions, ErrorCode.NONE)

    bench.broker.verifier = Verifier()  # type: ignore[assignment]
    request = TxnOffsetCommitRequest("x", "g", 7, 0, (commit_topic("t", partitions()),))
    codes = [code for _, code in errors((await answer(bench, request, 5)).topics)["t"]]
    taken = bench.shard.shard.offsets.store.pending_count(7)
    assert PIECE < taken <= 2 * PIECE, "the piece that goes beyond is the last one"
    assert codes == [ErrorCode.NONE] * taken + [ErrorCode.POLICY_VIOLATION] * (MANY - taken)
    other = TxnOffsetCommitRequest("y", "g", 8, 0, (commit_topic("t", partitions(3)),))
    assert errors((await answer(bench, other, 5)).topics)["t"][0] == (0, ErrorCode.NONE)
    await bench.broker.close()


async def test_a_long_transactional_commit_is_lost_with_one_of_its_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A piece may be lost for want of memory. The connection ends, and the client asks again."""
    bench = await made()
    request = TxnOffsetCommitRequest("x", "g", 7, 0, (commit_topic("t", partitions()),))
    lost: list[bool] = []
    waiter = Callback(request, APIS[TxnOffsetCommitRequest].failure, lambda reply: None)
    monkeypatch.setattr(Callback, "on_no_reply", lambda one: lost.append(one is waiter))

    def no_memory(*_: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(transactions, "refuse_txn_commit", no_memory)
    bench.shard.state = type(bench.shard.state).FAILED
    bench.broker.submit(RequestContext(waiter, 5, "client", access=ByRule(allow_all)), request)
    await settle(200)
    assert lost == [True]
    assert len(bench.broker.waiting) == 0
    assert not bench.broker.tasks.busy
    await bench.broker.close()


async def test_offsets_are_deleted_in_pieces_and_an_error_of_the_group_stands_alone() -> None:
    bench = await made()
    every = OffsetDeleteRequest("g", (FetchTopic("t", tuple(range(MANY))), FetchTopic("x", (0,))))
    assert (await answer(bench, every)).error is ErrorCode.GROUP_ID_NOT_FOUND
    await answer(
        bench, by_name(commit_topic("t", partitions()), commit_topic("u", partitions(1))), 9
    )
    reply = await answer(bench, every)
    assert reply.error is ErrorCode.NONE
    found = errors(reply.topics)
    assert found["t"] == [(number, ErrorCode.NONE) for number in range(MANY)]
    assert found["x"] == [(0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    assert list(bench.shard.shard.offsets.store.topics("g")) == ["u"]
    await bench.broker.close()


async def test_a_group_with_many_offsets_is_deleted() -> None:
    bench = await made(message_max_bytes=100_000)
    await answer(bench, by_name(commit_topic("t", partitions())), 9)
    results = (await answer(bench, DeleteGroupsRequest(("g", "nobody", "g")))).results
    assert [(one.group_id, one.error) for one in results] == [
        ("g", ErrorCode.NONE),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert bench.shard.shard.offset_count() == 0
    assert "g" not in bench.shard.shard.state.groups
    await bench.broker.close()


async def test_nobody_uses_a_group_between_two_pieces_of_its_deletion() -> None:
    """A member that joined would keep it alive, without some of its offsets."""
    bench = await made(message_max_bytes=100_000, work=LongWork(OneStepATurn()))
    await answer(bench, by_name(commit_topic("t", partitions())), 9)
    deleted = bench.ask(DeleteGroupsRequest(("g",)))
    while not bench.shard.shard.state.being_deleted:
        await settle(1)
    early = [bench.ask(join("g")), bench.ask(by_name(commit_topic("t", partitions(1))), 9)]
    fetched = bench.ask(OffsetFetchRequest((OffsetFetchGroup("g", None),)), 9)
    other = bench.ask(join("h"))
    await settle(200)
    ((result,),) = [reply.results for reply in deleted]
    assert result.error is ErrorCode.NONE
    (refused,), (commit,) = early
    assert refused.error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert errors(commit.topics) == {"t": [(0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]}
    assert fetched[0].groups[0].error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert other[0].error is ErrorCode.MEMBER_ID_REQUIRED
    assert "g" not in bench.shard.shard.state.groups
    assert (await answer(bench, join("g"))).error is ErrorCode.MEMBER_ID_REQUIRED
    await bench.broker.close()


async def test_many_members_leave_in_pieces() -> None:
    bench = await made()
    leaving = tuple(LeavingMember(f"m{number}") for number in range(300))
    reply = await answer(bench, LeaveGroupRequest("g", leaving))
    assert [one.member_id for one in reply.members] == [one.member_id for one in leaving]
    assert {one.error for one in reply.members} == {ErrorCode.UNKNOWN_MEMBER_ID}
    await bench.broker.close()


async def test_a_group_is_fetched_whole_once() -> None:
    bench = await made()
    await answer(bench, by_name(commit_topic("t", partitions(3))), 9)
    asked = tuple(OffsetFetchGroup(group, None, f"m{n}") for n in range(9) for group in ("g", "h"))
    groups = (await answer(bench, OffsetFetchRequest(asked), 9)).groups
    assert [one.group_id for one in groups] == ["g", "h"]
    some = (FetchTopic("t", (0,)),)
    asked = (OffsetFetchGroup("g", some), OffsetFetchGroup("g", some))
    groups = (await answer(bench, OffsetFetchRequest(asked), 9)).groups
    assert [one.group_id for one in groups] == ["g", "g"], "as in Kafka"
    await bench.broker.close()


@pytest.mark.parametrize("version", [1, 9])
async def test_a_group_that_is_refused_is_refused_as_a_whole(version: int) -> None:
    bench = await made()
    bench.shard.state = type(bench.shard.state).FAILED
    asked = (FetchTopic("t", tuple(range(MANY))),)
    reply = await answer(bench, OffsetFetchRequest((OffsetFetchGroup("g", asked),)), version)
    on_wire = OFFSET_FETCH.encode(reply, version)
    (group,) = OFFSET_FETCH.decode_reply(bytes(on_wire), 0, version).groups
    assert group.error is (ErrorCode.NONE if version == 1 else ErrorCode.NOT_COORDINATOR)
    on_partitions = [one.error for topic in group.topics for one in topic.partitions]
    assert on_partitions == ([ErrorCode.NOT_COORDINATOR] * MANY if version == 1 else [])
