"""Quotas over the wire: the order in which an entity is listed, and the words of refusals that
Kafka's tools and tests look for (`docs/spec/security.md#5.1`).

Holds for a real broker too (GROUPD_PEER=kafka).
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from groupd.protocol.errors import ErrorCode
from tests.support.process import wait_until
from tests.support.wire_client import WireClient

Parts = list[tuple[str, str | None]]

RATE = "consumer_byte_rate"
EXACT, _, ANY = range(3)


def entity(parts: Parts) -> list[dict[str, str | None]]:
    return [{"entity_type": kind, "entity_name": name} for kind, name in parts]


def put(client: WireClient, parts: Parts) -> tuple[int, str | None, Parts]:
    """Sets a quota: code, message and the entity of the reply."""
    entry = {"entity": entity(parts), "ops": [{"key": RATE, "value": 1e6, "remove": False}]}
    reply = client.call("AlterClientQuotas", 1, entries=[entry], validate_only=False)
    (found,) = reply["entries"]
    return found["error_code"], found["error_message"], parts_of(found)


def parts_of(entry: Any) -> Parts:
    return [(part["entity_type"], part["entity_name"]) for part in entry["entity"]]


def describe(client: WireClient, *components: tuple[str, int, str | None]) -> Any:
    asked = [
        {"entity_type": kind, "match_type": match, "match": name}
        for kind, match, name in components
    ]
    return client.call("DescribeClientQuotas", 1, components=asked, strict=False)


@pytest.mark.parametrize("name", [None, "alice"])
@pytest.mark.parametrize("turned", [False, True])
def test_the_client_id_stands_before_the_user(
    client: WireClient, name: str | None, turned: bool
) -> None:
    client_id = uuid.uuid4().hex
    listed: Parts = [("client-id", client_id), ("user", name)]
    asked = [*reversed(listed)] if turned else listed
    assert put(client, asked) == (0, None, listed)

    def shown() -> list[Parts]:
        reply = describe(client, ("client-id", EXACT, client_id))
        return [parts_of(one) for one in reply["entries"] or ()]

    wait_until(lambda: shown() == [listed], 10, "the quota", lambda: str(shown()))


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ([("user", "alice"), ("ip", "1.2.3.4")], "Invalid quota entity combination"),
        ([("client-id", "c"), ("ip", None)], "Invalid quota entity combination"),
        ([("ip", "not an address")], "not a valid IP"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_entities_that_cannot_be(client: WireClient, parts: Parts, text: str) -> None:
    code, message, _ = put(client, parts)
    assert code == ErrorCode.INVALID_REQUEST
    assert text in str(message)


def test_filters_that_cannot_be_combined(client: WireClient) -> None:
    reply = describe(client, ("user", EXACT, "alice"), ("ip", ANY, None))
    assert reply["error_code"] == ErrorCode.INVALID_REQUEST
    assert "Invalid entity filter component combination" in reply["error_message"]
