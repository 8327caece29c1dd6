"""How much of a request about many keys is done at a time: each of them may be long."""

from __future__ import annotations

from typing import Any

import pytest

from groupd.coordinator.core import partitioning
from groupd.coordinator.core.partitioning import string_hash
from groupd.coordinator.core.slices import Steps
from groupd.coordinator.runtime.ownership import SingleNodeOwnership
from groupd.coordinator.runtime.waiting import Waiter
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.consumer_group import ConsumerGroupDescribeRequest
from groupd.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
)
from groupd.protocol.messages.offsets import OffsetFetchGroup, OffsetFetchRequest
from tests.unit.runtime.harness import Bench

SHARDS = 50
LONG = 32_767
NODES = Node(0, "h0", 9092), Node(1, "h1", 9093)


class Shared(SingleNodeOwnership):
    """Two nodes share the shards."""

    def only_leader(self) -> tuple[int, int] | None:
        return None


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the keys that are hashed."""
    lengths: list[int] = []

    def noted(key: str) -> int:
        lengths.append(len(key))
        return string_hash(key)

    monkeypatch.setattr(partitioning, "string_hash", noted)
    partitioning._kept_hash.cache_clear()
    return lengths


def keys(count: int, length: int) -> tuple[str, ...]:
    return tuple(str(number).zfill(length) for number in range(count))


async def in_steps(bench: Bench, request: Any, hashed: list[int]) -> tuple[Any, list[list[int]]]:
    """The reply, and the lengths of what was hashed, by step."""
    steps: list[list[int]] = []

    def work_on(waiter: Waiter, work: Steps[None]) -> None:
        hashed.clear()
        for _ in work:
            steps.append(hashed.copy())
            hashed.clear()
        steps.append(hashed.copy())

    setattr(bench.broker.work, "answer", work_on)  # noqa: B010
    (reply,) = bench.ask(request)
    await bench.broker.close()
    return reply, steps


async def found_in_steps(
    bench: Bench, asked: tuple[str, ...], hashed: list[int]
) -> list[list[int]]:
    reply, steps = await in_steps(bench, FindCoordinatorRequest(asked), hashed)
    assert [found.key for found in reply.coordinators] == list(dict.fromkeys(asked))
    assert {found.error for found in reply.coordinators} == {ErrorCode.NONE}
    return steps


async def shared_bench() -> Bench:
    bench = await Bench(shards=SHARDS, ownership=Shared(0)).start()
    bench.broker.find_node = lambda unit: NODES[unit.number % 2]
    return bench


async def test_a_node_that_is_alone_hashes_nothing(hashed: list[int]) -> None:
    bench = await Bench(shards=SHARDS).start()
    steps = await found_in_steps(bench, keys(100, LONG), hashed)
    assert not any(steps)


@pytest.mark.parametrize(("count", "length"), [(20, LONG), (500, 1000), (2000, 200), (2000, 10)])
async def test_a_step_hashes_little(hashed: list[int], count: int, length: int) -> None:
    steps = await found_in_steps(await shared_bench(), keys(count, length), hashed)
    assert sum(map(len, steps)) == count
    assert max(map(sum, steps)) <= LONG + length
    assert max(map(len, steps)) <= 256
    assert len(steps) <= 2 + count * (length + 128) // LONG, "no more steps than needed"


async def test_keys_that_come_again_count_as_well(hashed: list[int]) -> None:
    steps = await found_in_steps(await shared_bench(), keys(1, LONG) * 100, hashed)
    assert len(steps) > 50
    assert [some for some in steps if some] == [[LONG]]


@pytest.mark.parametrize(
    ("request_", "hashed_by_group"),
    [
        (DescribeGroupsRequest(keys(20, LONG)), 1),
        (ConsumerGroupDescribeRequest(keys(20, LONG)), 1),
        (DeleteGroupsRequest(keys(20, LONG)), 1),
        (OffsetFetchRequest(tuple(OffsetFetchGroup(id_, None) for id_ in keys(20, LONG))), 3),
        (OffsetFetchRequest(tuple(OffsetFetchGroup(id_, ()) for id_ in keys(20, LONG))), 1),
    ],
)
async def test_groups_with_long_ids_have_a_step_each(
    hashed: list[int], request_: Any, hashed_by_group: int
) -> None:
    bench = await Bench(shards=SHARDS).start()
    _, steps = await in_steps(bench, request_, hashed)
    assert [some for some in steps if some] == [[LONG] * hashed_by_group] * 20
