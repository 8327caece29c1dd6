"""The same as `test_turns_of_the_loop`, for requests about topics, records, configs and
transactions: none keeps the event loop to itself, however long its arrays are and however much
there is to tell.

Counted are the Python calls between two turns of the loop, never time. The table has a row for
every array of every request: a new one without a row fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from groupd.coordinator.daemon.parts import DaemonParts
from groupd.coordinator.security.acl_requests import CHANGES_MAX
from groupd.coordinator.security.acls import AclIndex
from groupd.coordinator.share_state.machine import BATCHES_MAX
from groupd.coordinator.topics.requests import data_routes
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages import data as d
from groupd.protocol.messages import delegation_tokens as k
from groupd.protocol.messages import producers as p
from groupd.protocol.messages import quotas as q
from groupd.protocol.messages import replicas as r
from groupd.protocol.messages import share_fetch as sf
from groupd.protocol.messages import share_state as ss
from groupd.protocol.messages import topics as t
from groupd.protocol.messages import transactions as x
from groupd.protocol.messages import users as u
from groupd.protocol.messages.acls import (
    AclBinding,
    AclFilter,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
)
from groupd.protocol.messages.cluster import DescribeTopicPartitionsRequest, MetadataRequest
from groupd.protocol.messages.quorum import (
    DescribeQuorumRequest,
    FeatureUpdate,
    UpdateFeaturesRequest,
)
from groupd.protocol.messages.secret import Secret
from groupd.protocol.records.batch_builder import encode_batch
from tests.support.loop_turns import Turns, arrays, without_log
from tests.unit.server.served import APIS, IDS, ITEMS, NUMBERS, TOPICS, asker_of, served

CALLS = 10_000
"""The most calls in one turn, some milliseconds."""

AFTER = 500
"""So many turns are counted after the reply."""

SHARE_BATCH_CALLS = 3
"""The short calls for each batch of a share-partition's state, which are written in one turn."""

RECORDS = 2000
"""Records of a share-partition in flight."""
RECORD_CALLS = 25
"""The short calls for each of them that has an acknowledgement of its own. They are all applied in
one turn, because they count together or not at all."""

SOME = tuple(range(2000))
"""The items of requests that ask the store for each of them in turn."""

BATCH = encode_batch(0, -1, 1_700_000_000_000, [(None, b"v")], -1, -1, -1, False)


def keyed(*names: str) -> tuple[tuple[str | None, bytes], ...]:
    return tuple((name, NO_TOPIC_ID) for name in names)


def fetch(*topics: tuple[str, tuple[int, ...]], **fields: Any) -> d.FetchRequest:
    asked = tuple(
        d.FetchDataTopic(name, NO_TOPIC_ID, tuple(d.FetchPartition(n, 0, 1000) for n in numbers))
        for name, numbers in topics
    )
    return d.FetchRequest(asked, max_wait_ms=0, **fields)


def produce(*topics: tuple[str, tuple[int, ...]]) -> d.ProduceRequest:
    return d.ProduceRequest(
        tuple(
            d.ProduceTopic(name, NO_TOPIC_ID, tuple(d.ProducePartition(n, BATCH) for n in numbers))
            for name, numbers in topics
        )
    )


def list_offsets(*topics: tuple[str, tuple[int, ...]]) -> d.ListOffsetsRequest:
    return d.ListOffsetsRequest(
        tuple(
            d.ListOffsetsTopic(name, tuple(d.ListOffsetsPartition(n, -1) for n in numbers))
            for name, numbers in topics
        )
    )


def epochs(*topics: tuple[str, tuple[int, ...]]) -> d.OffsetForLeaderEpochRequest:
    return d.OffsetForLeaderEpochRequest(
        tuple(
            d.LeaderEpochTopic(name, tuple(d.LeaderEpochPartition(n, 0) for n in numbers))
            for name, numbers in topics
        )
    )


def shared(
    *topics: tuple[bytes, tuple[int, ...]], batches: tuple[sf.AcknowledgementBatch, ...] = ()
) -> tuple[sf.AcknowledgedTopic, ...]:
    return tuple(
        sf.AcknowledgedTopic(
            topic_id, tuple(sf.AcknowledgedPartition(number, batches) for number in numbers)
        )
        for topic_id, numbers in topics
    )


def share_fetch(
    *topics: tuple[bytes, tuple[int, ...]], epoch: int = 0, **fields: Any
) -> sf.ShareFetchRequest:
    return sf.ShareFetchRequest(
        "g", "m", epoch, max_records=500, batch_size=500, topics=shared(*topics), **fields
    )


