"""The share coordinator as a part of a node: its topic, its requests, and the calls of machines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import OutsideCall, RequestContext
from groupd.coordinator.daemon.parts import DaemonParts
from groupd.coordinator.host import Host
from groupd.coordinator.persister import entries_of
from groupd.coordinator.runtime.coordinator_types import SHARE_COORDINATOR
from groupd.coordinator.runtime.waiting import Callback
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID, TopicId
from groupd.protocol.messages.data import FetchDataTopic, FetchPartition, FetchRequest
from groupd.protocol.messages.share_state import (
    InitializeShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    ShareStateReply,
    ShareStateResult,
    ShareStateTopic,
)
from groupd.protocol.messages.topics import DeleteTopicsRequest
from groupd.protocol.records.batch import iter_batches, iter_records
from groupd.protocol.records.share_state_records import (
    SharePartitionKey,
    ShareSnapshot,
    decode_record,
)
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.storage.log import ConfigEntry
from groupd.storage.memory import MemoryStore
from tests.support.manual_clock import ManualClock
from tests.support.parts import loaded
from tests.unit.share_state.harness import GROUP, NONE, asked, init, settle

APIS = {api.request_type: api for api in API_BY_KEY.values()}
CONFIG = CoordinatorConfig(share_state_num_partitions=1)


class Node:
    """A node that is alone, with a topic t of two partitions."""

    def __init__(self, store: MemoryStore, parts: DaemonParts) -> None:
        self.store = store
        self.parts = parts

    @property
    def topic_id(self) -> TopicId:
        topic = self.parts.data_plane.catalogue.topic("t")
        assert topic is not None
        return topic.topic_id

    def initialize(self, *ones: Any) -> InitializeShareGroupStateRequest:
        return InitializeShareGroupStateRequest(GROUP, [ShareStateTopic(self.topic_id, ones)])

    async def ask(self, request: Any, version: int) -> Any:
        replies: list[Any] = []
        waiter = Callback(request, APIS[type(request)].failure, replies.append)
        self.parts.broker.submit(RequestContext(waiter, version, "client"), request)
        await settle()
        (reply,) = replies
        return reply

    async def log(self) -> list[tuple[SharePartitionKey, Any]]:
        """The records, as a client fetches them."""
        partition = (FetchPartition(0, 0, 1 << 20),)
        topic = FetchDataTopic(SHARE_COORDINATOR.topic.name, NO_TOPIC_ID, partition)
        reply = await self.ask(FetchRequest((topic,), max_wait_ms=0), 12)
        records = bytes(reply.topics[0].partitions[0].records)
        return [
            decode_record(record.key or b"", record.value)
            for batch in iter_batches(records)
            for record in iter_records(batch)
        ]


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    store = MemoryStore()
    await store.start()
    parts = await loaded(CONFIG, Host(), ManualClock(), store, [("t", 2)])
    yield Node(store, parts)
    await parts.finish()


async def test_requests_over_kafkas_port(node: Node) -> None:
    reply = await node.ask(node.initialize(init(1, 7), init(partition=2)), 0)
    assert [(one.partition, one.error) for one in entries_of(reply)] == [
        (0, NONE),
        (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    topics = [ShareStateTopic(node.topic_id, [asked()])]
    summary = await node.ask(ReadShareGroupStateSummaryRequest(GROUP, topics), 1)
    assert entries_of(summary)[0].start_offset == 7


async def test_clients_read_the_log(node: Node) -> None:
    await node.ask(node.initialize(init(4, 7, partition=1)), 0)
    ((key, value),) = await node.log()
    assert key == SharePartitionKey(GROUP, node.topic_id, 1)
    assert isinstance(value, ShareSnapshot)
    assert (value.state_epoch, value.start_offset) == (4, 7)


async def test_machines_call_it(node: Node) -> None:
    call = OutsideCall("share-state", GROUP, node.initialize(init()))
    answer = await node.parts.broker.calls.answer(call)
    assert isinstance(answer, ShareStateReply)
    assert entries_of(answer) == [ShareStateResult(0)]


async def test_deleting_a_topic_deletes_its_state(node: Node) -> None:
    await node.parts.persister.ask(node.initialize(init(), init(partition=1)))
    await node.ask(DeleteTopicsRequest((("t", NO_TOPIC_ID),), 1000), 6)
    assert [value for _, value in (await node.log())[2:]] == [None, None]
    assert node.parts.share_state.share_partitions == 0


async def test_a_store_of_an_older_version_gets_the_log(node: Node) -> None:
    """It knows no number of partitions of `__share_group_state`."""
    await node.parts.finish()
    await node.store.put_configs([ConfigEntry(*SHARE_COORDINATOR.shards_key, None)])
    parts = await loaded(CoordinatorConfig(share_state_num_partitions=3), Host(), ManualClock(),
                         node.store)  # fmt: skip
    assert (*SHARE_COORDINATOR.shards_key, "3") in [tuple(e) for e in await node.store.configs()]
    again = Node(node.store, parts)
    assert entries_of(await parts.persister.ask(again.initialize(init()))) == [ShareStateResult(0)]
    await parts.finish()
