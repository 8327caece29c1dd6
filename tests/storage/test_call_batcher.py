"""Questions that are answered together, and logs that are opened so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from groupd.storage.call_batcher import CallBatcher
from groupd.storage.log import LogFenced, LogUnavailable
from groupd.storage.postgres_cluster import ClusterStore, cluster_store
from groupd.storage.units import GROUPS, OwnedUnit, Unit
from tests.support.postgres import PostgresServer


async def test_what_comes_meanwhile_is_answered_together() -> None:
    asked: list[list[int]] = []
    turn = asyncio.Event()

    async def answer(questions: Sequence[int]) -> list[int | Exception]:
        asked.append(list(questions))
        await turn.wait()
        return [ValueError("odd") if one % 2 else one * 10 for one in questions]

    together: CallBatcher[int, int] = CallBatcher(answer)
    calls = [asyncio.ensure_future(together.ask(one)) for one in range(5)]
    await asyncio.sleep(0)
    late = [asyncio.ensure_future(together.ask(one)) for one in (6, 8)]
    await asyncio.sleep(0)
    calls[2].cancel()
    turn.set()
    results = await asyncio.gather(*calls, *late, return_exceptions=True)
    assert asked == [[0], [1, 2, 3, 4, 6, 8]], "the first one at once"
    assert [results[0], results[4], results[5], results[6]] == [0, 40, 60, 80]
    assert isinstance(results[1], ValueError)
    assert isinstance(results[2], asyncio.CancelledError)
    assert await together.ask(2) == 20, "it goes on"


async def test_a_failure_is_everybodys() -> None:
    async def answer(questions: Sequence[int]) -> list[int | Exception]:
        raise LogUnavailable("away")

    together: CallBatcher[int, int] = CallBatcher(answer)
    results = await asyncio.gather(together.ask(1), together.ask(2), return_exceptions=True)
    assert [type(one) for one in results] == [LogUnavailable] * 2


async def test_one_unit_of_another_node_keeps_no_other_closed(postgres: PostgresServer) -> None:
    store: ClusterStore = cluster_store(postgres.url(postgres.emptied_database()))
    await store.start()
    opened = await asyncio.gather(
        store.open("a"),
        store.open("b", OwnedUnit(Unit(GROUPS, 0), 1)),
        store.open("c"),
        return_exceptions=True,
    )
    await store.close()
    first, second, third = opened
    assert not isinstance(first, BaseException)
    assert isinstance(second, LogFenced)
    assert not isinstance(third, BaseException)
    with pytest.raises(LogUnavailable):
        await store.open("d")