def share_acknowledge(*topics: sf.AcknowledgedTopic) -> sf.ShareAcknowledgeRequest:
    return sf.ShareAcknowledgeRequest("g", "m", 1, True, topics)


def acked(*offsets: int, kind: int = sf.ACCEPT) -> tuple[sf.AcknowledgementBatch, ...]:
    return tuple(sf.AcknowledgementBatch(offset, offset, bytes((kind,))) for offset in offsets)


def marker(producer_id: int, *topics: tuple[str, tuple[int, ...]]) -> p.WritableMarker:
    named = tuple(p.MarkerTopic(*topic) for topic in topics)
    return p.WritableMarker(producer_id, 0, True, named, 0)


def add(*topics: tuple[str, tuple[int, ...]]) -> x.AddPartitionsToTxnRequest:
    named = tuple(x.TxnTopic(*topic) for topic in topics)
    return x.AddPartitionsToTxnRequest((x.AddPartitionsTransaction("n1", 1, 0, named),))


def alter(configs: tuple[t.AlterConfig, ...], *names: str) -> tuple[t.AlterResource, ...]:
    return tuple(t.AlterResource(t.RESOURCE_GROUP, name, configs) for name in names)


def of_big(request: Callable[..., Any], partition: Callable[[int], Any]) -> Any:
    """A request about the state of all share-partitions of a large topic."""
    return request("g", [ss.ShareStateTopic(BIG, [partition(number) for number in NUMBERS])])


BIG = b"big".ljust(16)
EACH_TOPIC = tuple((b"%016d" % number, (0,)) for number in range(TOPICS))
SHARE_BATCHES = tuple(ss.ShareStateBatch(2 * n, 2 * n, 2, 1) for n in range(BATCHES_MAX))
RATE = q.QuotaOperation("producer_byte_rate", 1000)
SET = (t.AlterConfig("consumer.session.timeout.ms", 0, "50000"),)
MANY_CONFIGS = tuple(t.AlterConfig(one, 0, "1") for one in IDS)
ONCE = tuple((one, (0,)) for one in IDS)
MANY = ("big", NUMBERS)
SALT, SALTED_PASSWORD = Secret(b"salt"), Secret(32)
Make = Callable[[], Any]

ACLS = tuple(AclBinding(2, one, 3, "User:a", "*", 3, 3) for one in IDS[:CHANGES_MAX])
FILTERS = tuple(AclFilter(2, one, 3) for one in IDS)

