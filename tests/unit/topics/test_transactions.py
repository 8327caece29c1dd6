"""Transactional produce and markers: what readers see, who is asked, who is refused."""

from __future__ import annotations

import asyncio

import pytest

from groupd.coordinator.core.types import Operation, Resource
from groupd.coordinator.producers.producer_state import ProducerStates
from groupd.coordinator.topics.fetch_reading import read_log
from groupd.coordinator.topics.partition import PartitionLog
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.data import (
    READ_COMMITTED,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from groupd.protocol.messages.producers import (
    ActiveProducer,
    DescribeProducersRequest,
    DescribeProducersTopic,
    MarkerTopic,
    WritableMarker,
    WriteTxnMarkersRequest,
)
from groupd.protocol.records.batch import is_transactional, iter_batches, iter_records, parse_header
from groupd.protocol.records.batch_builder import encode_batch, encode_marker
from groupd.storage.log import Append
from groupd.storage.memory import MemoryStore

OK = ErrorCode.NONE
EPOCH = ErrorCode.INVALID_PRODUCER_EPOCH
TX_STATE = ErrorCode.INVALID_TXN_STATE


@pytest.fixture
async def topic(cluster):
    await cluster.create("t")
    return cluster


async def committed(cluster, offset=0, **fields):
    return await cluster.fetch("t", offset, isolation_level=READ_COMMITTED, **fields)


def values(fetched):
    return [
        record.value
        for batch in iter_batches(fetched.records)
        if not batch.header.is_control
        for record in iter_records(batch)
    ]


# What readers see ---------------------------------------------------------------------------


async def test_an_open_transaction_is_not_for_committed_readers(topic):
    await topic.produce("t", topic.batch(b"plain"))
    assert await topic.send("t", b"a", b"b") == (OK, 1)
    await topic.produce("t", topic.batch(b"behind"))
    fetched = await committed(topic)
    assert (fetched.high_watermark, fetched.last_stable_offset) == (4, 1)
    assert (values(fetched), fetched.aborted) == ([b"plain"], ())
    everything = await topic.fetch("t")
    assert (everything.high_watermark, everything.last_stable_offset) == (4, 1)
    assert (values(everything), everything.aborted) == ([b"plain", b"a", b"b", b"behind"], None)
    assert (await committed(topic, 1)).records == b""
    assert (await committed(topic, 4)).error == OK
    assert (await committed(topic, 5)).error == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_commit_and_abort(topic):
    await topic.send("t", b"a")
    assert await topic.end("t", commit=True) == OK
    fetched = await committed(topic)
    assert (fetched.last_stable_offset, values(fetched), fetched.aborted) == (2, [b"a"], ())
    await topic.send("t", b"b", sequence=1)
    assert await topic.end("t", commit=False) == OK
    fetched = await committed(topic)
    assert (fetched.last_stable_offset, fetched.aborted) == (4, ((7, 2),))
    assert values(fetched) == [b"a", b"b"]  # the reader leaves out what is aborted
    assert (await committed(topic, 4)).aborted == ()
    # The range of what is given out counts.
    first_only = await committed(topic, partition_max_bytes=1)
    assert (values(first_only), first_only.aborted) == ([b"a"], ())


async def test_the_oldest_transaction_holds_back_the_younger(topic):
    await topic.send("t", b"a", producer=1)
    await topic.send("t", b"b", producer=2)
    await topic.end("t", commit=True, producer=2)
    assert (await committed(topic)).last_stable_offset == 0
    await topic.end("t", commit=False, producer=1)
    fetched = await committed(topic)
    assert (fetched.last_stable_offset, fetched.aborted) == (4, ((1, 0),))


async def test_a_marker_that_is_not_durable_decides_nothing(topic):
    await topic.send("t", b"a")
    topic.store.hold_appends()
    ending = asyncio.create_task(topic.end("t", commit=True))
    await topic.settle()
    assert (await committed(topic)).last_stable_offset == 0
    topic.store.release_appends()
    assert await ending == OK
    assert (await committed(topic)).last_stable_offset == 2


async def test_a_committed_reader_wakes_when_the_transaction_ends(topic):
    await topic.send("t", b"a")
    reading = asyncio.create_task(committed(topic, max_wait_ms=1000))
    await topic.settle()
    await topic.send("t", b"b", sequence=1)
    await topic.settle()
    assert not reading.done()
    await topic.end("t", commit=True)
    assert values(await reading) == [b"a", b"b"]


async def test_the_tail_is_cut_at_the_last_stable_offset(topic):
    for number in range(3):
        await topic.produce("t", topic.batch(b"%d" % number))
    await topic.send("t", b"open")
    await topic.produce("t", topic.batch(b"behind"))
    assert values(await committed(topic, 1)) == [b"1", b"2"]
    await topic.restart()
    assert values(await committed(topic, 1)) == [b"1", b"2"]


@pytest.mark.parametrize(("timestamp", "expected"), [(-1, 1), (-2, 0)])
async def test_list_offsets_of_committed_readers(topic, timestamp, expected):
    await topic.produce("t", topic.batch(b"plain"))
    await topic.send("t", b"a")
    asked = ListOffsetsTopic("t", (ListOffsetsPartition(0, timestamp),))
    reply = await topic.ask(ListOffsetsRequest((asked,), READ_COMMITTED))
    assert reply.topics[0].partitions[0].offset == expected


async def test_a_time_behind_the_last_stable_offset_is_not_found(topic):
    await topic.send("t", b"a")
    asked = ListOffsetsTopic("t", (ListOffsetsPartition(0, topic.START_MS),))
    for isolation_level, expected in ((READ_COMMITTED, -1), (0, 0)):
        reply = await topic.ask(ListOffsetsRequest((asked,), isolation_level))
        assert reply.topics[0].partitions[0].offset == expected


# Restart and deletion -----------------------------------------------------------------------


async def test_transactions_survive_a_restart(topic):
    await topic.send("t", b"a")
    await topic.end("t", commit=False)
    await topic.send("t", b"b", producer=8)
    await topic.restart()
    fetched = await committed(topic)
    assert (fetched.last_stable_offset, fetched.aborted) == (2, ((7, 0),))
    # Open still: no question, and the first offset is the old one.
    assert await topic.send("t", b"c", producer=8, sequence=1) == (OK, 3)
    assert len(topic.verifier.asked) == 2
    assert (await committed(topic)).last_stable_offset == 2
    await topic.end("t", commit=True, producer=8)
    assert (await committed(topic)).last_stable_offset == 5


async def test_fencing_survives_a_restart(topic):
    await topic.send("t", b"a")
    await topic.end("t", commit=False, epoch=1, coordinator_epoch=4, version=2)
    await topic.restart()
    assert await topic.send("t", b"b", sequence=1) == (EPOCH, -1)
    late = {"commit": True, "epoch": 2, "coordinator_epoch": 3, "version": 2}
    assert await topic.end("t", **late) == ErrorCode.TRANSACTION_COORDINATOR_FENCED


async def delete_before(cluster, offset):
    request = DeleteRecordsRequest((DeleteRecordsTopic("t", ((0, offset),)),))
    (result,) = (await cluster.ask(request)).topics[0].partitions
    return result.error, result.low_watermark


async def test_deleted_records_take_their_aborted_transactions_along(topic):
    for sequence in (0, 1):
        await topic.send("t", b"a", sequence=sequence)
        await topic.end("t", commit=False)
    assert (await committed(topic)).aborted == ((7, 0), (7, 2))
    assert await delete_before(topic, 2) == (OK, 2)
    assert (await committed(topic, 2)).aborted == ((7, 2),)
    assert await delete_before(topic, 3) == (OK, 3)
    # Its marker is left: the transaction is still one that was aborted.
    assert (await committed(topic, 3)).aborted == ((7, 2),)
    await topic.restart()
    assert (await committed(topic, 3)).aborted == ()
    assert values(await committed(topic, 3)) == []


async def test_records_that_are_deleted_while_they_are_read(topic, monkeypatch):
    """What is known of aborted transactions is gone with them."""
    await topic.send("t", b"a")
    await topic.end("t", commit=False)
    log = await topic.plane.partitions.open(topic.plane.catalogue.topic("t"), 0)
    read = PartitionLog.read

    async def deleted_meanwhile(self, *args, **options):
        found = await read(self, *args, **options)
        assert await delete_before(topic, 1) == (OK, 1)
        return found

    monkeypatch.setattr(PartitionLog, "read", deleted_meanwhile)
    with pytest.raises(ApiError) as refused:
        await read_log(log, 0, 1000, READ_COMMITTED, whole_first=True)
    assert refused.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_an_open_transaction_whose_beginning_is_deleted(topic):
    await topic.send("t", b"a")
    await topic.send("t", b"b", sequence=1)
    assert await delete_before(topic, 1) == (OK, 1)
    assert (await committed(topic, 1)).last_stable_offset == 1
    await topic.end("t", commit=True)
    assert (await committed(topic, 1)).last_stable_offset == 3


# Who may ------------------------------------------------------------------------------------


async def test_transactional_records_need_a_transactional_id_and_its_right(topic):
    batch = topic.batch(producer=7, epoch=0, transactional=True)

    def denied(operation, resource, name):
        return (operation, resource, name) != (Operation.WRITE, Resource.TRANSACTIONAL_ID, "tx")

    for fields, rights in (({}, {}), ({"transactional_id": "tx"}, {"allows": denied})):
        with pytest.raises(ApiError) as refused:
            await topic.ask(topic.produce_request("t", 0, batch, **fields), **rights)
        assert refused.value.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    plain = topic.produce_request("t", 0, topic.batch(), transactional_id="tx")
    reply = await topic.ask(plain, allows=denied)
    assert reply.topics[0].partitions[0].error == OK


async def test_one_request_is_of_one_producer(cluster):
    await cluster.create("t", 2)
    parts = tuple(
        ProducePartition(at, cluster.batch(producer=at, epoch=0, transactional=True))
        for at in (0, 1)
    )
    request = ProduceRequest((ProduceTopic("t", bytes(16), parts),), transactional_id="tx")
    with pytest.raises(ApiError) as refused:
        await cluster.ask(request)
    assert refused.value.code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


async def test_a_transactional_batch_needs_a_producer_id(topic):
    assert await topic.send("t", b"a", producer=-1, epoch=-1) == (ErrorCode.INVALID_RECORD, -1)


async def test_plain_records_do_not_get_into_a_transaction(topic):
    await topic.send("t", b"a")
    plain = await topic.produce("t", topic.batch(producer=7, epoch=0, sequence=1))
    assert plain.error == TX_STATE


# Verification -------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "add"), [(11, False), (12, True)])
async def test_the_coordinator_is_asked_once_per_transaction(topic, version, add):
    await topic.send("t", b"a", version=version)
    await topic.send("t", b"b", sequence=1, version=version)
    question = ("tx", 7, 0, (("t", 0),), add)
    assert topic.verifier.asked == [question]
    await topic.end("t", commit=True)
    await topic.send("t", b"c", sequence=2, version=version)
    assert topic.verifier.asked == [question, question]
    assert (await committed(topic)).last_stable_offset == 3


ANSWERS = [
    (ErrorCode.TRANSACTION_ABORTABLE, 10, TX_STATE),
    (ErrorCode.TRANSACTION_ABORTABLE, 11, ErrorCode.TRANSACTION_ABORTABLE),
    (ErrorCode.TRANSACTION_ABORTABLE, 12, ErrorCode.TRANSACTION_ABORTABLE),
    (TX_STATE, 11, TX_STATE),
    (EPOCH, 12, EPOCH),
    (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 12, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.COORDINATOR_NOT_AVAILABLE, 9, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.NOT_COORDINATOR, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.NETWORK_EXCEPTION, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.CONCURRENT_TRANSACTIONS, 12, ErrorCode.CONCURRENT_TRANSACTIONS),
]


@pytest.mark.parametrize(("answer", "version", "shown"), ANSWERS)
async def test_refusals_as_producers_understand_them(topic, answer, version, shown):
    topic.verifier.answers = [answer]
    assert await topic.send("t", b"a", version=version) == (shown, -1)
    assert (await topic.fetch("t")).high_watermark == 0
    assert await topic.send("t", b"a", version=version) == (OK, 0)


async def test_a_marker_overtakes_the_verification(topic):
    topic.verifier.hold()
    sending = asyncio.create_task(topic.send("t", b"a", version=11))
    await topic.settle()
    assert await topic.end("t", commit=False) == OK
    topic.verifier.answered.set()
    assert await sending == (TX_STATE, -1)


async def test_a_marker_with_a_new_epoch_overtakes_the_verification(topic):
    topic.verifier.hold()
    sending = asyncio.create_task(topic.send("t", b"a"))
    await topic.settle()
    assert await topic.end("t", commit=False, epoch=1, version=2) == OK
    topic.verifier.answered.set()
    assert await sending == (EPOCH, -1)


async def test_the_next_transaction_asks_before_the_marker_of_the_last(topic):
    """Version 2: the marker's epoch is that of the next transaction, which may be faster."""
    await topic.send("t", b"a")
    topic.verifier.hold()
    sending = asyncio.create_task(topic.send("t", b"b", epoch=1))
    await topic.settle()
    assert await topic.end("t", commit=True, epoch=1, version=2) == OK
    topic.verifier.answered.set()
    assert await sending == (OK, 2)
    assert (await committed(topic)).last_stable_offset == 2


async def test_pipelined_batches_keep_their_order_behind_a_verification(topic):
    topic.verifier.hold()
    first = asyncio.create_task(topic.send("t", b"a"))
    second = asyncio.create_task(topic.send("t", b"b", sequence=1))
    await topic.settle()
    # Nobody else waits for it.
    assert (await topic.produce("t", topic.batch(b"plain"))).base_offset == 0
    topic.verifier.answered.set()
    assert await asyncio.gather(first, second) == [(OK, 1), (OK, 2)]
    assert len(topic.verifier.asked) == 1


async def test_a_later_batch_does_not_overtake_one_that_must_be_sent_again(topic):
    topic.verifier.answers = [ErrorCode.NOT_COORDINATOR]
    assert await topic.send("t", b"a", version=11) == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
    out_of_order = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert await topic.send("t", b"b", sequence=1, version=11) == out_of_order
    assert await topic.send("t", b"a", version=11) == (OK, 0)
    assert await topic.send("t", b"b", sequence=1, version=11) == (OK, 1)


async def test_version_2_begins_every_transaction_at_sequence_0(topic):
    out_of_order = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert await topic.send("t", b"a", sequence=3) == out_of_order
    assert await topic.send("t", b"a", sequence=0) == (OK, 0)
    await topic.end("t", commit=True, epoch=1, version=2)
    assert await topic.send("t", b"b", epoch=1, sequence=1) == out_of_order
    assert await topic.send("t", b"b", epoch=1, sequence=0) == (OK, 2)


async def test_version_1_goes_on_with_its_sequences(topic):
    await topic.send("t", b"a", version=11)
    await topic.end("t", commit=True)
    assert await topic.send("t", b"b", sequence=1, version=11) == (OK, 2)


async def test_a_duplicate_is_answered_with_the_first_offset(topic):
    await topic.send("t", b"a")
    assert await topic.send("t", b"a") == (OK, 0)


async def test_verification_may_be_off(make_cluster):
    cluster = await make_cluster(
        MemoryStore(), transaction_partition_verification_enable=False
    ).start()
    await cluster.create("t")
    assert await cluster.send("t", b"a", version=11) == (OK, 0)
    assert cluster.verifier.asked == []
    await cluster.end("t", commit=True)
    # Version 2 asks in any case: the question adds the partition.
    assert await cluster.send("t", b"b", sequence=1, version=12) == (OK, 2)
    assert len(cluster.verifier.asked) == 1
    await cluster.stop()


async def test_a_partition_that_is_opened_anew_meanwhile_is_tried_again(topic):
    topic.verifier.hold()
    sending = asyncio.create_task(topic.send("t", b"a"))
    await topic.settle()
    topic.store.fail_next_append()
    assert (await topic.produce("t", topic.batch())).error == ErrorCode.KAFKA_STORAGE_ERROR
    topic.verifier.answered.set()
    assert await sending == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
    assert await topic.send("t", b"a") == (OK, 0)


# Markers ------------------------------------------------------------------------------------


async def test_markers_of_version_1(topic):
    await topic.send("t", b"a", epoch=3)
    assert await topic.end("t", commit=True, epoch=2) == EPOCH
    assert (await committed(topic)).last_stable_offset == 0
    assert await topic.end("t", commit=True, epoch=3, coordinator_epoch=5) == OK
    assert await topic.end("t", commit=True, epoch=3, coordinator_epoch=5) == OK
    fenced = await topic.end("t", commit=True, epoch=3, coordinator_epoch=4)
    assert fenced == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert (await committed(topic)).last_stable_offset == 3


async def test_markers_of_version_2(topic):
    await topic.send("t", b"a", epoch=3)
    assert await topic.end("t", commit=True, epoch=3, version=2) == EPOCH
    assert (await committed(topic)).last_stable_offset == 0
    assert await topic.end("t", commit=True, epoch=4, version=2) == OK
    # The same again is a retry, unless the next transaction has begun.
    assert await topic.end("t", commit=True, epoch=4, version=2) == OK
    assert await topic.send("t", b"b", epoch=4) == (OK, 3)
    assert await topic.end("t", commit=False, epoch=4, version=2) == EPOCH
    assert await topic.send("t", b"zombie", epoch=3, sequence=1) == (EPOCH, -1)


async def test_the_last_epoch_of_all_can_be_ended(topic):
    await topic.send("t", b"a", epoch=32767)
    assert await topic.end("t", commit=False, epoch=32767, version=2) == OK


async def test_a_marker_for_a_producer_that_never_wrote(topic):
    assert await topic.end("t", commit=False) == OK
    fetched = await committed(topic)
    assert (fetched.last_stable_offset, fetched.aborted) == (1, ())


async def test_markers_for_what_does_not_exist(topic):
    assert await topic.end("no", commit=True) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    missing = await topic.end("t", commit=True, partition=1)
    assert missing == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    offsets = await topic.end("__consumer_offsets", commit=True)
    assert offsets == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_a_marker_that_cannot_be_written_is_not_there(topic):
    await topic.send("t", b"a")
    topic.store.fail_next_append()
    assert await topic.end("t", commit=True) == ErrorCode.KAFKA_STORAGE_ERROR
    assert (await committed(topic)).last_stable_offset == 0
    assert await topic.end("t", commit=True) == OK
    assert (await committed(topic)).last_stable_offset == 2


async def test_the_bytes_of_a_marker(topic):
    await topic.send("t", b"a", producer=1000)
    await topic.end("t", commit=True, producer=1000, coordinator_epoch=3)
    (_, marker) = iter_batches((await topic.fetch("t")).records)
    expected = bytes.fromhex(
        "0000000000000001 00000042 00000000 02 954be106 0030 00000000"
        "0000018bcfe56800 0000018bcfe56800 00000000000003e8 0000 ffffffff 00000001"
        "20 00 00 00 08 00000001 0c 000000000003 00"
    )
    assert marker.payload == expected


def markers_request(*topics, **fields):
    return WriteTxnMarkersRequest((WritableMarker(7, 0, True, topics, 0, **fields),))


async def test_write_txn_markers(topic):
    await topic.send("t", b"a")
    reply = await topic.ask(markers_request(MarkerTopic("t", (0, 1)), MarkerTopic("no", (0,))))
    (marker,) = reply.markers
    assert marker.producer_id == 7
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    found = {
        (topic.name, partition): code
        for topic in marker.topics
        for partition, code in topic.partitions
    }
    assert found == {("t", 0): OK, ("t", 1): unknown, ("no", 0): unknown}
    assert (await committed(topic)).last_stable_offset == 2
    stale = await topic.ask(markers_request(MarkerTopic("t", (0,)), transaction_version=2))
    assert stale.markers[0].topics[0].partitions == ((0, OK),)  # nothing is open: a retry
    assert (await topic.ask(WriteTxnMarkersRequest(()))).markers == ()


async def test_write_txn_markers_needs_rights(topic):
    for allowed in (Operation.ALTER, Operation.CLUSTER_ACTION):
        await topic.ask(markers_request(), allows=lambda operation, *_, a=allowed: operation == a)
    with pytest.raises(ApiError) as refused:
        await topic.ask(markers_request(), allows=lambda *_: False)
    assert refused.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


# Producers ----------------------------------------------------------------------------------


async def describe(cluster, name="t", partition=0, **rights):
    request = DescribeProducersRequest((DescribeProducersTopic(name, (partition,)),))
    return (await cluster.ask(request, **rights)).topics[0].partitions[0]


async def test_describe_producers(topic):
    await topic.send("t", b"a", b"b", producer=9, epoch=1)
    await topic.produce("t", topic.batch(b"c", producer=8, epoch=0))
    await topic.send("t", b"d", producer=7)
    await topic.end("t", commit=True, coordinator_epoch=4)
    now = topic.START_MS
    expected = (
        ActiveProducer(7, 0, 0, now, 4, -1),
        ActiveProducer(8, 0, 0, now, -1, -1),
        ActiveProducer(9, 1, 1, now, -1, 0),
    )
    assert (await describe(topic)).producers == expected
    await topic.restart()
    assert (await describe(topic)).producers == expected


async def test_describe_producers_refuses(topic):
    assert (await describe(topic, "no")).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await describe(topic, "t", 1)).error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await describe(topic, "?")).error == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert (await describe(topic, "__consumer_offsets")).error == ErrorCode.NOT_LEADER_OR_FOLLOWER
    denied = await describe(topic, allows=lambda operation, *_: operation != Operation.READ)
    assert denied.error == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_the_header_says_what_is_transactional() -> None:
    plain = encode_batch(0, -1, 0, [(None, b"v")])
    inside = encode_batch(0, -1, 0, [(None, b"v")], 7, 0, 0, transactional=True)
    assert not is_transactional(plain)
    assert is_transactional(inside)
    assert parse_header(inside).is_transactional
    assert not is_transactional(inside[:60])
    assert not is_transactional(inside[:16] + b"\1" + inside[17:])
    assert not is_transactional(inside[:8] + b"\xff" + inside[9:])


