"""What bounds a client, and what clients have used (docs/spec/security.md#5.1)."""

from __future__ import annotations

import tracemalloc

import pytest

from groupd.coordinator.security import quotas as module
from groupd.coordinator.security.quota_entities import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    QuotaEntity,
)
from groupd.coordinator.security.quotas import Limit, Quotas
from groupd.protocol.errors import ApiError, ErrorCode

USER_ALICE, ANY_USER = (USER, "alice"), (USER, None)
CLIENT_A, ANY_CLIENT = (CLIENT_ID, "a"), (CLIENT_ID, None)

LEVELS: tuple[QuotaEntity, ...] = (
    (USER_ALICE, CLIENT_A),
    (USER_ALICE, ANY_CLIENT),
    (USER_ALICE,),
    (ANY_USER, CLIENT_A),
    (ANY_USER, ANY_CLIENT),
    (ANY_USER,),
    (CLIENT_A,),
    (ANY_CLIENT,),
)
"""The levels of quotas, the closest one first."""


class Time:
    now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def quotas(time: Time) -> Quotas:
    return Quotas(time)


def produce_limit(quotas: Quotas, user: str = "alice", client_id: str = "a") -> Limit:
    found = quotas.of(f"User:{user}", client_id)
    assert found is not None
    assert found.produce is not None
    return found.produce


def test_the_closest_of_eight_levels_counts(quotas: Quotas) -> None:  # SE-75
    quotas.change((entity, {PRODUCER_BYTE_RATE: 1 + n}) for n, entity in enumerate(LEVELS))
    for number, entity in enumerate(LEVELS):
        assert produce_limit(quotas).bound == 1 + number
        quotas.change([(entity, {})])
    assert quotas.of("User:alice", "a") is None
    assert not quotas.active


def test_each_quota_is_looked_for_by_itself(quotas: Quotas) -> None:
    quotas.change(
        [((USER_ALICE,), {PRODUCER_BYTE_RATE: 1}), ((ANY_CLIENT,), {REQUEST_PERCENTAGE: 2})]
    )
    found = quotas.of("User:alice", "b")
    assert found is not None
    assert found.produce == Limit((PRODUCER_BYTE_RATE, "alice", None), 1)
    assert found.request == Limit((REQUEST_PERCENTAGE, None, "b"), 2)
    assert found.fetch is found.mutation is None


@pytest.mark.parametrize(
    ("entity", "together"),
    [
        ((USER_ALICE,), [("alice", "a"), ("alice", "b")]),
        ((ANY_USER, CLIENT_A), [("alice", "a")]),
        ((ANY_CLIENT,), [("alice", "a"), ("bob", "a")]),
    ],
)
def test_who_shares_a_quota(
    quotas: Quotas, entity: QuotaEntity, together: list[tuple[str, str]]
) -> None:
    quotas.change([(entity, {PRODUCER_BYTE_RATE: 1000})])
    clients = [("alice", "a"), ("alice", "b"), ("bob", "a"), ("bob", "b")]
    quotas.produced(produce_limit(quotas), 20_000)
    slow = []
    for user, client_id in clients:
        found = quotas.of(f"User:{user}", client_id)
        if found is not None and found.produce is not None and quotas.produced(found.produce, 1):
            slow.append((user, client_id))
    assert slow == together


def test_addresses_have_quotas_of_their_own(quotas: Quotas) -> None:
    quotas.change(
        [
            (((IP, "10.0.0.7"),), {CONNECTION_CREATION_RATE: 5}),
            (((IP, None),), {CONNECTION_CREATION_RATE: 9}),
        ]
    )
    assert not quotas.active
    assert quotas.connection_rate("10.0.0.7") == 5
    assert quotas.connection_rate("10.0.0.8") == 9
    quotas.change([(((IP, None),), {})])
    assert quotas.connection_rate("10.0.0.8") is None


def test_a_changed_quota_holds_for_what_was_used_before(quotas: Quotas) -> None:
    quotas.change([((USER_ALICE,), {PRODUCER_BYTE_RATE: 10_000})])
    assert quotas.produced(produce_limit(quotas), 50_000) == 0
    quotas.change([((USER_ALICE,), {PRODUCER_BYTE_RATE: 1_000})])
    assert quotas.produced(produce_limit(quotas), 0) == 40_000