ROWS: dict[str, Make] = {
    "CreateAcls.creations": lambda: CreateAclsRequest(ACLS),
    "DeleteAcls.filters": lambda: DeleteAclsRequest(FILTERS),
    "Metadata.topics": lambda: MetadataRequest(keyed(*IDS), False),
    "DescribeTopicPartitions.topics": lambda: DescribeTopicPartitionsRequest(IDS),
    "CreateTopics.topics": lambda: t.CreateTopicsRequest(tuple(map(t.NewTopic, IDS))),
    "CreateTopics.topics.assignments": lambda: t.CreateTopicsRequest(
        (t.NewTopic("new", assignments=tuple((number, (0,)) for number in NUMBERS)),)
    ),
    "CreateTopics.topics.assignments.1": lambda: t.CreateTopicsRequest(
        (t.NewTopic("new", assignments=((0, NUMBERS),)),)
    ),
    "CreateTopics.topics.configs": lambda: t.CreateTopicsRequest(
        (t.NewTopic("new", configs=tuple((one, "1") for one in IDS)),)
    ),
    "DeleteTopics.topics": lambda: t.DeleteTopicsRequest(keyed(*IDS)),
    "CreatePartitions.topics": lambda: t.CreatePartitionsRequest(
        tuple(t.GrownTopic(one, 2) for one in IDS)
    ),
    "CreatePartitions.topics.assignments": lambda: t.CreatePartitionsRequest(
        (t.GrownTopic("t1", 5001, ((0,),) * 5000),)
    ),
    "CreatePartitions.topics.assignments.": lambda: t.CreatePartitionsRequest(
        (t.GrownTopic("t1", 2, (NUMBERS,)),)
    ),
    "DeleteRecords.topics": lambda: d.DeleteRecordsRequest(
        tuple(d.DeleteRecordsTopic(one, ((0, 0),)) for one in IDS)
    ),
    "DeleteRecords.topics.partitions": lambda: d.DeleteRecordsRequest(
        (d.DeleteRecordsTopic("big", tuple((number, 0) for number in SOME)),)
    ),
    "Produce.topics": lambda: produce(*((f"t{number}", (0,)) for number in range(TOPICS))),
    "Produce.topics.partitions": lambda: produce(("big", SOME)),
    "Fetch.topics": lambda: fetch(*((f"t{number}", (0,)) for number in range(TOPICS))),
    "Fetch.topics.partitions": lambda: fetch(MANY, session_epoch=0),
    "Fetch.forgotten": lambda: d.FetchRequest(
        (),
        max_wait_ms=0,
        session_id=1,
        session_epoch=1,
        forgotten=tuple(d.ForgottenTopic(one, NO_TOPIC_ID, (1,)) for one in IDS),
    ),
    "Fetch.forgotten.partitions": lambda: d.FetchRequest(
        (),
        max_wait_ms=0,
        session_id=1,
        session_epoch=1,
        forgotten=(d.ForgottenTopic("big", NO_TOPIC_ID, NUMBERS[:-1]),),
    ),
    "ShareFetch.topics": lambda: share_fetch(*EACH_TOPIC),
    "ShareFetch.topics.partitions": lambda: share_fetch((BIG, NUMBERS)),
    "ShareFetch.topics.partitions.batches": lambda: sf.ShareFetchRequest(
        "g", "m", 1, topics=shared((BIG, (0,)), batches=acked(*range(RECORDS)))
    ),
    "ShareFetch.forgotten": lambda: share_fetch(
        epoch=1, forgotten=tuple(sf.ForgottenShareTopic(*one) for one in EACH_TOPIC)
    ),
    "ShareFetch.forgotten.partitions": lambda: share_fetch(
        epoch=1, forgotten=(sf.ForgottenShareTopic(BIG, NUMBERS[1:]),)
    ),
    "ShareAcknowledge.topics": lambda: share_acknowledge(*shared(*EACH_TOPIC, batches=acked(0, 1))),
    "ShareAcknowledge.topics.partitions": lambda: share_acknowledge(
        *shared((BIG, NUMBERS), batches=acked(0, 1))
    ),
    "ShareAcknowledge.topics.partitions.batches": lambda: share_acknowledge(
        *shared((BIG, (0,)), batches=acked(*range(RECORDS)))
    ),
    "ListOffsets.topics": lambda: list_offsets(*ONCE),
    "ListOffsets.topics.partitions": lambda: list_offsets(MANY),
    "OffsetForLeaderEpoch.topics": lambda: epochs(*ONCE),
    "OffsetForLeaderEpoch.topics.partitions": lambda: epochs(MANY),
    "DescribeProducers.topics": lambda: p.DescribeProducersRequest(
        tuple(p.DescribeProducersTopic(*one) for one in ONCE)
    ),
    "DescribeProducers.topics.partitions": lambda: p.DescribeProducersRequest(
        (p.DescribeProducersTopic("big", NUMBERS[1:]),)
    ),
    "WriteTxnMarkers.markers": lambda: p.WriteTxnMarkersRequest(tuple(map(marker, NUMBERS))),
    "WriteTxnMarkers.markers.topics": lambda: p.WriteTxnMarkersRequest((marker(1, *ONCE),)),
    "WriteTxnMarkers.markers.topics.partitions": lambda: p.WriteTxnMarkersRequest(
        (marker(1, ("big", SOME)),)
    ),
    "DescribeConfigs.resources": lambda: t.DescribeConfigsRequest(
        tuple(t.ConfigResource(t.RESOURCE_TOPIC, f"t{n}") for n in range(TOPICS)), True, True
    ),
    "DescribeConfigs.resources.keys": lambda: t.DescribeConfigsRequest(
        (t.ConfigResource(t.RESOURCE_TOPIC, "t1", IDS),)
    ),
    "AlterConfigs.resources": lambda: t.AlterConfigsRequest(alter((), *IDS)),
    "AlterConfigs.resources.configs": lambda: t.AlterConfigsRequest(alter(MANY_CONFIGS, "g")),
    "IncrementalAlterConfigs.resources": lambda: t.IncrementalAlterConfigsRequest(
        alter(SET, *IDS), validate_only=True
    ),
    "IncrementalAlterConfigs.resources.configs": lambda: t.IncrementalAlterConfigsRequest(
        alter(MANY_CONFIGS, "g")
    ),
    "ListConfigResources.resource_types": lambda: t.ListConfigResourcesRequest((2,) * ITEMS),
    "DescribeLogDirs.topics": lambda: r.DescribeLogDirsRequest(ONCE),
    "DescribeLogDirs.topics.1": lambda: r.DescribeLogDirsRequest((MANY,)),
    "AlterReplicaLogDirs.dirs": lambda: r.AlterReplicaLogDirsRequest(
        tuple((one, ()) for one in IDS)
    ),
    "AlterReplicaLogDirs.dirs.1": lambda: r.AlterReplicaLogDirsRequest((("d", ONCE),)),
    "AlterReplicaLogDirs.dirs.1.1": lambda: r.AlterReplicaLogDirsRequest((("d", (MANY,)),)),
    "ElectLeaders.topics": lambda: r.ElectLeadersRequest(0, ONCE),
    "ElectLeaders.topics.1": lambda: r.ElectLeadersRequest(0, (MANY,)),
    "AlterPartitionReassignments.topics": lambda: r.AlterPartitionReassignmentsRequest(
        tuple(r.ReassignedTopic(one, ((0, (0,)),)) for one in IDS)
    ),
    "AlterPartitionReassignments.topics.partitions": lambda: r.AlterPartitionReassignmentsRequest(
        (r.ReassignedTopic("big", tuple((number, (0,)) for number in NUMBERS)),)
    ),
    "AlterPartitionReassignments.topics.partitions.1": lambda: r.AlterPartitionReassignmentsRequest(
        (r.ReassignedTopic("big", ((0, NUMBERS),)),)
    ),
    "ListPartitionReassignments.topics": lambda: r.ListPartitionReassignmentsRequest(ONCE),
    "ListPartitionReassignments.topics.1": lambda: r.ListPartitionReassignmentsRequest((MANY,)),
    "DescribeQuorum.topics": lambda: DescribeQuorumRequest(ONCE),
    "DescribeQuorum.topics.1": lambda: DescribeQuorumRequest((MANY,)),
    "UpdateFeatures.updates": lambda: UpdateFeaturesRequest(
        (FeatureUpdate("group.version", 1),) * ITEMS
    ),
    "AddPartitionsToTxn.transactions": lambda: x.AddPartitionsToTxnRequest(
        tuple(x.AddPartitionsTransaction(one, 1, 0, ()) for one in IDS)
    ),
    "AddPartitionsToTxn.transactions.topics": lambda: add(*ONCE),
    "AddPartitionsToTxn.transactions.topics.partitions": lambda: add(MANY),
    "DescribeTransactions.transactional_ids": lambda: x.DescribeTransactionsRequest(IDS),
    "ListTransactions.states": lambda: x.ListTransactionsRequest(states=IDS),
    "ListTransactions.producer_ids": lambda: x.ListTransactionsRequest(producer_ids=NUMBERS),
    "DescribeClientQuotas.components": lambda: q.DescribeClientQuotasRequest(
        tuple(q.QuotaFilter(one, q.MATCH_ANY) for one in IDS)
    ),
    "AlterClientQuotas.entries": lambda: q.AlterClientQuotasRequest(
        tuple(q.QuotaAlteration((("user", one),), (RATE,)) for one in IDS)
    ),
    "AlterClientQuotas.entries.entity": lambda: q.AlterClientQuotasRequest(
        (q.QuotaAlteration((("user", "u"), *((one, None) for one in IDS)), (RATE,)),)
    ),
    "AlterClientQuotas.entries.operations": lambda: q.AlterClientQuotasRequest(
        (q.QuotaAlteration((("user", "u"),), (RATE,) * ITEMS),)
    ),
    "DescribeUserScramCredentials.users": lambda: u.DescribeUserScramCredentialsRequest(IDS),
    "AlterUserScramCredentials.deletions": lambda: u.AlterUserScramCredentialsRequest(
        tuple(u.ScramDeletion(f"u{number}", 1) for number in NUMBERS), ()
    ),
    "AlterUserScramCredentials.upsertions": lambda: u.AlterUserScramCredentialsRequest(
        (), tuple(u.ScramUpsertion(one, 1, 4096, SALT, SALTED_PASSWORD) for one in IDS)
    ),
    "CreateDelegationToken.renewers": lambda: k.CreateDelegationTokenRequest(
        tuple(("User", one) for one in IDS)
    ),
    "DescribeDelegationToken.owners": lambda: k.DescribeDelegationTokenRequest(
        tuple(("User", one) for one in IDS)
    ),
}
"""Array of a request -> a request in which it is long."""

