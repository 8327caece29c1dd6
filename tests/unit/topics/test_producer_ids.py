"""InitProducerId: blocks, claims, what is refused."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.topics import producer_ids
from groupd.coordinator.topics.producer_ids import BLOCK_SIZE, ProducerIds
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.data import InitProducerIdRequest
from tests.support.access import ByRule, allow_all


async def init(cluster, producer_id=-1, epoch=-1, allows=allow_all):
    request = InitProducerIdRequest(None, producer_id=producer_id, producer_epoch=epoch)
    reply = await cluster.plane.producer_ids.init(
        RequestContext(0, 5, access=ByRule(allows)), request
    )
    return reply.error, reply.producer_id, reply.producer_epoch


async def test_ids_are_given_once(cluster):
    given = await asyncio.gather(*(init(cluster) for _ in range(5)))
    assert sorted(producer_id for _, producer_id, _ in given) == [0, 1, 2, 3, 4]
    assert {(error, epoch) for error, _, epoch in given} == {(ErrorCode.NONE, 0)}


async def test_a_restart_skips_the_rest_of_the_block(cluster):
    await init(cluster)
    await cluster.restart()
    assert await init(cluster) == (ErrorCode.NONE, BLOCK_SIZE, 0)


async def test_blocks_follow_each_other(cluster, monkeypatch):
    monkeypatch.setattr(producer_ids, "BLOCK_SIZE", 2)
    ids = ProducerIds(cluster.store)
    assert [await ids.next() for _ in range(2)] == [0, 1]
    other = ProducerIds(cluster.store)
    assert await other.next() == 2
    assert await ids.next() == 4


@pytest.mark.parametrize("claim", [(0, 0), (0, 1), (1, 0), (500, 3), (0, 2**15 - 1), (-2, -2)])
async def test_what_a_producer_says_of_itself_is_not_believed(cluster, claim):
    assert await init(cluster) == (ErrorCode.NONE, 0, 0)
    assert await init(cluster, *claim) == (ErrorCode.NONE, 1, 0)
    await cluster.restart()
    assert await init(cluster, *claim) == (ErrorCode.NONE, BLOCK_SIZE, 0)


@pytest.mark.parametrize(("producer_id", "epoch"), [(1, -1), (-1, 1)])
async def test_half_an_identity(cluster, producer_id, epoch):
    assert await init(cluster, producer_id, epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


async def test_rights(cluster):
    refused = await init(cluster, allows=lambda *_: False)
    assert refused == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, -1, -1)


async def test_a_failing_store(cluster):
    await cluster.store.close()
    assert (await init(cluster))[0] == ErrorCode.COORDINATOR_NOT_AVAILABLE
