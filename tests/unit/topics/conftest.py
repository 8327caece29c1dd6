"""A whole data plane over the in-memory store, on a clock that tests move by hand."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace

import pytest
from msgspec.structs import astuple

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.types import Instant, RequestContext
from groupd.coordinator.producers.transactions import Marker
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.waiting import Waiter, no_reply
from groupd.coordinator.topics.data_plane import DataPlane
from groupd.coordinator.topics.requests import data_routes
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.cluster import Node
from groupd.protocol.messages.data import (
    FetchDataTopic,
    FetchPartition,
    FetchRequest,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from groupd.protocol.messages.topics import CreateTopicsRequest, NewTopic
from groupd.protocol.records.batch_builder import encode_batch
from groupd.storage.memory import MemoryStore
from groupd.storage.units import GROUPS
from tests.support.access import ByRule, allow_all

START_MS = 1_700_000_000_000
LATEST_VERSION = 20


class ManualClock:
    """Time that stands still until `advance`; also the timer of long polls."""

    def __init__(self):
        self.elapsed_ms = 0
        self._waits = []

    def now(self):
        return Instant(self.elapsed_ms, START_MS + self.elapsed_ms)

    @property
    def waiting(self):
        return len(self._waits)

    async def wait(self, event, timeout_ms):
        entry = (self.elapsed_ms + timeout_ms, event)
        self._waits.append(entry)
        try:
            await event.wait()
        finally:
            self._waits.remove(entry)

    def advance(self, by_ms):
        self.elapsed_ms += by_ms
        for at_ms, event in self._waits:
            if at_ms <= self.elapsed_ms:
                event.set()


class ShardLogs:
    """A `CoordinatorLogView` whose states tests set."""

    def __init__(self):
        self.states = {}
        self.transactions = {}
        self.waiters = set()

    def state(self, partition):
        return self.states.get(partition)

    def clean_offsets(self, partition):
        return 0, 0

    def producers(self, partition):
        return self.transactions.get(partition)

    def add_waiter(self, partition, event):
        self.waiters.add((partition, event))

    def remove_waiter(self, partition, event):
        self.waiters.discard((partition, event))

    def set(self, partition, start_offset, high_watermark):
        self.states[partition] = (start_offset, high_watermark)
        for watched, event in self.waiters:
            if watched == partition:
                event.set()


class NoMarkers:
    """The marker target of `__consumer_offsets`: nobody coordinates groups here."""

    async def write_marker(self, marker, partitions):
        return dict.fromkeys(partitions, ErrorCode.NOT_COORDINATOR)


class Verifier:
    """A `TransactionVerifier`: everything is in its transaction, unless a test says otherwise."""

    def __init__(self):
        self.asked = []
        self.answers = []
        """The codes of the next questions; NONE when there are none left."""
        self.answered = asyncio.Event()
        self.answered.set()

    def hold(self):
        """From now on it answers only once `answered` is set."""
        self.answered.clear()

    async def verify(self, write, *, add):
        self.asked.append((*astuple(write), add))
        code = self.answers.pop(0) if self.answers else ErrorCode.NONE
        await self.answered.wait()
        return dict.fromkeys(write.partitions, code)


def batch(
    *values, sequence=0, producer=-1, epoch=-1, timestamp=START_MS, transactional=False, key=None
):
    return encode_batch(
        0,
        -1,
        timestamp,
        [(key, value) for value in values or (b"v",)],
        producer,
        epoch,
        sequence,
        transactional,
    )


def produce_request(name, partition, records, *, topic_id=NO_TOPIC_ID, **fields):
    part = ProducePartition(partition, records)
    return ProduceRequest((ProduceTopic(name, topic_id, (part,)),), **fields)


def fetch_request(name, *partitions, topic_id=NO_TOPIC_ID, partition_max_bytes=1 << 20, **fields):
    """`partitions`: (partition, offset) pairs or FetchPartition."""
    asked = tuple(
        part if isinstance(part, FetchPartition) else FetchPartition(*part, partition_max_bytes)
        for part in partitions
    )
    fields.setdefault("max_wait_ms", 0)
    return FetchRequest((FetchDataTopic(name, topic_id, asked),), **fields)


async def answered(route, context, request):
    """The reply, as a broker gets it from the row of an API."""
    reply = await route.handle(context, request)
    return reply if route.read is None else await route.read(context, request, reply)


class Cluster:
    """A data plane and short ways to talk to it."""

    START_MS = START_MS
    batch = staticmethod(batch)
    produce_request = staticmethod(produce_request)
    fetch_request = staticmethod(fetch_request)

    def __init__(self, store, **settings):
        self.store = store
        self.config = replace(CoordinatorConfig(), **settings)
        self.clock = ManualClock()
        self.shards = ShardLogs()
        self.nodes = [Node(0, "127.0.0.1", 9092)]
        self.verifier = Verifier()
        self.ids = 0
        self.plane = None

    def new_topic_id(self):
        self.ids += 1
        return self.ids.to_bytes(16, "big")

    async def start(self, **parts):
        self.plane = DataPlane(
            self.config,
            self.store,
            new_topic_id=self.new_topic_id,
            new_id=lambda: str(uuid.uuid4()),
            now=self.clock.now,
            nodes=self.nodes,
            elapsed=self.clock.now,
            views={GROUPS: self.shards},
            offsets_markers=NoMarkers(),
            wait=self.clock.wait,
            **{"work": LongWork(), "writer": self.store.append, **parts},
        )
        self.plane.verify_with(self.verifier)
        await self.store.start()
        await self.plane.start()
        return self

    async def stop(self):
        await self.plane.close()
        await self.store.close()

    async def restart(self):
        await self.stop()
        await self.start()

    async def ask(self, request, version=LATEST_VERSION, allows=allow_all, waiter=Waiter):
        context = RequestContext(waiter(request, no_reply), version, access=ByRule(allows))
        return await answered(data_routes(self.plane)[type(request)], context, request)

    async def create(self, name, partitions=1, **configs):
        settings = tuple((key.replace("_", "."), value) for key, value in configs.items())
        reply = await self.ask(
            CreateTopicsRequest((NewTopic(name, partitions, 1, configs=settings),))
        )
        assert reply.topics[0].error == ErrorCode.NONE, reply
        return reply.topics[0].topic_id

    async def produce(self, name, records, partition=0, **fields):
        """Produces to one partition; its result."""
        reply = await self.ask(produce_request(name, partition, records, **fields))
        return reply.topics[0].partitions[0]

    async def fetch(self, name, offset=0, partition=0, **fields):
        """Fetches from one partition; its result."""
        reply = await self.ask(fetch_request(name, (partition, offset), **fields))
        return reply.topics[0].partitions[0]

    async def send(self, name, *values, producer=7, epoch=0, sequence=0, version=LATEST_VERSION):
        """Produces transactional records of a producer: (error, base offset)."""
        records = batch(
            *values, producer=producer, epoch=epoch, sequence=sequence, transactional=True
        )
        request = produce_request(name, 0, records, transactional_id="tx")
        reply = await self.ask(request, version)
        result = reply.topics[0].partitions[0]
        return result.error, result.base_offset

    async def end(
        self, name, *, commit, producer=7, epoch=0, coordinator_epoch=0, version=1, partition=0
    ):
        """Writes a marker of that transaction version; its code."""
        marker = Marker(producer, epoch, commit, coordinator_epoch, version)
        codes = await self.plane.markers.write_marker(marker, [(name, partition)])
        return codes[name, partition]

    @staticmethod
    async def settle():
        """Lets everything run that can run now."""
        for _ in range(50):
            await asyncio.sleep(0)


@pytest.fixture
async def cluster():
    made = await Cluster(MemoryStore(), auto_create_topics_enable=True).start()
    yield made
    made.store.release_appends()
    await made.stop()


@pytest.fixture
def make_cluster():
    """Makes a cluster that is not started: `make_cluster(store, **settings)`."""
    return Cluster


@pytest.fixture(scope="module")
def make_cluster_class():
    """The same as `make_cluster`, for tests that make many of them (hypothesis)."""
    return Cluster
