"""Idempotent producers: duplicates, gaps, epochs, what is remembered across a reload."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.producers import producer_state
from groupd.coordinator.producers.producer_state import ProducerStates, last_sequence
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.records.batch import parse_header
from groupd.protocol.records.batch_builder import encode_batch


@pytest.fixture
async def send(cluster):
    await cluster.create("t")

    async def send(sequence, *values, producer=1, epoch=0, fresh=False):
        values = values or (b"v",)
        result = await cluster.produce(
            "t", cluster.batch(*values, sequence=sequence, producer=producer, epoch=epoch)
        )
        return result.error, result.base_offset

    return send


OUT_OF_ORDER = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)


async def test_a_duplicate_gets_the_first_offset(send, cluster):
    assert await send(0, b"a", b"b") == (ErrorCode.NONE, 0)
    assert await send(2, b"c") == (ErrorCode.NONE, 2)
    assert await send(0, b"a", b"b") == (ErrorCode.NONE, 0)
    assert await send(2, b"c") == (ErrorCode.NONE, 2)
    assert (await cluster.fetch("t")).high_watermark == 3


async def test_only_five_batches_are_remembered(send):
    for sequence in range(6):
        await send(sequence)
    assert await send(1) == (ErrorCode.NONE, 1)
    assert await send(0) == OUT_OF_ORDER


async def test_gaps_are_out_of_order(send):
    await send(0)
    assert await send(2) == OUT_OF_ORDER
    assert await send(1) == (ErrorCode.NONE, 1)


async def test_an_unknown_producer_may_start_anywhere(send):
    assert await send(17) == (ErrorCode.NONE, 0)
    assert await send(18) == (ErrorCode.NONE, 1)


async def test_a_new_epoch_starts_at_zero_and_fences_the_old(send):
    await send(0)
    assert await send(1, epoch=1) == OUT_OF_ORDER
    assert await send(0, epoch=1) == (ErrorCode.NONE, 1)
    assert await send(1, epoch=0) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert await send(0, epoch=0) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)


async def test_producers_do_not_disturb_each_other(send):
    await send(0, producer=1)
    assert await send(0, producer=2) == (ErrorCode.NONE, 1)
    assert await send(1, producer=1) == (ErrorCode.NONE, 2)


async def test_sequences_wrap(send):
    assert last_sequence(2**31 - 1, 2) == 0
    await send(2**31 - 2, b"a", b"b")
    assert await send(0) == (ErrorCode.NONE, 2)


async def test_a_duplicate_waits_for_the_first_append(send, cluster):
    await send(0)
    cluster.store.hold_appends()
    first = asyncio.create_task(send(1))
    await cluster.settle()
    retry = asyncio.create_task(send(1))
    await cluster.settle()
    assert (first.done(), retry.done()) == (False, False)
    cluster.store.release_appends()
    assert await asyncio.gather(first, retry) == [(ErrorCode.NONE, 1)] * 2


async def test_a_duplicate_of_a_failed_append_fails(send, cluster):
    await send(0)
    cluster.store.hold_appends()
    first = asyncio.create_task(send(1))
    await cluster.settle()
    retry = asyncio.create_task(send(1))
    await cluster.settle()
    cluster.store.fail_next_append()
    cluster.store.release_appends()
    assert (await first)[0] == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await retry)[0] == ErrorCode.REQUEST_TIMED_OUT
    assert await send(1) == (ErrorCode.NONE, 1)


async def test_state_survives_a_restart(send, cluster):
    await send(0)
    await send(1, b"a", b"b")
    await cluster.restart()
    assert await send(1, b"a", b"b") == (ErrorCode.NONE, 1)
    assert await send(4) == OUT_OF_ORDER
    assert await send(3) == (ErrorCode.NONE, 3)


async def test_a_duplicate_under_log_append_time_has_the_first_time(cluster):
    await cluster.create("t", message_timestamp_type="LogAppendTime")
    payload = cluster.batch(producer=1, epoch=0)
    first = await cluster.produce("t", payload)
    cluster.clock.advance(1000)
    again = await cluster.produce("t", payload)
    assert again.log_append_time_ms == first.log_append_time_ms == cluster.START_MS


def test_the_oldest_producers_are_forgotten(monkeypatch):
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 2)
    states = ProducerStates()

    def header(producer, sequence):
        return parse_header(encode_batch(0, 0, 0, [(None, b"")], producer, 0, sequence))

    for producer in (1, 2, 1, 3):
        states.appended(header(producer, 5), 0)
    assert states.count == 2
    with pytest.raises(ApiError):
        states.check(header(1, 9))
    assert states.check(header(2, 9)) is None
