"""SE-72 and SE-61: what a client without any right gets from every API, in every version.

The table is `denied_rows`. A new API without a row fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from msgspec import Struct, structs

from groupd.coordinator.core.types import Operation, Resource
from groupd.protocol.errors import ErrorCode
from groupd.protocol.messages.lazily import Lazily
from tests.unit.security.denied_rows import ROWS, Names, Row
from tests.unit.security.world import APIS, TOPIC_ID, Denied, World, written

HERE = Names("foo", "grp", "txn", TOPIC_ID)
ELSEWHERE = Names("bar", "nil", "tno", TOPIC_ID)
LETTERS = {Resource.TOPIC: "T", Resource.GROUP: "G", Resource.TRANSACTIONAL_ID: "X"}


def row_of(api: str, version: int) -> Row:
    return [row for row in ROWS if row.api == api and row.since <= version][-1]


ASKED = sorted({row.api for row in ROWS} & set(APIS) - {"ApiVersions"})
"""The APIs that are asked. ApiVersions is answered before anybody could be asked for rights."""


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
        if api == "OffsetFetch":  # only its encoder knows which of two places a version has
            reply = APIS[api].decode_reply(bytes(APIS[api].encode(reply, version)), 0, version)
        found: dict[str, set[int]] = {}
        for place, code in errors(reply):
            found.setdefault(place, set()).add(code)
        assert found == {place: {code} for place, code in row.errors.items()}, version
        asked = [f"{one.name} {LETTERS.get(kind, 'C')}" for one, kind, _ in access.audited]
        assert sorted(asked) == sorted(row.asked), "once each, and nothing that is silent"
        assert access.apis == ({api} if row.asked else set()), "the log names the request"


LATER = [
    ("DeleteTopics", ("DESCRIBE T",), "DELETE T"),
    ("ConsumerGroupHeartbeat", ("READ G",), "DESCRIBE T"),
    ("OffsetCommit", ("READ G",), "READ T"),
    ("OffsetFetch", ("DESCRIBE G",), "DESCRIBE T"),
    ("OffsetDelete", ("DELETE G",), "READ T"),
    ("AddPartitionsToTxn", ("WRITE X",), "WRITE T"),
    ("AddOffsetsToTxn", ("WRITE X",), "READ G"),
    ("TxnOffsetCommit", ("WRITE X",), "READ G"),
    ("TxnOffsetCommit", ("WRITE X", "READ G"), "READ T"),
]
"""Rights that the client has, and the first one that it lacks, in the words of `denied_rows`."""
BY_BROKERS_FROM = {"AddPartitionsToTxn": 4}
"""The version from which on brokers send it, and another right is asked for."""


def right(words: str) -> tuple[Operation, Resource, str]:
    operation, letter = words.split()
    resource = {letter: kind for kind, letter in LETTERS.items()}[letter]
    name = {"T": HERE.topic, "G": HERE.group, "X": HERE.txn}[letter]
    return Operation[operation], resource, name


@pytest.mark.parametrize(("api", "granted", "denied"), LATER)
async def test_se_72_a_second_right_that_is_missing_is_logged_once(
    world: World, api: str, granted: tuple[str, ...], denied: str
) -> None:
    asked = [right(words) for words in (*granted, denied)]
    for version in versions(api)[: BY_BROKERS_FROM.get(api)]:
        if version != written(api, version):
            continue  # topics have names there, and ids here
        access = Denied(*asked[:-1])
        await world.ask(api, version, row_of(api, version).fields(HERE), access)
        assert (access.audited, access.apis) == (asked, {api}), version


async def test_se_72_a_hidden_topic_of_a_described_group_is_logged_once(world: World) -> None:
    joining = {"member_id": "m", "member_epoch": 0, "rebalance_timeout": 1000,
               "topic_partitions": [], "subscribed_topic_names": ["foo"]}  # fmt: skip
    for group in ("one", "two"):
        await world.ask("ConsumerGroupHeartbeat", 1, {"group_id": group, **joining})
    asked = [(Operation.DESCRIBE, Resource.GROUP, group) for group in ("one", "two")]
    access = Denied(*asked)
    reply, _ = await world.ask("ConsumerGroupDescribe", 1, {"group_ids": ["one", "two"]}, access)
    assert [int(group.error) for group in reply.groups] == [29, 29]
    assert sorted(access.audited) == [(Operation.DESCRIBE, Resource.TOPIC, "foo"), *asked]
    assert access.apis == {"ConsumerGroupDescribe"}


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