# The offsets topic --------------------------------------------------------------------------


async def test_the_offsets_topic_has_isolation_levels_too(cluster):
    state = await cluster.store.open("__consumer_offsets-0")
    producers = ProducerStates()
    batches = [
        encode_batch(0, 0, 0, [(b"k", b"plain")]),
        encode_batch(1, 0, 0, [(b"k", b"dropped")], 7, 0, 0, transactional=True),
        encode_marker(2, 0, 0, 7, 0, 0, commit=False),
        encode_batch(3, 0, 0, [(b"k", b"open")], 8, 0, 0, transactional=True),
    ]
    for at, payload in enumerate(batches):
        await cluster.store.append([Append(state.name, state.owner_epoch, at, at, 0, payload)])
        producers.replay(payload, parse_header(payload))
    producers.transactions.durable(4)
    cluster.shards.transactions[0] = producers
    cluster.shards.set(0, 0, 4)
    fetched = await cluster.fetch("__consumer_offsets", isolation_level=READ_COMMITTED)
    assert (fetched.high_watermark, fetched.last_stable_offset) == (4, 3)
    assert (fetched.aborted, values(fetched)) == (((7, 1),), [b"plain", b"dropped"])
    everything = await cluster.fetch("__consumer_offsets")
    assert (everything.aborted, len(values(everything))) == (None, 3)
    described = await describe(cluster, "__consumer_offsets")
    assert [(one.producer_id, one.transaction_offset) for one in described.producers] == [
        (7, -1),
        (8, 3),
    ]
    asked = ListOffsetsTopic("__consumer_offsets", (ListOffsetsPartition(0, -1),))
    reply = await cluster.ask(ListOffsetsRequest((asked,), READ_COMMITTED))
    assert reply.topics[0].partitions[0].offset == 3
