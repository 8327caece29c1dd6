"""A kind of coordinator is a row and who makes it: the invented one in `raffles` has its topic, its
shards and its units, is found by clients, and is read, without a change anywhere else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.cluster.local_node import LocalNode
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.settings import ConfigError
from groupd.coordinator.core.partitioning import partition_for
from groupd.coordinator.core.types import (
    UNRESTRICTED,
    Access,
    Operation,
    RequestContext,
    Resource,
)
from groupd.coordinator.daemon.parts import COORDINATORS, DaemonParts
from groupd.coordinator.host import Host
from groupd.coordinator.runtime.coordinator_types import (
    COORDINATOR_TYPES,
    is_internal,
)
from groupd.coordinator.runtime.waiting import Callback
from groupd.coordinator.topics.coordinator_logs import fix_shard_count
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages import NO_TOPIC_ID
from groupd.protocol.messages.cluster import MetadataRequest
from groupd.protocol.messages.data import (
    FetchDataTopic,
    FetchPartition,
    FetchRequest,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from groupd.protocol.messages.groups import FindCoordinatorRequest, FoundCoordinator
from groupd.protocol.messages.topics import (
    RESOURCE_TOPIC,
    ConfigResource,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    NewTopic,
)
from groupd.protocol.records.batch import iter_batches, iter_records
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.storage.memory import MemoryStore
from groupd.storage.units import PARTITIONS, Unit
from tests.support.access import ByRule
from tests.support.manual_clock import ManualClock
from tests.support.parts import assembled
from tests.unit.cluster.raffles.coordinator import (
    KEY_TYPE,
    KEYS_SINCE,
    RAFFLES,
    SHARDS,
    RaffleCoordinator,
)
from tests.unit.cluster.raffles.shared_store import HERE, THERE, SharedStore
from tests.unit.runtime.harness import settle

APIS = {api.request_type: api for api in API_BY_KEY.values()}
TOPIC = RAFFLES.topic.name
NOTHING = ByRule(lambda *_: False)
CONFIG = CoordinatorConfig(offsets_topic_num_partitions=2, transaction_state_log_num_partitions=2)
NAMES = {partition_for(name, SHARDS): name for name in "abcdefgh"}
"""A raffle in each shard."""


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    """The row, and who makes the coordinator."""
    COORDINATOR_TYPES.append(RAFFLES)
    COORDINATORS[RAFFLES.kind] = RaffleCoordinator
    yield
    COORDINATOR_TYPES.remove(RAFFLES)
    del COORDINATORS[RAFFLES.kind]


class RaffleNode:
    """A broker without sockets. With a `SharedStore` it is node 1 of two."""

    def __init__(self, store: MemoryStore, directory: Path | None = None) -> None:
        self.store = store
        self.clock = ManualClock()
        self.parts: DaemonParts
        self.member: LocalNode | None = None
        if directory is not None:
            shared = cast(Any, store)
            self.member = LocalNode(CONFIG, shared, self.clock, directory, "PLAINTEXT")
            self.member.node_id = HERE
            self.member.listeners = (("PLAINTEXT", "here", 9092),)

    async def assemble(self) -> RaffleNode:
        await self.store.start()
        self.parts = await assembled(CONFIG, Host(), self.clock, self.store, self.member)
        self.parts.announce("here", 9092)
        return self

    async def start(self) -> RaffleNode:
        await self.assemble()
        await self.until_done(asyncio.ensure_future(self.parts.load(())))
        return self

    async def until_done(self, work: asyncio.Future[Any]) -> None:
        while not work.done():
            await self.pass_time(100)
        work.result()

    async def pass_time(self, ms: int) -> None:
        for _ in range(0, ms, 100):
            self.clock.advance(100)
            await settle()

    async def stop(self) -> None:
        if self.member is not None:
            await self.until_done(asyncio.ensure_future(self.member.stop()))
        await self.parts.finish()

    @property
    def raffles(self) -> RaffleCoordinator:
        coordinator = self.parts.coordinators[RAFFLES.kind]
        assert isinstance(coordinator, RaffleCoordinator)
        return coordinator

    def send(self, request: Any, version: int, access: Access = UNRESTRICTED) -> list[Any]:
        """The list that the reply will be in."""
        replies: list[Any] = []
        waiter = Callback(request, APIS[type(request)].failure, replies.append)
        context = RequestContext(waiter, version, "client", access=access)
        self.parts.broker.submit(context, request)
        return replies

    async def ask(self, request: Any, version: int, access: Access = UNRESTRICTED) -> Any:
        replies = self.send(request, version, access)
        await settle()
        (reply,) = replies
        return reply

    async def buy(self, raffle: str) -> int | ErrorCode:
        answers = self.raffles.buy(raffle)
        await settle()
        (answer,) = answers
        return answer

    async def find(
        self,
        key: str,
        key_type: int = KEY_TYPE,
        version: int = KEYS_SINCE,
        access: Access = UNRESTRICTED,
    ) -> FoundCoordinator:
        reply = await self.ask(FindCoordinatorRequest((key,), key_type), version, access)
        found: FoundCoordinator = reply.coordinators[0]
        return found

    async def fetch(self, partition: int) -> Any:
        asked = (FetchPartition(partition, 0, 1 << 20),)
        request = FetchRequest((FetchDataTopic(TOPIC, NO_TOPIC_ID, asked),), max_wait_ms=0)
        return (await self.ask(request, 12)).topics[0].partitions[0]

    async def end(self, partition: int) -> Any:
        asked = ListOffsetsTopic(TOPIC, (ListOffsetsPartition(partition, -1),))
        return (await self.ask(ListOffsetsRequest((asked,)), 7)).topics[0].partitions[0]


@pytest.fixture
async def alone() -> AsyncIterator[RaffleNode]:
    node = await RaffleNode(MemoryStore()).start()
    yield node
    await node.stop()


@pytest.fixture
async def one_of_two(tmp_path: Path) -> AsyncIterator[RaffleNode]:
    node = await RaffleNode(SharedStore(), tmp_path).start()
    yield node
    await node.stop()


def test_what_is_in_stores_and_known_to_clients_stays() -> None:
    rows = [
        (
            row.kind,
            row.keys.number,
            row.shards_key,
            [(topic.name, topic.topic_id.hex(), topic.log_name(7)) for topic in row.topics],
        )
        for row in COORDINATOR_TYPES[:-1]
    ]
    prefix = "0c9a5f0ec0f543d6a7b1636f666673"
    compacted = "__consumer_offsets_compacted", f"{prefix}02", "__consumer_offsets-7.compacted"
    assert rows == [
        (
            "groups",
            0,
            (4, "", "offsets.topic.num.partitions"),
            [("__consumer_offsets", f"{prefix}01", "__consumer_offsets-7"), compacted],
        ),
        (
            "transactions",
            1,
            (4, "", "transaction.state.log.num.partitions"),
            [("__transaction_state", f"{prefix}03", "__transaction_state.shard-7")],
        ),
        (
            "share-state",
            2,
            (4, "", "share.coordinator.state.topic.num.partitions"),
            [("__share_group_state", f"{prefix}04", "__share_group_state-7")],
        ),
    ]


async def test_its_topic_is_internal(alone: RaffleNode) -> None:
    reply = await alone.ask(MetadataRequest(None), 12)
    shown = {topic.name: (topic.internal, topic.topic_id) for topic in reply.topics}
    assert shown[TOPIC] == (True, RAFFLES.topic.topic_id)
    (described,) = [topic for topic in reply.topics if topic.name == TOPIC]
    assert sum(run.end - run.first for run in described.partitions) == SHARDS
    topic = alone.parts.data_plane.catalogue.topic(TOPIC)
    assert topic is not None
    assert topic.unit(2) == Unit("raffles", 2)
    assert is_internal(TOPIC)
    created = await alone.ask(CreateTopicsRequest((NewTopic(TOPIC, 1, 1),)), 7)
    assert created.topics[0].error is ErrorCode.TOPIC_ALREADY_EXISTS
    into = ProduceTopic(TOPIC, NO_TOPIC_ID, (ProducePartition(0, b"records"),))
    produced = await alone.ask(ProduceRequest((into,)), 9)
    assert produced.topics[0].partitions[0].error is ErrorCode.INVALID_TOPIC_EXCEPTION


async def test_its_number_of_shards_is_fixed_in_the_store(
    alone: RaffleNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (*RAFFLES.shards_key, str(SHARDS)) in [tuple(one) for one in await alone.store.configs()]
    monkeypatch.setattr("tests.unit.cluster.raffles.coordinator.SHARDS", SHARDS + 1)
    with pytest.raises(ConfigError, match=r"raffle.state.partitions=4: the store was made with 3"):
        await fix_shard_count(alone.store, CONFIG, CatalogueChanges())


async def test_its_log_is_read_as_any_topic(alone: RaffleNode) -> None:
    bought = [await alone.buy(name) for name in (NAMES[0], NAMES[0], NAMES[1])]
    assert bought == [1, 2, 1]
    fetched = await alone.fetch(0)
    assert (fetched.error, fetched.high_watermark, fetched.last_stable_offset) == (0, 2, 2)
    batches = iter_batches(bytes(fetched.records))
    records = [record for one in batches for record in iter_records(one)]
    name = NAMES[0].encode()
    assert [(record.key, record.value) for record in records] == [(name, b"1"), (name, b"2")]
    assert [(await alone.end(number)).offset for number in range(SHARDS)] == [2, 1, 0]


async def test_its_log_is_loaded_at_the_start() -> None:
    store = MemoryStore()
    for number in (1, 2):
        node = await RaffleNode(store).start()
        assert await node.buy(NAMES[0]) == number
        await node.stop()


async def test_a_poll_ends_when_more_is_written(alone: RaffleNode) -> None:
    asked = (FetchPartition(0, 0, 1 << 20),)
    poll = FetchRequest((FetchDataTopic(TOPIC, NO_TOPIC_ID, asked),), max_wait_ms=60_000)
    replies = alone.send(poll, 12)
    await settle()
    assert replies == []
    assert await alone.buy(NAMES[0]) == 1
    await settle()
    assert replies[0].topics[0].partitions[0].high_watermark == 1


async def test_the_node_is_not_ready_while_a_shard_loads() -> None:
    store = MemoryStore()
    node = await RaffleNode(store).assemble()
    for kind, coordinator in node.parts.coordinators.items():
        if kind != RAFFLES.kind:
            await coordinator.load()
    assert node.parts.not_ready() == "3 shards of raffles are not active yet"
    store.fail_next_read()
    await node.raffles.load()
    told = "1 shards of raffles cannot be loaded, see the log: raffle.0"
    assert node.parts.not_ready() == told
    assert (await node.fetch(0)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.clock.advance(500)
    await settle()
    assert node.parts.not_ready() is None
    await node.stop()


async def test_clients_find_it_by_its_key_type(alone: RaffleNode) -> None:
    found = await alone.find("raffle/a")
    assert (found.error, found.node_id, found.host) == (ErrorCode.NONE, 0, "here")
    refused = await alone.find("a")
    assert (refused.error, refused.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "a is no raffle",
    )
    nobody = await alone.find("raffle/a", key_type=8)
    assert (nobody.error, nobody.error_message) == (
        ErrorCode.INVALID_REQUEST,
        "coordinator key type 8 is not supported",
    )


@pytest.mark.parametrize("version", [1, 3, KEYS_SINCE - 1])
async def test_versions_before_its_keys_do_not_know_them(alone: RaffleNode, version: int) -> None:
    refused = await alone.find("raffle/a", version=version, access=NOTHING)
    assert (refused.error, refused.error_message) == (
        ErrorCode.INVALID_REQUEST,
        f"coordinator key type {KEY_TYPE} is not supported",
    )


async def test_only_brokers_find_it(alone: RaffleNode) -> None:
    for key in ("raffle/a", "a"):
        refused = await alone.find(key, access=NOTHING)
        assert refused.error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    asked: list[tuple[Operation, Resource, str]] = []

    def is_broker(*right: Any) -> bool:
        asked.append(right)
        return right == (Operation.CLUSTER_ACTION, Resource.CLUSTER, "kafka-cluster")

    assert (await alone.find("raffle/a", access=ByRule(is_broker))).error is ErrorCode.NONE
    assert len(asked) == 1, "the key needs no right of its own"


TOPIC_TEXT = "q" * 22


@pytest.mark.parametrize(
    ("version", "code"),
    [(5, ErrorCode.INVALID_REQUEST), (6, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)],
)
async def test_who_may_look_for_a_share_partition(
    alone: RaffleNode, version: int, code: ErrorCode
) -> None:
    """docs/spec/share-group.md#SG-66"""
    assert (await alone.find(f"g:{TOPIC_TEXT}:0", 2, version, NOTHING)).error is code


