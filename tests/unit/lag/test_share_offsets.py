"""Where share groups are: DescribeShareGroupOffsets (SG-43 to SG-47 are scenarios), and the
positions from which their lag counts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from groupd.coordinator.core.types import OutsideCall, RequestContext
from groupd.coordinator.lag import share_offsets
from groupd.coordinator.lag.growth import Bounds
from groupd.coordinator.lag.share_offsets import ASKED_AT_ONCE, ShareOffsets
from groupd.coordinator.persister import ShareStateRequest, first_error
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.share_group import (
    DescribedShareOffset,
    DescribeShareGroupOffsetsRequest,
    ShareOffsetsGroup,
    ShareOffsetsTopic,
)
from groupd.protocol.messages.share_state import (
    ReadShareGroupStateSummaryRequest,
    ShareStateReply,
    ShareStateResult,
    ShareStateSummary,
    ShareStateTopic,
)
from groupd.storage.log import LogUnavailable
from tests.unit.runtime.harness import TOPIC_ID, Bench


class World:
    """A share coordinator, and logs that end at 100. `summaries`: by partition."""

    def __init__(self, bench: Bench) -> None:
        self.summaries: dict[int, ShareStateSummary] = {}
        self.asked: list[int] = []
        self.ends: dict[int, int] = dict.fromkeys(range(3), 100)
        self.fails = False
        self.offsets = ShareOffsets(bench.broker, self, self)  # type: ignore[arg-type]

    async def ask(self, request: ShareStateRequest) -> ShareStateReply:
        assert isinstance(request, ReadShareGroupStateSummaryRequest)
        topics = []
        for topic in request.topics:
            numbers = [one.partition for one in topic.partitions]  # type: ignore[union-attr]
            self.asked.append(len(numbers))
            unknown = ShareStateSummary(-1, start_offset=-1)
            found = [self.summaries.get(number, unknown) for number in numbers]
            entries = [
                ShareStateSummary(
                    number,
                    one.error,
                    None,
                    one.state_epoch,
                    one.leader_epoch,
                    one.start_offset,
                    one.delivery_complete_count,
                )
                for number, one in zip(numbers, found, strict=True)
            ]
            topics.append(ShareStateTopic(topic.topic_id, entries))
        return ShareStateReply(topics)

    async def look(self, wanted: Mapping[str, Any]) -> Any:
        if self.fails:
            raise LogUnavailable("scripted")
        return {
            name: {number: Bounds(0, self.ends[number]) for number in its if number in self.ends}
            for name, its in wanted.items()
        }

    async def describe(self, *numbers: int) -> list[DescribedShareOffset]:
        asked = ShareOffsetsGroup("g", (ShareOffsetsTopic("t", numbers),))
        request = DescribeShareGroupOffsetsRequest((asked,))
        reply = await self.offsets.describe(RequestContext(None, 1), request)
        return [one for topic in reply.groups[0].topics for one in topic.partitions]

    async def positions(self) -> dict[int, tuple[int, int]]:
        call = OutsideCall("share-positions", "g", {TOPIC_ID: (0, 1, 2), b"gone" * 4: (0,)})
        found = await self.offsets.positions(call)
        assert set(found) <= {"t"}
        return {
            number: (one.offset, one.commit_timestamp_ms)
            for number, one in found.get("t", {}).items()
        }


@pytest.fixture
async def bench() -> Any:
    made = await Bench().start()
    yield made
    await made.broker.close()


@pytest.fixture
def world(bench: Bench) -> World:
    return World(bench)


def at(start: int, count: int, **more: Any) -> ShareStateSummary:
    return ShareStateSummary(-1, start_offset=start, delivery_complete_count=count, **more)


async def test_lag_is_what_is_left_up_to_the_end_of_the_log(world: World) -> None:
    world.summaries = {0: at(10, 5, leader_epoch=3), 1: at(20, -1)}
    assert await world.describe(0, 1, 2) == [
        DescribedShareOffset(0, 10, 3, 85),
        DescribedShareOffset(1, 20, 0, -1),
        DescribedShareOffset(2, -1, 0, -1),
    ]


async def test_an_error_of_the_share_coordinator_is_hidden(world: World) -> None:
    world.summaries = {0: at(10, 5, leader_epoch=3, error=ErrorCode.NOT_COORDINATOR)}
    assert await world.describe(0) == [DescribedShareOffset(0, -1, 0, -1)]


@pytest.mark.parametrize("how", ["the log is not known", "the store fails"])
async def test_an_end_that_is_not_known_is_an_error_of_the_partition(
    world: World, how: str
) -> None:
    world.summaries = {0: at(10, 5), 1: at(-1, -1)}
    world.fails = how == "the store fails"
    world.ends.clear()
    found = await world.describe(0, 1)
    assert [one.error for one in found] == [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE]
    assert (found[0].start_offset, found[0].lag) == (0, -1)


async def test_many_partitions_are_asked_for_in_parts(world: World) -> None:
    found = await world.describe(*range(2 * ASKED_AT_ONCE + 1))
    assert [one.partition for one in found] == list(range(2 * ASKED_AT_ONCE + 1))
    assert world.asked == [ASKED_AT_ONCE, ASKED_AT_ONCE, 1]


async def test_positions_leave_out_what_is_finished_already(bench: Bench, world: World) -> None:
    world.summaries = {
        0: at(10, 5),
        1: at(-1, -1),
        2: at(7, 0, error=ErrorCode.COORDINATOR_NOT_AVAILABLE),
    }
    first_ms = bench.clock.now().wall_ms
    assert await world.positions() == {0: (15, first_ms)}
    bench.clock.advance(1000)
    assert await world.positions() == {0: (15, first_ms)}, "nothing was acknowledged since"
    world.summaries[0] = at(10, 6)
    assert await world.positions() == {0: (16, first_ms + 1000)}


async def test_a_group_whose_shard_gives_no_answer(world: World) -> None:
    asked = DescribeShareGroupOffsetsRequest((ShareOffsetsGroup("g"),))
    broker = world.offsets._broker
    broker.started = False
    reply = await asyncio.wait_for(world.offsets.describe(RequestContext(None, 1), asked), 5)
    assert reply.groups[0].error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_the_first_error_counts() -> None:
    good, bad = ShareStateResult(0), ShareStateResult(1, ErrorCode.FENCED_STATE_EPOCH)
    for results, code in (((good,), ErrorCode.NONE), ((good, bad), bad.error)):
        assert first_error(ShareStateReply([ShareStateTopic(TOPIC_ID, results)])) is code


async def test_the_start_offsets_of_the_last_hour(bench: Bench, world: World) -> None:
    for minute in range(3):
        world.summaries = {0: at(10 * minute, 5), 1: at(7, 0)}
        await world.positions()
        bench.clock.advance(60_000)
    assert (world.offsets.starts("g", "t", 0) or [])[-4:] == [0, 10, 20, None]
    assert (world.offsets.starts("g", "t", 1) or [])[-4:] == [7, 7, 7, None]
    assert world.offsets.starts("g", "t", 2) is None


async def test_start_offsets_make_room_only_when_they_are_old(
    bench: Bench, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_offsets, "STARTS_MAX", 1)
    world.summaries = {0: at(1, 0), 1: at(2, 0)}
    await world.positions()
    assert world.offsets.starts("g", "t", 1) is None
    world.summaries = {1: at(2, 0)}
    bench.clock.advance(60 * 60_000)
    await world.positions()
    assert world.offsets.starts("g", "t", 0) is None
    assert (world.offsets.starts("g", "t", 1) or [])[-1] == 2


async def test_a_start_offset_that_moves_over_finished_records_is_no_commit(
    bench: Bench, world: World
) -> None:
    world.summaries = {0: at(10, 5)}
    first = await world.positions()
    bench.clock.advance(1000)
    world.summaries = {0: at(15, 0)}
    assert await world.positions() == first
