"""The transaction APIs from outside: rights, versions, what is refused before the coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from groupd.coordinator.core.types import Operation, Resource
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import InitProducerIdReply, InitProducerIdRequest
from groupd.protocol.messages.transactions import (
    AddOffsetsToTxnReply,
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsTransaction,
    DescribeTransactionsRequest,
    EndTxnReply,
    EndTxnRequest,
    ListTransactionsRequest,
    TxnTopic,
)
from tests.unit.transactions.harness import (
    CONCURRENT,
    FENCED,
    NONE,
    T0,
    Bench,
    settle,
)

DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
OLD_FENCED = ErrorCode.INVALID_PRODUCER_EPOCH
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
SKIPPED = ErrorCode.OPERATION_NOT_ATTEMPTED


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    made = await Bench().start()
    yield made
    await made.stop()


def all_but(*refused: tuple[Operation, Resource, str]) -> Callable[..., bool]:
    return lambda *asked: asked not in refused


NO_WRITE = all_but((Operation.WRITE, Resource.TRANSACTIONAL_ID, "x"))
NO_DESCRIBE = all_but((Operation.DESCRIBE, Resource.TRANSACTIONAL_ID, "x"))


def adding(*topics: TxnTopic, epoch: int = 0, **fields: Any) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(
        (AddPartitionsTransaction("x", 1000, epoch, topics or (TxnTopic("t", (0,)),), **fields),)
    )


def codes(reply: Any, index: int = 0) -> dict[tuple[str, int], ErrorCode]:
    return {
        (topic.name, partition): code
        for topic in reply.transactions[index].topics
        for partition, code in topic.partitions
    }


# Rights -------------------------------------------------------------------------------------


async def test_write_on_the_transactional_id(bench: Bench) -> None:
    await bench.begin(T0)
    ask = bench.ask
    assert await ask(InitProducerIdRequest("x", 1), 5, NO_WRITE) == InitProducerIdReply(DENIED)
    assert codes(await ask(adding(), 3, NO_WRITE)) == {T0: DENIED}
    asked = AddOffsetsToTxnRequest("x", 1000, 0, "g")
    assert await ask(asked, 4, NO_WRITE) == AddOffsetsToTxnReply(DENIED)
    assert await ask(EndTxnRequest("x", 1000, 0, True), 5, NO_WRITE) == EndTxnReply(DENIED)
    assert bench.state == "Ongoing"


async def test_read_on_the_group(bench: Bench) -> None:
    await bench.init()
    reply = await bench.ask(
        AddOffsetsToTxnRequest("x", 1000, 0, "g"),
        4,
        all_but((Operation.READ, Resource.GROUP, "g")),
    )
    assert reply.error is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert bench.state == "Empty"


async def test_describe_on_the_transactional_id(bench: Bench) -> None:
    await bench.begin(T0)
    await bench.init(name="y")
    asked = DescribeTransactionsRequest(("x", "y", "z", ""))
    reply = await bench.ask(asked, 0, NO_DESCRIBE)
    assert [(found.transactional_id, found.error) for found in reply.transactions] == [
        ("x", DENIED),
        ("y", NONE),
        ("z", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND),
        ("", ErrorCode.INVALID_REQUEST),
    ]
    listed = await bench.ask(ListTransactionsRequest(), 2, NO_DESCRIBE)
    assert [found.transactional_id for found in listed.transactions] == ["y"]


async def test_describe_shows_only_topics_that_may_be_seen(bench: Bench) -> None:
    await bench.begin(T0)
    no_topic = all_but((Operation.DESCRIBE, Resource.TOPIC, "t"))
    for allows, topics in ((no_topic, ()), (all_but(), (TxnTopic("t", (0,)),))):
        reply = await bench.ask(DescribeTransactionsRequest(("x",)), 0, allows)
        assert reply.transactions[0].topics == topics
        assert reply.transactions[0].error is NONE


async def test_only_brokers_send_batches(bench: Bench) -> None:
    no_cluster = all_but((Operation.CLUSTER_ACTION, Resource.CLUSTER, "kafka-cluster"))
    with pytest.raises(ApiError) as raised:
        await bench.ask(adding(), 4, no_cluster)
    assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    await bench.init()
    assert codes(await bench.ask(adding(), 3, no_cluster)) == {T0: NONE}


async def test_brokers_need_no_rights_on_topics_and_ids(bench: Bench) -> None:
    await bench.init()
    cluster_only = lambda *asked: asked[1] is Resource.CLUSTER  # noqa: E731
    assert codes(await bench.ask(adding(), 5, cluster_only)) == {T0: NONE}


# Partitions ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (TxnTopic("gone", (0,)), UNKNOWN),
        (TxnTopic("t", (99,)), UNKNOWN),
        (TxnTopic("__consumer_offsets", (0,)), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (TxnTopic("secret", (0,)), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
async def test_one_refused_partition_stops_all(
    bench: Bench, topic: TxnTopic, code: ErrorCode
) -> None:
    await bench.init()
    allows = all_but((Operation.WRITE, Resource.TOPIC, "secret"))
    reply = await bench.ask(adding(TxnTopic("t", (0,)), topic), 3, allows)
    assert codes(reply) == {T0: SKIPPED, (topic.name, topic.partitions[0]): code}
    assert bench.state == "Empty"


async def test_brokers_may_add_the_offsets_topic(bench: Bench) -> None:
    await bench.init()
    reply = await bench.ask(adding(TxnTopic("__consumer_offsets", (3,))), 5)
    assert codes(reply) == {("__consumer_offsets", 3): NONE}


async def test_offsets_are_added_as_the_groups_partition(bench: Bench) -> None:
    await bench.init()
    asked = AddOffsetsToTxnRequest("x", 1000, 0, "my-group")
    assert await bench.ask(asked, 4) == AddOffsetsToTxnReply()
    assert bench.shown().topics == (TxnTopic("__consumer_offsets", (12,)),)


async def test_a_batch_is_answered_by_transaction(bench: Bench) -> None:
    await bench.begin(T0)
    await bench.init(name="y")
    topics = (TxnTopic("t", (0, 1)),)
    reply = await bench.ask(
        AddPartitionsToTxnRequest(
            (
                AddPartitionsTransaction("x", 1000, 0, topics, verify_only=True),
                AddPartitionsTransaction("y", 1001, 0, topics),
                AddPartitionsTransaction("z", 1, 0, topics),
                AddPartitionsTransaction("x", 1000, 4, topics, verify_only=True),
            )
        ),
        5,
    )
    assert [found.transactional_id for found in reply.transactions] == ["x", "y", "z", "x"]
    abortable = ErrorCode.TRANSACTION_ABORTABLE
    assert codes(reply) == {("t", 0): NONE, ("t", 1): abortable}
    assert set(codes(reply, 1).values()) == {NONE}
    assert set(codes(reply, 2).values()) == {ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert set(codes(reply, 3).values()) == {FENCED}


# Versions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
async def test_init_names_fencing_as_the_version_knows_it(bench: Bench, version: int) -> None:
    await bench.init()
    asked = InitProducerIdRequest("x", 1000, 77, 0)
    code = FENCED if version >= 4 else OLD_FENCED
    assert await bench.ask(asked, version) == InitProducerIdReply(code)


@pytest.mark.parametrize("version", range(4))
async def test_add_names_fencing_as_the_version_knows_it(bench: Bench, version: int) -> None:
    await bench.init()
    code = FENCED if version >= 2 else OLD_FENCED
    assert codes(await bench.ask(adding(epoch=9), version)) == {T0: code}
    offsets = AddOffsetsToTxnRequest("x", 1000, 9, "g")
    assert await bench.ask(offsets, version) == AddOffsetsToTxnReply(code)


@pytest.mark.parametrize("version", range(6))
async def test_end_names_fencing_as_the_version_knows_it(bench: Bench, version: int) -> None:
    await bench.init()
    code = FENCED if version >= 2 else OLD_FENCED
    assert await bench.ask(EndTxnRequest("x", 1000, 9, True), version) == EndTxnReply(code)


@pytest.mark.parametrize("version", range(6))
async def test_end_v5_is_the_first_that_bumps_the_epoch(bench: Bench, version: int) -> None:
    await bench.begin(T0)
    reply = await bench.ask(EndTxnRequest("x", 1000, 0, True), version)
    assert reply == (EndTxnReply(NONE, 1000, 1) if version >= 5 else EndTxnReply())
    await settle()
    assert bench.shown().producer_epoch == int(version >= 5)


async def test_init_without_a_transactional_id_is_for_the_idempotent(bench: Bench) -> None:
    reply = await bench.ask(InitProducerIdRequest(None), 5)
    assert reply == InitProducerIdReply(producer_id=7, producer_epoch=0)


@pytest.mark.parametrize(("producer_id", "epoch"), [(5, -1), (-1, 5)])
async def test_half_an_identity(bench: Bench, producer_id: int, epoch: int) -> None:
    assert await bench.init(producer_id, epoch) == (ErrorCode.INVALID_REQUEST, -1, -1)


async def test_empty_names(bench: Bench) -> None:
    assert (await bench.init(name=""))[0] is ErrorCode.INVALID_REQUEST
    assert await bench.add(1, 0, T0, name="") is ErrorCode.INVALID_REQUEST
    assert (await bench.end(1, 0, True, name="")).error is ErrorCode.INVALID_REQUEST


async def test_a_bad_pattern_is_told(bench: Bench) -> None:
    with pytest.raises(ApiError) as raised:
        await bench.ask(ListTransactionsRequest(pattern="("), 2)
    assert raised.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_two_producers_that_begin_at_once(bench: Bench) -> None:
    """Both get an answer; one of them is told to try again."""
    first, second = await asyncio.gather(bench.init(), bench.init())
    assert sorted([first, second], key=lambda found: found[0]) == [
        (NONE, 1000, 0),
        (CONCURRENT, -1, -1),
    ]
