"""A broker with much in it, and connections to it on transports that only remember."""

from __future__ import annotations

import asyncio
from typing import Any

from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.config.security_settings import STANDARD_AUTHORIZER
from groupd.coordinator.daemon.parts import DaemonParts
from groupd.coordinator.host import Host
from groupd.coordinator.producers.producer_state import ProducerEntry
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.security.acls import AclIndex
from groupd.coordinator.security.quota_entities import CLIENT_ID
from groupd.coordinator.security.scram_credentials import ScramCredential
from groupd.coordinator.server.connection import Connection
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.open_connections import OpenConnections
from groupd.coordinator.server.slot import Requests
from groupd.coordinator.transactions.metadata import TransactionMetadata, TransactionState
from groupd.coordinator.transactions.table import TransactionEntry
from groupd.protocol.messages.acls import AclBinding
from groupd.protocol.messages.secret import Secret
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.protocol.wire.header import RequestHeader
from groupd.storage.log import StoredTopic
from groupd.storage.memory import MemoryStore
from tests.support.loop_turns import OneStepATurn
from tests.support.manual_clock import ManualClock
from tests.support.parts import loaded
from tests.unit.server.harness import FakeTransport, own_resources

ITEMS = 12_000
TOPICS = 3000
APIS = {api.request_type: api for api in API_BY_KEY.values()}
IDS = tuple(f"n{number}" for number in range(ITEMS))
NUMBERS = tuple(range(ITEMS))


class SlicedHost(Host):
    """A host whose long work takes one step in each turn of the loop."""

    slices = staticmethod(OneStepATurn())


async def served() -> DaemonParts:
    """A broker with 3,000 topics and two of 20,000 partitions, as many transactional ids, one of
    them with a transaction of 5,000 partitions, as many producers in one partition, and as many
    users."""
    config = CoordinatorConfig(
        quotas_max=2 * ITEMS,
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
        max_partitions_per_topic=ITEMS,
        transaction_partition_verification_enable=False,
        authorizer_class_name=STANDARD_AUTHORIZER,
    )
    clock = ManualClock()
    store = MemoryStore()
    await store.start()
    for number in range(TOPICS):
        await store.put_topic(StoredTopic(b"%016d" % number, f"t{number}", 1, ()))
    for name in ("big", "gone"):
        await store.put_topic(StoredTopic(name.encode().ljust(16), name, ITEMS, ()))
    parts = await loaded(config, SlicedHost(), clock, store)
    acls = tuple(AclBinding(2, one, 4, f"User:{one}", "*", 3, 3) for one in IDS[:30])
    parts.security.authorizer.acls = AclIndex(acls)
    table = parts.transactions.table_of("large")
    partitions = frozenset(("big", number) for number in range(5000))
    at_rest = TransactionMetadata(1, 0, 60_000, 0)
    table.entries.update((one, TransactionEntry(at_rest)) for one in IDS)
    ongoing = TransactionMetadata(
        1, 0, 60_000, 0, state=TransactionState.ONGOING, partitions=partitions
    )
    table.entries["large"] = TransactionEntry(ongoing)
    big = parts.data_plane.catalogue.topic("big")
    assert big is not None
    log = await parts.data_plane.partitions.open(big, 0)
    log.producers._entries.update((number, ProducerEntry(0)) for number in NUMBERS)
    quota = {"producer_byte_rate": 1000.0}
    parts.security.quotas.change((((CLIENT_ID, f"other {one}"),), quota) for one in IDS)
    stored = ScramCredential(Secret(), Secret(), Secret(), 4096)
    users = {f"u{number}": {"SCRAM-SHA-256": stored} for number in NUMBERS}
    parts.security.users._users.update(users)
    return parts


class Asker:
    """A client of the server, whose requests `requests` takes."""

    def __init__(self, broker: Broker, requests: Requests) -> None:
        config = broker.config
        shared = own_resources(config, broker.work)
        others: OpenConnections[Connection] = OpenConnections(config)
        self.connection = Connection(
            config, ManualClock(), requests, ConnectionStats(), others, shared
        )
        self.transport = FakeTransport()
        self.transport.connection = self.connection
        self.connection.connection_made(self.transport)

    async def ask(self, request: Any, version: int | None = None) -> bytes:
        """The frame of the reply. The request comes decoded, as from the decoder's thread."""
        self.begin(request, version)
        return await self.reply()

    def begin(self, request: Any, version: int | None = None) -> None:
        api = APIS[type(request)]
        version = api.max_version if version is None else version
        header = RequestHeader(api.key, version, 1, "c", 0)
        self.connection._unanswered += 1
        self.connection._submit(b"", header, api, request, 0)

    async def reply(self) -> bytes:
        while not self.transport.sent:
            await asyncio.sleep(0)
        sent, self.transport.sent = self.transport.sent, b""
        return sent


def asker_of(parts: DaemonParts) -> Asker:
    return Asker(parts.broker, parts.requests)