@pytest.mark.parametrize(
    ("key", "valid"),
    [
        (f"g:{TOPIC_TEXT}:0", True),
        (f"a:b:{TOPIC_TEXT}:2147483647", True),
        (f"::{TOPIC_TEXT}:1", True),
        ("g:x", False),
        ("", False),
        (f"{TOPIC_TEXT}:0", False),
        (f" :{TOPIC_TEXT}:0", False),
        (f"g:{TOPIC_TEXT}q:0", False),
        (f"g:{TOPIC_TEXT[1:]}+:0", False),
        (f"g:{TOPIC_TEXT}:-1", False),
        (f"g:{TOPIC_TEXT}:00", False),
        (f"g:{TOPIC_TEXT}:\N{ARABIC-INDIC DIGIT ONE}", False),
        (f"g:{TOPIC_TEXT}:0\n", False),
        (f"g:{TOPIC_TEXT}:2147483648", False),
        (f"g:{TOPIC_TEXT}:", False),
    ],
)
async def test_keys_of_share_partitions(alone: RaffleNode, key: str, valid: bool) -> None:
    """docs/spec/share-group.md#SG-66"""
    code = ErrorCode.NONE if valid else ErrorCode.INVALID_REQUEST
    assert (await alone.find(key, 2, 6)).error is code


