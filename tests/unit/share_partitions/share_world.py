"""Members of share groups on a data plane with a real share coordinator, without sockets. Time
stands still until a test moves it."""

from __future__ import annotations

import asyncio

from groupd.coordinator.core.types import RequestContext
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.ownership import SingleNodeOwnership
from groupd.coordinator.runtime.request_tasks import RequestTasks
from groupd.coordinator.runtime.waiting import Waiter, WaitingRequests
from groupd.coordinator.runtime.writer import LogWriter
from groupd.coordinator.server.client_session import ClientSession
from groupd.coordinator.share_partitions.share_requests import ShareRequests
from groupd.coordinator.share_state.coordinator import ShareCoordinator
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.share_fetch import (
    ACCEPT,
    AcknowledgedPartition,
    AcknowledgedTopic,
    AcknowledgementBatch,
    ForgottenShareTopic,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
)
from groupd.protocol.messages.share_state import (
    InitializedShareState,
    InitializeShareGroupStateRequest,
    ReadShareGroupStateRequest,
    ReadShareState,
    ShareStateReply,
    ShareStateResult,
    ShareStateTopic,
    WriteShareGroupStateRequest,
)
from groupd.protocol.messages.topics import RESOURCE_GROUP, AlterConfig, AlterResource
from groupd.protocol.records.batch import iter_batches
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.storage.memory import MemoryStore
from tests.support.access import ByRule, allow_all
from tests.support.manual_clock import ManualClock
from tests.unit.topics.conftest import Cluster

OK = ErrorCode.NONE
GROUP = "g"
LOCK_MS = 30_000
APIS = {api.request_type: api for api in API_BY_KEY.values()}


class Scripted:
    """A persister that passes requests on, unless a test holds or refuses them."""

    def __init__(self, inner):
        self.inner = inner
        self.asked = []
        self.refused = (WriteShareGroupStateRequest,)
        self.refusals = []
        """The codes of the next requests of these types."""
        self.released = asyncio.Event()
        self.released.set()

    @property
    def writes(self):
        return [one for one in self.asked if isinstance(one, WriteShareGroupStateRequest)]

    async def ask(self, request):
        self.asked.append(request)
        await self.released.wait()
        if type(request) in self.refused and self.refusals:
            code = self.refusals.pop(0)
            (topic,) = request.topics
            reads = type(request) is ReadShareGroupStateRequest
            made = ReadShareState if reads else ShareStateResult
            results = [made(one.partition, code) for one in topic.partitions]
            return ShareStateReply([ShareStateTopic(topic.topic_id, results)])
        return await self.inner.ask(request)


class MemberWaiter(Waiter):
    """A request of a member: its `reply`, and the connection that it came on."""

    def __init__(self, request, api, session):
        super().__init__(request, api.failure)
        self.reply = None
        self.session = session

    def send(self, reply):
        self.reply = reply

    def on_disconnect(self, callback):
        return self.session.on_disconnect(callback)


class ShareWorld:
    """A topic `foo` with three partitions, whose share-partitions are initialised for `GROUP`."""

    def __init__(self, store=None, **settings):
        self.store = store or MemoryStore()
        self.settings = settings
        self.clock = ManualClock()
        self.work = LongWork()
        self.waiting = WaitingRequests()

    async def start(self):
        self.cluster = await Cluster(self.store, **self.settings).start(work=self.work)
        plane = self.plane = self.cluster.plane
        self.writer = LogWriter(self.store)
        self.writer.start()
        self.coordinator = ShareCoordinator(
            self.cluster.config,
            self.store,
            self.writer,
            self.clock,
            lambda topic_id, partition: plane.catalogue.topic_by_id(topic_id) is not None,
            self.work,
        )
        await self.coordinator.load()
        self.persister = Scripted(self.coordinator)
        self.make_leader()
        return self

    def make_leader(self):
        """Begin with nothing cached, as after a restart."""
        self.shares = ShareRequests(
            self.cluster.config, self.plane, self.persister, self.clock, self.cluster.clock.now
        )
        self.tasks = RequestTasks(SingleNodeOwnership(0), self.clock, self.work)
        self.tasks.routes.update(self.shares.routes)

    async def stop(self):
        await self.shares.close()
        await self.coordinator.close()
        await self.writer.close()
        await self.cluster.stop()

    async def create(self, name="foo", partitions=3):
        topic_id = await self.cluster.create(name, partitions)
        await self.initialize(topic_id, range(partitions))
        return topic_id

    async def initialize(self, topic_id, partitions, start_offset=-1, epoch=2, group=GROUP):
        entries = [InitializedShareState(one, epoch, start_offset) for one in partitions]
        request = InitializeShareGroupStateRequest(group, [ShareStateTopic(topic_id, entries)])
        reply = await self.coordinator.ask(request)
        assert all(one.error is OK for topic in reply.topics for one in topic.partitions)

    async def set_configs(self, group=GROUP, **values):
        """Replaces the configs of a group, as an administrator does it."""
        wanted = tuple(
            AlterConfig(name.replace("_", "."), 0, value) for name, value in values.items()
        )
        asked = AlterResource(RESOURCE_GROUP, group, wanted, replace=True)
        await self.plane.group_overrides.alter(asked, validate_only=False)

    async def produce(self, *values, partition=0, name="foo", **fields):
        result = await self.cluster.produce(name, self.cluster.batch(*values, **fields), partition)
        assert result.error is OK
        return result.base_offset

    async def produce_records(self, count, partition=0, name="foo"):
        """A batch of `count` records."""
        return await self.produce(*[b"v"] * count, partition=partition, name=name)

    def advance(self, ms):
        self.clock.advance(ms)
        self.cluster.clock.advance(ms)

    async def settle(self):
        await self.cluster.settle()

    def connect(self, member="m1", group=GROUP):
        return ShareMember(self, member, group)