STATE: dict[str, Make] = {
    "all topics": lambda: MetadataRequest(None, include_topic_authorized_operations=True),
    "all topics, in pages": lambda: DescribeTopicPartitionsRequest(()),
    "all log dirs": lambda: r.DescribeLogDirsRequest(None),
    "all elections": lambda: r.ElectLeadersRequest(0, None),
    "all resources": t.ListConfigResourcesRequest,
    "all transactions": x.ListTransactionsRequest,
    "all quotas": q.DescribeClientQuotasRequest,
    "all users": lambda: u.DescribeUserScramCredentialsRequest(None),
    "a large transaction": lambda: x.DescribeTransactionsRequest(("large",)),
    "many producers": lambda: p.DescribeProducersRequest((p.DescribeProducersTopic("big", (0,)),)),
    "a topic of many partitions": lambda: MetadataRequest(keyed("big")),
    "a new topic of many partitions": lambda: t.CreateTopicsRequest((t.NewTopic("new", 10_000),)),
    "delete a topic of many partitions": lambda: t.DeleteTopicsRequest(keyed("gone")),
    "a session of many partitions": lambda: d.FetchRequest(
        (), max_wait_ms=0, session_id=1, session_epoch=1
    ),
    "a share session of many partitions": lambda: share_fetch(epoch=1),
    "the end of a share session of many partitions": lambda: share_fetch(epoch=-1),
    "renewals of one record": lambda: share_acknowledge(
        *shared((BIG, (0,)), batches=acked(*(5,) * 100_000, kind=sf.RENEW))
    ),
}
"""Requests whose work grows with what there is (`fill`)."""