async def test_its_topic_has_configs_of_its_own(alone: RaffleNode) -> None:
    found = {}
    names = [row.topic.name for row in COORDINATOR_TYPES]
    for name in names:
        keys = ("cleanup.policy", "retention.ms", "segment.bytes")
        asked = ConfigResource(RESOURCE_TOPIC, name, keys)
        (result,) = (await alone.ask(DescribeConfigsRequest((asked,)), 4)).results
        values = {config.name: config.value for config in result.configs}
        found[name] = [values[key] for key in keys]
    compacted = ["compact", "604800000", "104857600"]
    assert found == {
        TOPIC: ["delete", "-1", "1073741824"],
        "__consumer_offsets": compacted,
        "__transaction_state": compacted,
        "__share_group_state": ["delete", "-1", "104857600"],
    }


async def test_a_cluster_shares_its_units_out(one_of_two: RaffleNode) -> None:
    node = one_of_two
    member, raffles = node.member, node.raffles.served
    assert member is not None
    kinds = dict.fromkeys(("groups", "transactions", "share-state", "raffles", PARTITIONS), 0)
    for unit in member.units[HERE]:
        kinds[unit.kind] += 1
    assert kinds.pop("raffles") in (1, 2)
    assert kinds == {"groups": 1, "transactions": 1, "share-state": 25, PARTITIONS: 32}
    assert [Unit("raffles", number) in member.units[HERE] for number in range(SHARDS)] == [
        raffles.state(number) == (0, 0) for number in range(SHARDS)
    ]
    elsewhere = ErrorCode.NOT_COORDINATOR
    for number in range(SHARDS):
        here = number in raffles.by_number
        found = await node.find(f"raffle/{NAMES[number]}")
        assert (found.node_id, found.host) == ((HERE, "here") if here else (THERE, "there"))
        assert await node.buy(NAMES[number]) == (1 if here else elsewhere)
        read = (await node.fetch(number)).error
        assert read is (ErrorCode.NONE if here else ErrorCode.NOT_LEADER_OR_FOLLOWER)


