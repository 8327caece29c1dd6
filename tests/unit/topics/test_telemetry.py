"""Telemetry over time: throttling, subscriptions that change, clients that are forgotten."""

from __future__ import annotations

import pytest

from groupd.coordinator.topics import telemetry
from groupd.coordinator.topics.telemetry import SUBSCRIPTIONS_MAX
from groupd.protocol.errors import ApiError, ErrorCode
from groupd.protocol.messages.telemetry import (
    NO_CLIENT,
    GetTelemetrySubscriptionsRequest,
    PushTelemetryRequest,
)
from groupd.protocol.messages.topics import (
    RESOURCE_CLIENT_METRICS,
    AlterConfig,
    AlterResource,
    IncrementalAlterConfigsRequest,
)

MINUTE_MS = 60_000


async def subscribe(cluster, name="all", **values):
    changes = tuple(
        AlterConfig(key.replace("_", "."), int(value is None), value)
        for key, value in values.items()
    )
    asked = AlterResource(RESOURCE_CLIENT_METRICS, name, changes)
    reply = await cluster.ask(IncrementalAlterConfigsRequest((asked,)))
    return reply.results[0].error


async def ask(cluster, client=NO_CLIENT):
    return await cluster.ask(GetTelemetrySubscriptionsRequest(client))


async def push(cluster, told, **fields):
    values = {"terminating": False, "compression": 0, "metrics": b"x", **fields}
    request = PushTelemetryRequest(told.client, told.subscription_id, **values)
    try:
        return (await cluster.ask(request)).error
    except ApiError as error:
        return error.code


async def test_pushes_keep_their_interval(cluster):
    assert await subscribe(cluster, metrics="a.,b", interval_ms="60000") == ErrorCode.NONE
    told = await ask(cluster)
    assert (told.metrics, told.push_interval_ms) == (("a.", "b"), MINUTE_MS)
    assert await push(cluster, told) == ErrorCode.NONE
    cluster.clock.advance(MINUTE_MS - 1)
    assert await push(cluster, told) == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    cluster.clock.advance(1)
    assert await push(cluster, told) == ErrorCode.NONE
    (instance,) = cluster.plane.telemetry.instances()
    shown = cluster.plane.telemetry.shown(instance)
    assert (shown["pushes"], shown["bytes"]) == (2, 2)
    assert (cluster.plane.telemetry.pushes, cluster.plane.telemetry.refused) == (2, 1)


async def test_a_changed_subscription_is_told_at_once(cluster):
    told = await ask(cluster)
    assert told.metrics == ()
    with pytest.raises(ApiError) as early:
        await ask(cluster, told.client)
    assert early.value.code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert await subscribe(cluster, metrics="*") == ErrorCode.NONE
    assert await push(cluster, told) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    again = await ask(cluster, told.client)
    assert (again.client, again.metrics) == (told.client, ("*",))
    cluster.clock.advance(again.push_interval_ms)
    assert await push(cluster, again) == ErrorCode.NONE


async def test_clients_are_matched(cluster):
    assert await subscribe(cluster, "one", metrics="a", match="client_id=x.*") == ErrorCode.NONE
    address = "client_source_address=127[.]0[.]0[.]1"
    assert await subscribe(cluster, "two", metrics="b", match=address) == ErrorCode.NONE
    assert (await ask(cluster)).metrics == ("b",)


async def test_subscriptions_survive_a_restart(cluster):
    assert await subscribe(cluster, metrics="*", interval_ms="1000") == ErrorCode.NONE
    await cluster.restart()
    told = await ask(cluster)
    assert (told.metrics, told.push_interval_ms) == (("*",), 1000)
    assert await subscribe(cluster, metrics=None, interval_ms=None) == ErrorCode.NONE
    assert await cluster.store.configs() == []
    assert (await ask(cluster)).metrics == ()


async def test_silent_clients_are_forgotten(cluster):
    assert await subscribe(cluster, metrics="*", interval_ms="1000") == ErrorCode.NONE
    await ask(cluster)
    cluster.clock.advance(MINUTE_MS - 1)
    await ask(cluster)
    assert cluster.plane.telemetry.clients == 2
    cluster.clock.advance(1)
    await ask(cluster)
    assert cluster.plane.telemetry.clients == 2


async def test_there_is_a_most_of_clients(cluster, monkeypatch):
    monkeypatch.setattr(telemetry, "CLIENTS_MAX", 3)
    first = await ask(cluster)
    for _ in range(3):
        await ask(cluster)
    assert cluster.plane.telemetry.clients == 3
    assert first.client not in cluster.plane.telemetry.instances()
    assert cluster.plane.telemetry.shown(first.client) is None


async def test_there_is_a_most_of_subscriptions(cluster):
    for number in range(SUBSCRIPTIONS_MAX):
        assert await subscribe(cluster, f"s{number}", metrics="a") == ErrorCode.NONE
    assert await subscribe(cluster, "more", metrics="a") == ErrorCode.POLICY_VIOLATION
    assert await subscribe(cluster, "s1", metrics="b") == ErrorCode.NONE