SHARE_STATE: dict[str, Make] = {
    "InitializeShareGroupState.topics": lambda: ss.InitializeShareGroupStateRequest(
        "g",
        [ss.ShareStateTopic(b"%016d" % n, [ss.InitializedShareState(0, 1, 0)]) for n in NUMBERS],
    ),
    "InitializeShareGroupState.topics.partitions": lambda: of_big(
        ss.InitializeShareGroupStateRequest, lambda n: ss.InitializedShareState(n, 1, 0)
    ),
    "ReadShareGroupState.topics.partitions": lambda: of_big(
        ss.ReadShareGroupStateRequest, lambda n: ss.AskedShareState(n, 0)
    ),
    "WriteShareGroupState.topics.partitions": lambda: of_big(
        ss.WriteShareGroupStateRequest, lambda n: ss.WrittenShareState(n, 1, 0, 0)
    ),
    "WriteShareGroupState.topics.partitions.batches": lambda: ss.WriteShareGroupStateRequest(
        "kept", [ss.ShareStateTopic(BIG, [ss.WrittenShareState(0, 1, 0, 0, 0, SHARE_BATCHES)])]
    ),
    "DeleteShareGroupState.topics.partitions": lambda: of_big(
        ss.DeleteShareGroupStateRequest, lambda n: n
    ),
    "ReadShareGroupStateSummary.topics.partitions": lambda: of_big(
        ss.ReadShareGroupStateSummaryRequest, lambda n: ss.AskedShareState(n, 0)
    ),
}
"""Requests of brokers about the state of share-partitions. (Their fields are sequences of several
types, which `arrays` does not read.)"""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with without_log():
        yield


def version_of(request: Any) -> int:
    """The last version that names topics, and that clients send."""
    by_name = {d.FetchRequest: 12, d.ProduceRequest: 12, x.AddPartitionsToTxnRequest: 3}
    return by_name.get(type(request), APIS[type(request)].max_version)


Served = tuple[asyncio.Runner, DaemonParts]


@pytest.fixture
def broker() -> Iterator[Served]:
    """A broker with much in it, and the loop that it runs on."""
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        parts = runner.run(served())
        yield runner, parts
        runner.run(parts.finish())


async def count(parts: DaemonParts, request: Any, version: int) -> Turns:
    if isinstance(request, sf.ShareFetchRequest | sf.ShareAcknowledgeRequest):
        await open_share_session(parts, request)
    sessions = parts.data_plane.fetch_sessions
    if isinstance(request, d.FetchRequest) and request.session_id:
        if (known := sessions.get(request.session_id)) is not None:
            sessions.end(known)
        sessions._new_id = lambda: f"{request.session_id:08x}"
        await asker_of(parts).ask(fetch(MANY, session_epoch=0), version)
    asker, turns = asker_of(parts), Turns()
    with turns:
        await asker.ask(request, version)
        for _ in range(AFTER):
            await asyncio.sleep(0)
    return turns