async def test_an_older_node_gets_no_units_that_it_does_not_know(tmp_path: Path) -> None:
    store = SharedStore()
    store.membership.upgrade(1)
    node = await RaffleNode(store, tmp_path).start()

    def kinds() -> set[str]:
        return {unit.kind for unit in store.membership.units}

    older = {"groups", "transactions", "raffles", PARTITIONS}
    assert kinds() == older
    await node.pass_time(2 * CONFIG.cluster_renew_ms)
    assert kinds() == older
    store.membership.upgrade(2)
    await node.pass_time(2 * CONFIG.cluster_renew_ms)
    assert kinds() == {*older, "share-state"}
    assert node.member is not None
    assert Unit("share-state", 0) in node.member.units[HERE] + node.member.units[THERE]
    await node.stop()


async def test_a_node_gives_its_units_up_and_takes_them_again(one_of_two: RaffleNode) -> None:
    node = one_of_two
    member, served = node.member, node.raffles.served.by_number
    assert member is not None
    name = NAMES[min(served)]
    assert await node.buy(name) == 1

    async def drain(node_id: int, draining: bool) -> None:
        await member.node.drain(node_id, draining)
        await node.pass_time(2 * CONFIG.cluster_renew_ms)

    await drain(HERE, True)
    assert served == {}
    assert await node.buy(name) is ErrorCode.NOT_COORDINATOR
    assert (await node.find(f"raffle/{name}")).node_id == THERE
    await drain(HERE, False)
    await drain(THERE, True)
    assert sorted(served) == [0, 1, 2]
    assert await node.buy(name) == 2
