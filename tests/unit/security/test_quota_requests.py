"""DescribeClientQuotas and AlterClientQuotas (docs/spec/security.md#5.1, SE-80)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from operator import itemgetter
from typing import TypeVar

import pytest

from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.core.types import NO_TOKEN, Operation, RequestContext
from groupd.coordinator.security.quota_requests import QuotaRequests
from groupd.coordinator.security.quotas import Quotas
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    DescribeClientQuotasRequest,
    EntityPart,
    QuotaAlteration,
    QuotaFilter,
    QuotaOperation,
)
from groupd.storage.log import LogCorrupt, LogUnavailable, SecurityEntry
from groupd.storage.memory import MemoryStore
from tests.support.access import ByRule

T = TypeVar("T")
Change = tuple[str, str, float | None]

ALICE, ANY_USER = ("user", "alice"), ("user", None)
APP, ANY_CLIENT = ("client-id", "app"), ("client-id", None)
RATE = "producer_byte_rate"

NONE, INVALID = ErrorCode.NONE, ErrorCode.INVALID_REQUEST


async def no_turn() -> None:
    """Gives nobody a turn: nobody else is there."""


class Asked:
    """Takes the requests, on a store of its own."""

    def __init__(self, most: int = 100) -> None:
        self.store = MemoryStore()
        asyncio.run(self.store.start())
        self.quotas = Quotas(lambda: 0)
        self.changes: list[Change] = []
        self.context = RequestContext(NO_TOKEN, 1)
        self.requests = self._on(self.quotas, most)

    def _on(self, quotas: Quotas, most: int) -> QuotaRequests:
        return QuotaRequests(
            self.store,
            CatalogueChanges(),
            quotas,
            most,
            no_turn,
            lambda by, *change: self.changes.append(change),
        )

    def alter(self, *entries: QuotaAlteration, validate_only: bool = False) -> list[ErrorCode]:
        request = AlterClientQuotasRequest(entries, validate_only)
        reply = asyncio.run(self.requests.alter(self.context, request))
        listed = [sorted(entry.entity, key=itemgetter(0)) for entry in entries]
        assert [list(result.entity) for result in reply.entries] == listed
        for result in reply.entries:
            assert (result.error_message is None) == (result.error is NONE)
        return [result.error for result in reply.entries]

    def put(self, *parts: EntityPart, **values: float) -> None:
        assert self.alter(put(*parts, **values)) == [NONE]

    def describe(self, *filters: QuotaFilter, strict: bool = False) -> set[tuple[EntityPart, ...]]:
        request = DescribeClientQuotasRequest(filters, strict)
        reply = asyncio.run(self.requests.describe(self.context, request))
        assert reply.entries is not None
        return {entry.entity for entry in reply.entries}

    def stored(self) -> Quotas:
        """What another start would find."""
        found = Quotas(lambda: 0)
        asyncio.run(self._on(found, 100).load())
        return found


def put(*parts: EntityPart, **values: float) -> QuotaAlteration:
    return QuotaAlteration(parts, tuple(QuotaOperation(*value) for value in values.items()))


def remove(*parts: EntityPart, key: str = RATE) -> QuotaAlteration:
    return QuotaAlteration(parts, (QuotaOperation(key, remove=True),))


@pytest.fixture
def asked() -> Asked:
    return Asked()


def test_set_changed_removed_and_kept(asked: Asked) -> None:
    asked.put(ALICE, APP, producer_byte_rate=1000, request_percentage=12.5)
    asked.put(APP, ALICE, producer_byte_rate=2000)
    asked.put(("ip", "10.0.0.7"), connection_creation_rate=3)
    values = {RATE: 2000, "request_percentage": 12.5}
    kept = {(ALICE, APP): values, (("ip", "10.0.0.7"),): {"connection_creation_rate": 3}}
    assert asked.quotas.entries == asked.stored().entries == kept
    assert asked.alter(remove(ALICE, APP), remove(ALICE, APP, key="request_percentage")) == [
        NONE,
        INVALID,
    ]
    assert asked.alter(remove(ALICE, APP, key="request_percentage")) == [NONE]
    assert list(asked.quotas.entries) == list(asked.stored().entries) == [(("ip", "10.0.0.7"),)]
    assert asked.changes == [
        ("user alice, client-id app", RATE, 1000),
        ("user alice, client-id app", "request_percentage", 12.5),
        ("user alice, client-id app", RATE, 2000),
        ("ip 10.0.0.7", "connection_creation_rate", 3),
        ("user alice, client-id app", RATE, None),
        ("user alice, client-id app", "request_percentage", None),
    ]


def test_removing_what_is_not_there_succeeds(asked: Asked) -> None:
    assert asked.alter(remove(ALICE), remove(ANY_USER, key="no such")) == [NONE, NONE]
    assert asked.changes == []


@pytest.mark.parametrize(
    "entry",
    [
        put(producer_byte_rate=1),
        put(("group", "g"), producer_byte_rate=1),
        put(ALICE, ANY_USER, producer_byte_rate=1),
        put(("user", ""), producer_byte_rate=1),
        put(ALICE, ("ip", "10.0.0.7"), producer_byte_rate=1),
        put(("ip", "no address"), connection_creation_rate=1),
        put(ALICE, connection_creation_rate=1),
        put(("ip", None), producer_byte_rate=1),
        put(ALICE, no_such=1),
        put(ALICE, producer_byte_rate=0),
        put(ALICE, producer_byte_rate=-1),
        put(ALICE, producer_byte_rate=1.5),
        put(ALICE, producer_byte_rate=1e20),
        put(ALICE, request_percentage=float("nan")),
        put(ALICE, request_percentage=float("inf")),
        put(("ip", None), connection_creation_rate=2**31),
        QuotaAlteration((ALICE,), (QuotaOperation(RATE, 1), QuotaOperation(RATE, remove=True))),
        QuotaAlteration((ALICE,), tuple(QuotaOperation(str(n), remove=True) for n in range(101))),
    ],
)
def test_field_errors_leave_the_other_entries_alone(asked: Asked, entry: QuotaAlteration) -> None:
    good = put(APP, consumer_byte_rate=1)
    assert asked.alter(entry, good) == [INVALID, NONE]
    assert list(asked.quotas.entries) == [(APP,)]


def test_an_entity_named_twice(asked: Asked) -> None:
    entries = put(ALICE, APP, producer_byte_rate=1), put(APP, ALICE, producer_byte_rate=2)
    assert asked.alter(*entries) == [NONE, INVALID]


def test_addresses_have_one_form(asked: Asked) -> None:
    asked.put(("ip", "::ffff:10.0.0.7"), connection_creation_rate=3)
    asked.put(("ip", "0:0:0:0:0:0:0:1"), connection_creation_rate=4)
    assert asked.quotas.connection_rate("10.0.0.7") == 3
    assert asked.quotas.connection_rate("::1") == 4


def test_validate_only_changes_nothing(asked: Asked) -> None:
    entries = put(ALICE, producer_byte_rate=1), put(APP, producer_byte_rate=-1)
    assert asked.alter(*entries, validate_only=True) == [NONE, INVALID]
    assert not asked.quotas.entries
    assert not asked.stored().entries
    assert asked.changes == []


def test_the_number_of_entities_is_limited() -> None:
    asked = Asked(most=2)
    users = [put(("user", str(n)), producer_byte_rate=1) for n in range(3)]
    assert asked.alter(*users) == [NONE, NONE, ErrorCode.POLICY_VIOLATION]
    assert asked.alter(remove(("user", "0")), users[2], users[1]) == [NONE, NONE, NONE]


def test_describe(asked: Asked) -> None:
    for parts in ((ALICE,), (ANY_USER,), (ALICE, APP), (ALICE, ANY_CLIENT), (APP,)):
        asked.put(*parts, producer_byte_rate=1)
    asked.put(("ip", "::1"), connection_creation_rate=1)
    alice, default, anyone = (
        QuotaFilter("user", 0, "alice"),
        QuotaFilter("user", 1),
        QuotaFilter("user", 2),
    )
    of_alice = {(ALICE,), (APP, ALICE), (ANY_CLIENT, ALICE)}
    assert len(asked.describe()) == 6
    assert asked.describe(strict=True) == set()
    assert asked.describe(alice) == of_alice
    assert asked.describe(alice, strict=True) == {(ALICE,)}
    assert asked.describe(default) == {(ANY_USER,)}
    assert asked.describe(anyone) == {*of_alice, (ANY_USER,)}
    assert asked.describe(anyone, QuotaFilter("client-id", 1)) == {(ANY_CLIENT, ALICE)}
    assert asked.describe(QuotaFilter("ip", 2)) == {(("ip", "::1"),)}


@pytest.mark.parametrize(
    ("filters", "code"),
    [
        ((QuotaFilter("", 2),), 42),
        ((QuotaFilter("user", 2), QuotaFilter("user", 1)), 42),
        ((QuotaFilter("user", 0),), 42),
        ((QuotaFilter("user", 1, "alice"),), 42),
        ((QuotaFilter("user", 2, "alice"),), 42),
        ((QuotaFilter("user", 3),), 42),
        ((QuotaFilter("user", 2), QuotaFilter("ip", 2)), 42),
        ((QuotaFilter("group", 2),), 35),
    ],
)
def test_filters_that_cannot_be(asked: Asked, filters: tuple[QuotaFilter, ...], code: int) -> None:
    with pytest.raises(ApiError) as refused:
        asked.describe(*filters)
    assert refused.value.code == code


def test_rights(asked: Asked) -> None:
    asked.put(ALICE, producer_byte_rate=1)
    asks: list[tuple[Callable[[], object], Operation]] = [
        (asked.describe, Operation.DESCRIBE_CONFIGS),
        (lambda: asked.alter(remove(ALICE)), Operation.ALTER_CONFIGS),
    ]
    for ask, needed in asks:
        access = ByRule(lambda operation, *_, needed=needed: operation is not needed)
        asked.context = RequestContext(NO_TOKEN, 1, access=access)
        with pytest.raises(ApiError) as refused:
            ask()
        assert refused.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert (ALICE,) in asked.quotas.entries


def test_nothing_changes_when_the_store_fails(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(changes: object) -> Awaitable[None]:
        raise LogUnavailable("no")

    monkeypatch.setattr(asked.store, "change_security", fails)
    with pytest.raises(ApiError) as refused:
        asked.alter(put(ALICE, producer_byte_rate=1))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not asked.quotas.entries
    assert asked.changes == []


def test_a_damaged_entry_is_reported(asked: Asked) -> None:
    asyncio.run(asked.store.change_security([SecurityEntry("quota", "[", "{}")]))
    with pytest.raises(LogCorrupt):
        asked.stored()