async def open_share_session(
    parts: DaemonParts, request: sf.ShareFetchRequest | sf.ShareAcknowledgeRequest
) -> None:
    """A share session of all partitions of the topic `big`, if the request needs one. Its member
    holds the records of the first partition. If the request names nothing, all partitions are
    loaded, and many have a record."""
    epoch, leaders = request.session_epoch, parts.share_partitions.leaders
    initialized = NUMBERS if epoch and not request.topics else NUMBERS[:1]
    entries = [ss.InitializedShareState(number, 1, 0) for number in initialized]
    asked = ss.InitializeShareGroupStateRequest("g", [ss.ShareStateTopic(BIG, entries)])
    await parts.persister.ask(asked)
    for session in parts.share_partitions.sessions.all_of("g"):
        parts.share_partitions.sessions.end(session)
    if not epoch:
        return
    records: list[tuple[bytes | None, bytes | None]] = [(None, b"v")] * RECORDS
    await append(parts, 0, encode_batch(0, -1, 1_700_000_000_000, records, -1, -1, -1, False))
    await asker_of(parts).ask(share_fetch((BIG, NUMBERS), max_wait_ms=1000, min_bytes=1))
    share = leaders.get("g", (BIG, 0))
    assert share is not None
    assert share.in_flight == RECORDS
    for number in initialized[1:1000]:
        await append(parts, number, BATCH)
    while any(one.records is None for one in leaders.all() if not one.closed):
        await asyncio.sleep(0)


async def append(parts: DaemonParts, partition: int, batch: bytes) -> None:
    topic = d.ProduceTopic("big", NO_TOPIC_ID, (d.ProducePartition(partition, batch),))
    await asker_of(parts).ask(d.ProduceRequest((topic,)), 12)


def check(broker: Served, request: Any, version: int, calls: int = CALLS) -> None:
    runner, parts = broker
    turns = runner.run(count(parts, request, version))
    assert turns.most <= calls, str(turns)


@pytest.mark.slow
@pytest.mark.parametrize("row", ROWS)
def test_a_long_request_leaves_the_loop_to_others(broker: Served, row: str) -> None:
    request = ROWS[row]()
    version = 5 if row == "AddPartitionsToTxn.transactions" else version_of(request)
    each = RECORD_CALLS * RECORDS if row.startswith("Share") and row.endswith("batches") else 0
    check(broker, request, version, CALLS + each)


@pytest.mark.slow
@pytest.mark.parametrize("row", STATE)
def test_a_request_about_much_leaves_the_loop_to_others(broker: Served, row: str) -> None:
    request = STATE[row]()
    check(broker, request, version_of(request))


@pytest.mark.slow
@pytest.mark.parametrize("row", SHARE_STATE)
def test_a_request_about_share_partitions_leaves_the_loop_to_others(
    broker: Served, row: str
) -> None:
    runner, parts = broker
    kept = [ss.ShareStateTopic(BIG, [ss.InitializedShareState(0, 1, 0)])]
    runner.run(parts.persister.ask(ss.InitializeShareGroupStateRequest("kept", kept)))
    request = SHARE_STATE[row]()
    batches = BATCHES_MAX if row.endswith(".batches") else 0
    check(broker, request, version_of(request), CALLS + SHARE_BATCH_CALLS * batches)


@pytest.mark.slow
def test_many_acls_leave_the_loop_to_others(broker: Served) -> None:
    _, parts = broker
    acls = tuple(AclBinding(2, one, 3, "User:a", "*", 3, 3) for one in IDS)
    parts.security.authorizer.acls = AclIndex(acls)
    check(broker, DescribeAclsRequest(AclFilter()), 3)


def test_every_array_of_every_request_has_a_row(broker: Served) -> None:
    _, parts = broker
    transactions = [
        x.AddPartitionsToTxnRequest,
        x.DescribeTransactionsRequest,
        x.ListTransactionsRequest,
        x.AddOffsetsToTxnRequest,
        x.EndTxnRequest,
        d.InitProducerIdRequest,
    ]
    found = {
        path
        for request in [
            *data_routes(parts.data_plane),
            *parts.share_partitions.routes,
            *parts.security.handlers,
            *transactions,
        ]
        for path in arrays(request, request.__name__.removesuffix("Request"))
        if not path.endswith("cursor")
    }
    assert found == set(ROWS)
