"""Clients beyond their quotas have to wait, whatever they do meanwhile (docs/spec/security.md#5.1).

A whole broker behind connections that only remember, on a clock that stands still."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.daemon.parts import DaemonParts
from groupd.coordinator.host import Host
from groupd.coordinator.server.client_session import ASKED_MAX, KafkaEndpoint
from groupd.coordinator.server.connection import Connection
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.listener import KafkaListener
from groupd.protocol.records.batch_builder import encode_batch
from groupd.storage.memory import MemoryStore
from tests.support.kio_entities import build, message_class, read_response, request_bytes, to_bytes
from tests.support.manual_clock import ManualClock
from tests.support.parts import loaded
from tests.unit.server.harness import FakeTransport, a_listener, own_resources

THROTTLED = 89


class Work:
    """The clock by which requests are measured. Each look at it takes `step_ns`."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.step_ns = 0

    def __call__(self) -> int:
        self.now_ns += self.step_ns
        return self.now_ns


class Server:
    """A broker with its listener. `work`: how long requests take."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.work = Work()
        self.config = CoordinatorConfig(offsets_topic_num_partitions=1)
        self.parts: DaemonParts
        self.listener: KafkaListener

    async def start(self) -> None:
        store = MemoryStore()
        await store.start()
        host = Host()
        host.slices = self.work
        parts = self.parts = await loaded(self.config, host, self.clock, store, [("t", 1)])
        endpoint = KafkaEndpoint(access=parts.security.access, metering=parts.metering)
        shared = own_resources(self.config, parts.broker.work)
        self.listener = a_listener(
            self.config,
            self.clock,
            parts.requests,
            ConnectionStats(),
            shared,
            endpoint=endpoint,
        )
        parts.security.quotas.add_listener(self.listener._forget_stored_replies)

    async def quota(self, **values: float | None) -> None:
        """Sets quotas of the default client id; None removes one."""
        operations = [
            {"key": key, "value": value or 0.0, "remove": value is None}
            for key, value in values.items()
        ]
        entity = ({"entity_type": "client-id", "entity_name": None},)
        entry = {"entity": entity, "ops": tuple(operations)}
        other = Client(self, "admin")
        reply = await other.call("AlterClientQuotas", 1, entries=(entry,), validate_only=False)
        assert [one["error_code"] for one in reply["entries"]] == [0]

    async def advance(self, ms: int) -> None:
        self.clock.advance(ms)
        await turns()


class Client:
    """A client with a connection of its own."""

    def __init__(self, server: Server, client_id: str = "c") -> None:
        self.client_id = client_id
        self.connection: Connection = server.listener._make()
        self.transport = FakeTransport()
        self.transport.connection = self.connection
        self.connection.connection_made(self.transport)
        self._sent: list[tuple[str, int]] = []

    def send(self, api: str, version: int, **fields: Any) -> None:
        request = message_class(api, version, "request")
        values: Mapping[str, Any] = {
            "request_api_key": request.__api_key__,
            "request_api_version": version,
            "correlation_id": 0,
            "client_id": self.client_id,
        }
        header = build(request.__header_schema__, values)
        frame = to_bytes(header) + request_bytes(api, version, fields)
        self._sent.append((api, version))
        self.connection.data_received(struct.pack(">i", len(frame)) + frame)

    async def receive(self) -> list[dict[str, Any]]:
        """The replies that have come."""
        await turns()
        data, replies = self.transport.sent, []
        self.transport.sent = b""
        while data:
            (size,) = struct.unpack_from(">i", data)
            api, version = self._sent.pop(0)
            tagged = message_class(api, version, "response").__flexible__ and api != "ApiVersions"
            replies.append(read_response(api, version, data[9 if tagged else 8 : 4 + size]))
            data = data[4 + size :]
        return replies

    async def call(self, api: str, version: int, **fields: Any) -> dict[str, Any]:
        self.send(api, version, **fields)
        (reply,) = await self.receive()
        return reply

    async def produce(self, size: int, acks: int = 1) -> int | None:
        """Produces; how long to wait (None: there is no reply)."""
        self.send("Produce", 9, **produce_fields(size, acks))
        if acks == 0:
            self._sent.pop()
            return None
        (reply,) = await self.receive()
        throttle: int = reply["throttle_time"]
        return throttle

    async def heartbeat(self) -> int:
        throttle: int = (await self.call("Heartbeat", 4, **HEARTBEAT))["throttle_time"]
        return throttle


HEARTBEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}


def produce_fields(size: int, acks: int = 1) -> dict[str, Any]:
    batch = encode_batch(0, -1, 1_700_000_000_000, [(None, bytes(size))], -1, -1, -1, False)
    partition = {"index": 0, "records": batch}
    topics = ({"name": "t", "partition_data": (partition,)},)
    return {"acks": acks, "timeout": 1000, "topic_data": topics, "transactional_id": None}


async def turns() -> None:
    """Gives turns until everything that is under way has ended."""
    for _ in range(400):
        await asyncio.sleep(0)


@pytest.fixture
async def server() -> Iterator[Server]:
    server = Server()
    await server.start()
    yield server
    await server.parts.finish()


async def test_nobody_waits_without_a_quota(server: Server) -> None:
    client = Client(server)
    assert await client.produce(500_000) == 0
    assert client.transport.reading


async def test_a_producer_is_answered_at_once_and_then_not_heard(server: Server) -> None:  # SE-73
    await server.quota(producer_byte_rate=10_000)
    client = Client(server)
    throttle_ms = await client.produce(200_000)
    assert throttle_ms == pytest.approx(10_000, rel=0.01)
    assert not client.transport.reading
    client.send("Produce", 9, **produce_fields(10))
    client.send("ApiVersions", 0)
    await server.advance(throttle_ms - 1)
    assert await client.receive() == []
    assert client.connection.idle is False
    await server.advance(1)
    (reply,) = await client.receive()  # 200,000 bytes still count, so this is too early
    assert reply["throttle_time"] == pytest.approx(10_000, rel=0.01)
    await server.advance(11_000)
    (reply,) = await client.receive()
    assert reply["error_code"] == 0
    assert client.transport.reading
    assert await client.produce(10) == 0


async def test_frames_that_have_come_are_not_started(server: Server) -> None:
    await server.quota(producer_byte_rate=1000)
    client = Client(server)
    client.send("Produce", 9, **produce_fields(50_000))
    for _ in range(3):
        client.send("ApiVersions", 0)
    (reply,) = await client.receive()
    await server.advance(reply["throttle_time"])
    assert len(await client.receive()) == 3


async def test_without_a_reply_the_connection_is_muted_all_the_same(server: Server) -> None:
    await server.quota(producer_byte_rate=1000)
    client = Client(server)
    await client.produce(20_000, acks=0)
    await turns()
    assert not client.transport.reading
    await server.advance(11_000)
    assert client.transport.reading


async def test_other_clients_are_not_slowed_down(server: Server) -> None:
    await server.quota(producer_byte_rate=1000)
    assert await Client(server, "one").produce(50_000)
    assert await Client(server, "other").produce(10) == 0
    client = Client(server, "one")
    client.send("Produce", 9, **produce_fields(10))
    assert await client.receive() == []


async def test_what_a_client_owes_outlives_its_connection(server: Server) -> None:
    await server.quota(producer_byte_rate=10_000)
    client = Client(server)
    throttle_ms = await client.produce(200_000)
    client.connection.connection_lost(None)
    again = Client(server)
    assert (await again.call("ApiVersions", 0))["error_code"] == 0, "that costs nothing"
    assert await again.heartbeat() == 0
    again.send("Produce", 9, **produce_fields(10))
    again.send("ApiVersions", 0)
    await server.advance(throttle_ms - 1)
    assert await again.receive() == []
    assert not again.transport.reading
    assert not again.connection.idle
    await server.advance(1)
    (reply,) = await again.receive()  # 200,000 bytes still count
    assert reply["throttle_time"] > 0
    assert server.parts.security.quotas.owed_ms(only_limit(server)) > 0
    await server.advance(reply["throttle_time"])
    assert len(await again.receive()) == 1
    assert await Client(server).produce(10) == 0, "nothing is owed any more"


def only_limit(server: Server) -> Any:
    limits = server.parts.security.quotas.of("User:ANONYMOUS", "c")
    assert limits is not None
    return limits.produce


@pytest.mark.slow
async def test_who_connects_again_and_again_has_no_more_than_the_quota(server: Server) -> None:
    await server.quota(producer_byte_rate=20_000)
    clients, sent = [Client(server) for _ in range(8)], 0
    for client in clients:
        client.send("Produce", 9, **produce_fields(100_000))
    for _ in range(600):
        for number, client in enumerate(clients):
            if await client.receive():
                sent += 100_000
                client.connection.connection_lost(None)
                clients[number] = Client(server)
                clients[number].send("Produce", 9, **produce_fields(100_000))
        server.clock.advance(1000)
    # All connections may produce once at the same time, and then owe all of it.
    assert 0.5 < sent / 600 / 20_000 < 1.5


async def test_a_new_connection_waits_once_however_much_others_use(server: Server) -> None:
    await server.quota(producer_byte_rate=10_000)
    busy = Client(server)
    throttle_ms = await busy.produce(200_000)
    newcomer = Client(server)
    newcomer.send("Produce", 9, **produce_fields(10))
    busy.send("Produce", 9, **produce_fields(200_000))
    await server.advance(throttle_ms)
    assert len(await busy.receive()) == 1
    assert len(await newcomer.receive()) == 1


async def test_time_for_requests_is_owed_by_all_requests_of_a_new_connection(
    server: Server,
) -> None:
    await server.quota(request_percentage=1)
    server.work.step_ns = 500_000_000
    assert await Client(server).heartbeat() == 1000
    again = Client(server)
    again.send("Heartbeat", 4, **HEARTBEAT)
    await server.advance(999)
    assert await again.receive() == []
    await server.advance(1)
    assert len(await again.receive()) == 1


async def test_one_connection_with_many_client_ids_is_remembered_in_little(server: Server) -> None:
    await server.quota(producer_byte_rate=10_000)
    client = Client(server)
    for number in range(3 * ASKED_MAX):
        client.client_id = f"c-{number}"
        assert await client.produce(10) == 0
    assert len(client.connection.session._asked or ()) <= ASKED_MAX


async def fetch(client: Client, offset: int, **session: int) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    fields = {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": session.get("session_id", 0),
        "session_epoch": session.get("session_epoch", -1),
        "topics": ({"topic": "t", "partitions": (partition,)},),
    }
    return await client.call("Fetch", 12, **fields)


def records_of(reply: dict[str, Any]) -> int:
    return sum(
        len(partition["records"] or b"")
        for topic in reply["responses"]
        for partition in topic["partitions"]
    )


async def test_a_fetch_beyond_the_quota_is_empty_and_comes_again(server: Server) -> None:  # SE-74
    producer = Client(server)
    for _ in range(10):
        await producer.produce(50_000)
    await server.quota(consumer_byte_rate=10_000)
    client = Client(server)
    offset, refused, waited_ms = 0, 0, 0
    first = await fetch(client, 0, session_epoch=0)
    session, epoch = first["session_id"], 0
    assert session
    size = records_of(first)
    assert 50_000 < size <= 100_000
    offset = size // 50_000
    while offset < 10:
        epoch += 1
        reply = await fetch(client, offset, session_id=session, session_epoch=epoch)
        assert (reply["error_code"], reply["session_id"]) == (0, session)
        if reply["throttle_time"]:
            assert reply["responses"] == []
            assert not client.transport.reading
            refused += 1
        offset += records_of(reply) // 50_000
        waited_ms += reply["throttle_time"]
        await server.advance(reply["throttle_time"])
    assert refused > 3
    assert 5_000 <= 500_000 / (waited_ms / 1000) <= 13_000


async def test_a_large_batch_gets_through_after_a_while(server: Server) -> None:
    await Client(server).produce(50_000)
    await server.quota(consumer_byte_rate=100)
    client = Client(server)
    assert records_of(await fetch(client, 0)) > 50_000
    reply = await fetch(client, 0)
    assert (records_of(reply), reply["throttle_time"] > 0) == (0, True)
    await server.advance(reply["throttle_time"])
    assert records_of(await fetch(client, 0)) > 50_000


async def test_time_for_requests(server: Server) -> None:  # SE-77
    await server.quota(request_percentage=1)
    client = Client(server)
    server.work.step_ns = 500_000_000
    assert await client.heartbeat() == 1000
    client.send("Heartbeat", 4, **HEARTBEAT)
    await server.advance(999)
    assert await client.receive() == []
    await server.advance(1)
    (reply,) = await client.receive()
    assert reply["throttle_time"] == 1000
    server.work.step_ns = 0
    await server.advance(1000)
    await server.quota(request_percentage=None)
    assert await client.heartbeat() == 0
    assert client.transport.reading


async def test_the_longer_of_two_waits_counts(server: Server) -> None:
    await server.quota(request_percentage=1, producer_byte_rate=10_000)
    server.work.step_ns = 500_000_000
    assert await Client(server).produce(200_000) == pytest.approx(10_000, rel=0.01)
    assert await Client(server, "other").produce(10) == 1000
    counts = server.parts.security.quotas.throttled
    assert counts["producer_byte_rate"] == 1
    assert counts["request_percentage"] >= 1


async def test_no_steady_reply_where_requests_count(server: Server) -> None:
    fields = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": ("none",),
        "topic_partitions": (),
    }
    client = Client(server)
    client.send("ConsumerGroupHeartbeat", 1, **fields)
    await turns()
    await server.advance(1000)  # the first target is computed after a moment
    (joined,) = await client.receive()
    steady = {"group_id": "g", "member_id": "m", "member_epoch": joined["member_epoch"]}
    stored = client.connection.stored_replies
    for _ in range(3):
        await client.call("ConsumerGroupHeartbeat", 1, **steady, rebalance_timeout=-1)
    assert len(stored) == 1
    await server.quota(request_percentage=100)
    assert len(stored) == 0
    await client.call("ConsumerGroupHeartbeat", 1, **steady, rebalance_timeout=-1)
    assert len(stored) == 0
    await server.quota(request_percentage=None)
    await client.call("ConsumerGroupHeartbeat", 1, **steady, rebalance_timeout=-1)
    assert len(stored) == 1


def new_topics(count: int, partitions: int = 1, first: int = 0) -> tuple[dict[str, Any], ...]:
    names = (f"new{number}" for number in range(first, first + count))
    return tuple(
        {"name": name, "num_partitions": partitions, "replication_factor": 1} for name in names
    )


async def create(client: Client, version: int, topics: tuple[Any, ...]) -> tuple[list[int], int]:
    fields = {"topics": topics, "timeout": 1000, "validate_only": False}
    reply = await client.call("CreateTopics", version, **fields)
    return [topic["error_code"] for topic in reply["topics"]], reply["throttle_time"]


async def test_new_clients_are_refused_what_is_too_much(server: Server) -> None:  # SE-76
    await server.quota(controller_mutation_rate=1)
    client = Client(server)
    assert await create(client, 7, new_topics(30)) == ([0] * 12 + [THROTTLED] * 18, 1000)
    await server.advance(1000)
    assert await create(client, 7, new_topics(1, first=12)) == ([0], 0)


async def test_older_clients_have_to_wait_afterwards(server: Server) -> None:  # SE-76
    await server.quota(controller_mutation_rate=1)
    client = Client(server)
    assert await create(client, 5, new_topics(30)) == ([0] * 30, 19_000)
    assert not client.transport.reading


async def test_growing_and_deleting_count_too(server: Server) -> None:
    admin = Client(server, "admin")
    await create(admin, 7, new_topics(3, partitions=10))
    await server.quota(controller_mutation_rate=1)
    client = Client(server)
    grown = {"name": "new0", "count": 22, "assignments": None}
    fields = {"topics": (grown,), "timeout": 1000, "validate_only": False}
    reply = await client.call("CreatePartitions", 3, **fields)
    assert [one["error_code"] for one in reply["results"]] == [0]
    names = tuple({"name": f"new{n}", "topic_id": None} for n in range(3))
    reply = await client.call("DeleteTopics", 6, topics=names, timeout=1000)
    assert {one["error_code"] for one in reply["responses"]} == {THROTTLED}
    assert reply["throttle_time"] == 1000
    await server.advance(1000)
    reply = await client.call("DeleteTopics", 4, topic_names=("new0", "new1"), timeout=1000)
    assert {one["error_code"] for one in reply["responses"]} == {0}
    assert reply["throttle_time"] == 32_000


async def test_creating_by_the_way_counts_too(server: Server) -> None:
    await server.quota(controller_mutation_rate=1)
    client = Client(server)
    names = tuple({"topic_id": None, "name": f"auto{number}"} for number in range(20))
    fields = {"topics": names, "allow_auto_topic_creation": True}
    reply = await client.call("Metadata", 12, **fields)
    codes = sorted(topic["error_code"] for topic in reply["topics"])
    assert codes == [0] * 12 + [3] * 8
    assert reply["throttle_time"] == 1000


async def test_a_connection_that_ends_while_it_is_muted(server: Server) -> None:
    await server.quota(producer_byte_rate=1000)
    client = Client(server)
    await client.produce(50_000)
    client.connection.connection_lost(None)
    await server.advance(1_000_000)
    assert client.connection.closed
