"""What stays is bounded: groups, pending member ids, and what one request may name."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from groupd.coordinator.core.classic_group.group import SESSION, ClassicGroup
from groupd.coordinator.core.frontend.groups import (
    JOIN_PROTOCOLS_MAX,
    OWNED_PARTITIONS_MAX,
    SUBSCRIBED_TOPICS_MAX,
)
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.classic_group import JoinProtocol, SyncAssignment
from groupd.protocol.messages.consumer_group import TopicPartitions
from tests.unit.runtime.harness import (
    TOPIC_ID,
    Bench,
    commit,
    commit_errors,
    consumer_beat,
    consumer_join,
    join,
    settle,
    sync,
)

FULL = ErrorCode.GROUP_MAX_SIZE_REACHED


async def test_beyond_the_bound_nobody_makes_a_new_group() -> None:
    bench = await Bench(shards=4, max_groups=2).start()
    assert commit_errors(await bench.answer(commit("a", 1), 9)) == [ErrorCode.NONE]
    assert (await bench.answer(consumer_join("b", "m"))).error is ErrorCode.NONE
    assert commit_errors(await bench.answer(commit("c", 1), 9)) == [FULL]
    assert (await bench.answer(consumer_join("d", "m"))).error is FULL
    assert (await bench.answer(join("e"))).error is FULL
    assert (await bench.answer(join("e"), 3)).error is FULL
    assert commit_errors(await bench.answer(commit("a", 2), 9)) == [ErrorCode.NONE]
    assert (await bench.answer(join("a"))).error is ErrorCode.MEMBER_ID_REQUIRED
    groups = {group for shard in bench.broker.shards for group in shard.shard.state.groups}
    assert groups == {"a", "b"}
    await bench.broker.close()


async def test_the_oldest_pending_id_goes_and_an_honest_member_still_joins() -> None:
    bench = await Bench(group_max_pending_members=3).start()
    ids = [(await bench.answer(join("g"))).member_id for _ in range(5)]
    group = bench.shard.shard.state.groups["g"]
    assert isinstance(group, ClassicGroup)
    assert list(group.pending_members) == ids[2:]
    deadlines = bench.shard.shard.state.deadlines
    timers = [(SESSION, "g", one) in deadlines for one in ids]
    assert timers == [False, False, True, True, True]
    assert (await bench.answer(join("g", ids[0]))).error is ErrorCode.UNKNOWN_MEMBER_ID
    joined = bench.ask(join("g", ids[4]))
    bench.clock.advance(30_000)
    await settle(2000)
    assert [reply.error for reply in joined] == [ErrorCode.NONE]
    await bench.broker.close()


def protocols(count: int, size: int = 0) -> dict[str, Any]:
    return {"protocols": tuple(JoinProtocol(f"p{n}", bytes(size)) for n in range(count))}


@pytest.mark.parametrize(
    ("offered", "code"),
    [
        (protocols(JOIN_PROTOCOLS_MAX), ErrorCode.MEMBER_ID_REQUIRED),
        (protocols(JOIN_PROTOCOLS_MAX + 1), ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (protocols(2, 500), ErrorCode.MEMBER_ID_REQUIRED),
        (protocols(2, 501), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_what_a_member_may_offer(offered: dict[str, Any], code: ErrorCode) -> None:
    bench = await Bench(message_max_bytes=1000).start()
    assert (await bench.answer(replace(join("g"), **offered))).error is code
    await bench.broker.close()


async def test_what_a_member_may_subscribe_to_and_own() -> None:
    bench = await Bench().start()
    names = tuple(f"t{number}" for number in range(SUBSCRIBED_TOPICS_MAX + 1))
    most = replace(consumer_join("g", "m"), subscribed_topic_names=names[1:])
    assert (await bench.answer(most)).error is ErrorCode.NONE
    refused = await bench.answer(replace(most, subscribed_topic_names=names))
    assert refused.error is ErrorCode.INVALID_REQUEST
    assert str(SUBSCRIBED_TOPICS_MAX) in refused.error_message
    for owned in (
        (TopicPartitions(TOPIC_ID, (0,) * OWNED_PARTITIONS_MAX),),
        (TopicPartitions(TOPIC_ID, ()),) * (OWNED_PARTITIONS_MAX + 1),
    ):
        beat = replace(consumer_beat("g", "m", 1), topic_partitions=owned)
        assert (await bench.answer(beat)).error is ErrorCode.INVALID_REQUEST
    await bench.broker.close()


async def test_a_leader_may_not_send_many_more_assignments_than_members() -> None:
    bench = await Bench().start()
    member = (await bench.answer(join("g"))).member_id
    joined = bench.ask(join("g", member))
    await settle(2000)
    bench.clock.advance(0)
    await settle()
    generation = joined[0].generation_id
    many = tuple(SyncAssignment(f"x{number}", b"") for number in range(1001))
    request = replace(sync("g", generation, member), assignments=many)
    assert (await bench.answer(request)).error is ErrorCode.INVALID_REQUEST
    assert (await bench.answer(replace(request, assignments=many[1:]))).error is ErrorCode.NONE
    await bench.broker.close()