class ShareMember:
    """A member on a connection of its own."""

    def __init__(self, world, member, group):
        self.world = world
        self.member = member
        self.group = group
        self.connect()

    def connect(self):
        self.session = ClientSession("", ByRule(allow_all))
        self.waiters = []

    def leave(self):
        """The connection is lost."""
        self.session.end()
        for waiter in self.waiters:
            waiter.forget()
            self.world.tasks.forget(waiter)

    def send(self, request, version=2, allows=allow_all):
        api = APIS[type(request)]
        waiter = MemberWaiter(request, api, self.session)
        self.world.waiting.add(waiter)
        self.waiters.append(waiter)
        context = RequestContext(waiter, version, "client", access=ByRule(allows))
        self.world.tasks.submit(context, request)
        return waiter

    def ask_fetch(
        self, epoch, *partitions, acks=None, forget=(), version=2, allows=allow_all, **fields
    ):
        """Sends ShareFetch; its waiter. `partitions`: (topic id, partition)."""
        fields = {
            "max_wait_ms": 500,
            "min_bytes": 1,
            "max_bytes": 50 << 20,
            "max_records": 500,
            "batch_size": 500,
            **fields,
        }
        request = ShareFetchRequest(
            self.group,
            self.member,
            epoch,
            topics=asked_topics(partitions, acks or {}),
            forgotten=tuple(ForgottenShareTopic(topic_id, (one,)) for topic_id, one in forget),
            **fields,
        )
        return self.send(request, version, allows)

    async def fetch(self, epoch, *partitions, **fields):
        """The reply to ShareFetch; None while it waits."""
        waiter = self.ask_fetch(epoch, *partitions, **fields)
        await self.world.settle()
        return waiter.reply

    async def late(self, epoch, *partitions, **fields):
        """The reply to ShareFetch after its wait."""
        waiter = self.ask_fetch(epoch, *partitions, **fields)
        await self.world.settle()
        assert waiter.reply is None, waiter.reply
        self.world.advance(500)
        await self.world.settle()
        return waiter.reply

    async def acknowledge(self, epoch, acks=None, version=2, allows=allow_all, **fields):
        """The reply to ShareAcknowledge; None while it waits."""
        waiter = self.send_acknowledge(epoch, acks, version, allows, **fields)
        await self.world.settle()
        return waiter.reply

    def send_acknowledge(self, epoch, acks=None, version=2, allows=allow_all, **fields):
        """Sends ShareAcknowledge; its waiter."""
        request = ShareAcknowledgeRequest(
            self.group, self.member, epoch, topics=asked_topics((), acks or {}), **fields
        )
        return self.send(request, version, allows)


def asked_topics(partitions, acks):
    """One entry for each partition, so that a topic comes several times, as librdkafka does it."""
    named = dict.fromkeys(partitions, ())
    named.update({key: tuple(batches) for key, batches in acks.items()})
    return tuple(
        AcknowledgedTopic(topic_id, (AcknowledgedPartition(partition, batches),))
        for (topic_id, partition), batches in named.items()
    )


def acked(first, last, *types):
    return AcknowledgementBatch(first, last, bytes(types or (ACCEPT,)))


def partitions_of(reply):
    """Partition -> its entry in a reply about one topic."""
    assert reply is not None, "the request waits"
    assert reply.error is OK, reply
    return {one.partition: one for topic in reply.topics for one in topic.partitions}


def acquired(reply, partition=0):
    """(first, last, delivery count) of what a reply gives of a partition."""
    entry = partitions_of(reply).get(partition)
    if entry is None:
        return []
    assert entry.error is OK, entry
    return [(one.first_offset, one.last_offset, one.delivery_count) for one in entry.acquired]


def offsets_in(reply, partition=0):
    """(base offset, last offset) of the record batches in a reply."""
    records = partitions_of(reply)[partition].records
    return [(one.header.base_offset, one.header.last_offset) for one in iter_batches(records)]
