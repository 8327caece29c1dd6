"""SE-72, SE-61 and SE-62: what a client without any right gets from every API, in every version.

The table is `denied_rows`. A new API without a row fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pytest
from msgspec import Struct, structs

from groupd.coordinator.config import CoordinatorConfig
from groupd.coordinator.core.types import Access, Operation, RequestContext, Resource
from groupd.coordinator.daemon_parts import DaemonParts
from groupd.coordinator.host import Host
from groupd.coordinator.runtime.waiting import Callback
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import Lazily
from groupd.protocol.wire.apis import API_BY_KEY
from groupd.storage.log import StoredTopic
from groupd.storage.memory import MemoryStore
from groupd.testing.clock import ManualClock
from tests.support.kio_entities import request_bytes
from tests.unit.security.denied_rows import ROWS, Names, Row

TOPIC_ID = bytes(range(16))
HERE = Names("foo", "grp", "txn", TOPIC_ID)
ELSEWHERE = Names("bar", "nil", "tno", TOPIC_ID)
APIS = {api.name: api for api in API_BY_KEY.values()}
LETTERS = {Resource.TOPIC: "T", Resource.GROUP: "G", Resource.TRANSACTIONAL_ID: "X"}


class Denied(Access):
    """No right at all. Keeps the audited questions."""

    restricted = True
    principal = "User:mallory"

    def __init__(self, *granted: tuple[Operation, Resource, str]) -> None:
        self.granted = granted
        self.audited: list[tuple[Operation, Resource, str]] = []

    def allows(self, operation: Operation, resource: Resource, name: str) -> bool:
        self.audited.append((operation, resource, name))
        return self.sees(operation, resource, name)

    def sees(self, operation: Operation, resource: Resource, name: str) -> bool:
        return (operation, resource, name) in self.granted

    def allows_any(self, operation: Operation, resource: Resource) -> bool:
        return False


class World:
    """A broker with a topic foo, a group grp and a transactional id txn."""

    def __init__(self, parts: DaemonParts) -> None:
        self.parts = parts

    async def ask(
        self, name: str, version: int, fields: Any, access: Access | None = None
    ) -> tuple[Any, bytes]:
        """(the reply, its bytes)"""
        api = APIS[name]
        written = _written(name, version)
        request = api.decode(request_bytes(name, written, fields), 0, written)
        replies: list[Any] = []
        waiter = Callback(request, api.failure, replies.append)
        context = RequestContext(waiter, version, "c", "/127.0.0.1", access or Access())
        self.parts.broker.submit(context, request)
        for _ in range(1000):
            if replies:
                return replies[0], bytes(api.encode(replies[0], version))
            await asyncio.sleep(0)
        raise AssertionError(f"{name} v{version} is not answered")


def _written(name: str, version: int) -> int:
    """The version in which kio writes the request: it does not know all that are served."""
    if name == "Produce":
        return max(version, 3)
    return min(version, {"TxnOffsetCommit": 5, "DeleteGroups": 2}.get(name, version))


@pytest.fixture
async def world() -> AsyncIterator[World]:
    config = CoordinatorConfig(
        offsets_topic_num_partitions=1,
        auto_create_topics_enable=True,
    )
    parts = DaemonParts(config, Host(), ManualClock())
    store = MemoryStore()
    await store.start()
    await store.put_topic(StoredTopic(TOPIC_ID, "foo", 1, ()))
    await parts.assemble(store)
    parts.announce("127.0.0.1", 9092)
    await parts.load(())
    made = World(parts)
    partition = {"partition_index": 0, "committed_offset": 1}
    topics = [{"name": "foo", "partitions": [partition]}]
    commit = {"group_id": "grp", "generation_id_or_member_epoch": -1, "topics": topics}
    await made.ask("OffsetCommit", 8, commit)
    await made.ask("InitProducerId", 4, {"transactional_id": "txn", "transaction_timeout": 1000,
                                         "producer_id": -1, "producer_epoch": -1})  # fmt: skip
    yield made
    await parts.broker.close()
    await parts.data_plane.close()
    await store.close()


def row_of(api: str, version: int) -> Row:
    return [row for row in ROWS if row.api == api and row.since <= version][-1]


ASKED = sorted({row.api for row in ROWS} & set(APIS) - {"ApiVersions"})
"""ApiVersions is answered before anybody could be asked for rights."""


def test_every_api_has_a_row() -> None:
    assert set(APIS) - {row.api for row in ROWS} == set()


def errors(reply: Any, path: str = "") -> Iterator[tuple[str, int]]:
    """Every error code in a reply but 0, with the field that it stands in."""
    if isinstance(reply, ErrorCode):
        if reply is not ErrorCode.NONE:
            yield path, int(reply)
    elif isinstance(reply, Struct):
        for field in structs.fields(reply):
            place = f"{path}.{field.name}" if path else field.name
            yield from errors(getattr(reply, field.name), place)
    elif isinstance(reply, (tuple, list, Lazily)) or (
        isinstance(reply, Sequence) and not isinstance(reply, (str, bytes, memoryview))
    ):
        for one in reply:
            yield from errors(one, path)


def versions(api: str) -> range:
    return range(APIS[api].min_version, APIS[api].max_version + 1)


@pytest.mark.parametrize("api", ASKED)
async def test_se_72_without_any_right(world: World, api: str) -> None:
    for version in versions(api):
        row, access = row_of(api, version), Denied()
        reply, _ = await world.ask(api, version, row.fields(HERE), access)
        found: dict[str, set[int]] = {}
        for place, code in errors(reply):
            found.setdefault(place, set()).add(code)
        assert found == {place: {code} for place, code in row.errors.items()}, version
        asked = [f"{one.name} {LETTERS.get(kind, 'C')}" for one, kind, _ in access.audited]
        assert sorted(asked) == sorted(row.asked), "once each, and nothing that is silent"


@pytest.mark.parametrize("api", ASKED)
async def test_se_61_what_is_denied_looks_the_same_whether_it_exists_or_not(
    world: World, api: str
) -> None:
    for version in versions(api):
        row = row_of(api, version)
        if row.by_id or not row.errors:
            continue
        _, here = await world.ask(api, version, row.fields(HERE), Denied())
        _, elsewhere = await world.ask(api, version, row.fields(ELSEWHERE), Denied())
        for name in ("topic", "group", "txn"):
            here = here.replace(getattr(HERE, name).encode(), getattr(ELSEWHERE, name).encode())
        assert here == elsewhere, version