def test_a_refused_fetch_does_not_count(quotas: Quotas, time: Time) -> None:  # SE-74
    limit = Limit((CONSUMER_BYTE_RATE, "alice", None), 10_000)
    assert quotas.fetch_max(limit) == 100_000
    assert quotas.fetched(limit, 100_000) == 0
    for _ in range(3):
        assert quotas.fetched(limit, 50_000) == 5_000
    time.now_ms += 11_000
    assert quotas.fetched(limit, 50_000) == 0


def test_a_batch_above_the_most_comes_after_a_quiet_time(quotas: Quotas, time: Time) -> None:
    limit = Limit((CONSUMER_BYTE_RATE, "alice", None), 100)
    assert quotas.fetched(limit, 50_000) == 0
    assert quotas.fetched(limit, 1) > 0
    time.now_ms += 11_000
    assert quotas.fetched(limit, 50_000) == 0


def test_time_for_requests_costs_one_window_at_most(quotas: Quotas) -> None:  # SE-77
    limit = Limit((REQUEST_PERCENTAGE, "alice", None), 1)
    assert quotas.worked(limit, 100_000_000) == 0
    assert quotas.worked(limit, 10_000_000) == 1000
    assert quotas.worked(limit, 10_000_000_000) == 1000


def test_strict_mutations_are_refused_once_tokens_are_owed(quotas: Quotas, time: Time) -> None:
    limit = Limit((CONTROLLER_MUTATION_RATE, "alice", None), 1)
    strict = quotas.mutations(limit, strict=True)
    for _ in range(12):
        strict.take(1)
    with pytest.raises(ApiError) as refused:
        strict.take(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert strict.throttle_ms == 1000
    time.now_ms += 1000
    quotas.mutations(limit, strict=True).take(1)


def test_other_mutations_are_done_and_waited_for(quotas: Quotas) -> None:
    limit = Limit((CONTROLLER_MUTATION_RATE, "alice", None), 1)
    mutations = quotas.mutations(limit, strict=False)
    for _ in range(30):
        mutations.take(1)
    assert mutations.throttle_ms == 19_000


def test_without_a_quota_everything_may_be_created(quotas: Quotas) -> None:
    mutations = quotas.mutations(None, strict=True)
    mutations.take(1_000_000)
    assert mutations.throttle_ms == 0


def test_what_clients_used_is_forgotten(
    quotas: Quotas, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:  # SE-90
    quotas.change([((ANY_CLIENT,), {PRODUCER_BYTE_RATE: 1})])
    for number in range(module.CLIENTS_MAX + 500):
        quotas.produced(produce_limit(quotas, client_id=str(number)), 1)
    assert quotas.sensors == module.CLIENTS_MAX
    time.now_ms += module.IDLE_MS
    for number in range(module.CLIENTS_MAX):
        quotas.produced(produce_limit(quotas, client_id=f"new {number}"), 1)
    time.now_ms += 1
    quotas.produced(produce_limit(quotas), 1)
    assert quotas.sensors <= module.CLIENTS_MAX
    time.now_ms += module.IDLE_MS
    for _ in range(module.CLIENTS_MAX):
        quotas.produced(produce_limit(quotas), 1)
    assert quotas.sensors == 1


def test_long_names_of_clients_cost_no_memory(quotas: Quotas) -> None:
    """SE-90. Two of them are still two clients."""
    quotas.change([((ANY_USER, ANY_CLIENT), {PRODUCER_BYTE_RATE: 1})])
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number in range(1000):
            name = f"{number}".rjust(30_000)
            quotas.produced(produce_limit(quotas, name, name), 1)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert quotas.sensors == 1000
    assert after - before < 3_000_000


def test_listeners_hear_of_every_change(quotas: Quotas) -> None:
    heard: list[bool] = []
    quotas.add_listener(lambda: heard.append(quotas.active))
    quotas.change([((ANY_CLIENT,), {PRODUCER_BYTE_RATE: 1})])
    quotas.change([((ANY_CLIENT,), {})])
    assert heard == [True, False]
