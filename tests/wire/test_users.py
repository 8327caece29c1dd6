"""Users over the wire: DescribeUserScramCredentials and AlterUserScramCredentials, and delegation
tokens, of which there are none (`docs/spec/security.md#6`).

Holds for a real broker too (GROUPD_PEER=kafka), but for what says so.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from groupd.protocol.errors import ErrorCode
from tests.support.daemon import Daemon
from tests.support.peer import peer_kind, running
from tests.support.process import wait_until
from tests.support.wire_client import WireClient

SHA_256, SHA_512 = 1, 2
SIZES = {SHA_256: 32, SHA_512: 64}
groupd_only = pytest.mark.skipif(peer_kind() == "kafka", reason="stricter than Kafka")


def put(user: str, mechanism: int = SHA_256, iterations: int = 4096, **fields: Any) -> Any:
    salted = hashlib.sha512(b"secret").digest()[: SIZES.get(mechanism, 32)]
    asked = {"name": user, "mechanism": mechanism, "iterations": iterations, "salt": b"salt"}
    return asked | {"salted_password": salted} | fields


def drop(user: str, mechanism: int = SHA_256) -> Any:
    return {"name": user, "mechanism": mechanism}


def alter(client: WireClient, puts: Iterable[Any] = (), drops: Iterable[Any] = ()) -> Any:
    """Changes users: user -> error code. A message goes with every error."""
    results = altered(client, puts, drops)
    assert all(bool(message) == bool(code) for code, message in results.values())
    return {user: code for user, (code, _) in results.items()}


def altered(client: WireClient, puts: Iterable[Any] = (), drops: Iterable[Any] = ()) -> Any:
    """Changes users: user -> (error code, message)."""
    fields = {"deletions": list(drops), "upsertions": list(puts)}
    results = client.call("AlterUserScramCredentials", 0, **fields)["results"]
    return {one["user"]: (one["error_code"], one["error_message"]) for one in results}


def describe(client: WireClient, users: list[str] | None) -> Any:
    """User -> (error code, iterations by mechanism)."""
    asked = None if users is None else [{"name": user} for user in users]
    reply = client.call("DescribeUserScramCredentials", 0, users=asked)
    assert reply["error_code"] == 0
    return {
        one["user"]: (
            one["error_code"],
            {info["mechanism"]: info["iterations"] for info in one["credential_infos"]},
        )
        for one in reply["results"]
    }


def until_described(client: WireClient, user: str, iterations: dict[int, int]) -> None:
    """Waits, because a broker of Kafka hears of a change after the controller has answered."""
    code = 0 if iterations else ErrorCode.RESOURCE_NOT_FOUND
    expected = {user: (code, iterations)}
    wait_until(lambda: describe(client, [user]) == expected, 10, f"{user} has {iterations}")


@pytest.fixture
def user() -> str:
    return f"üser-{uuid.uuid4().hex}"


def test_made_changed_and_deleted(client: WireClient, user: str) -> None:
    other = f"{user}=,2"
    assert alter(client, [put(user), put(other, SHA_512, 16384)]) == {user: 0, other: 0}
    until_described(client, user, {SHA_256: 4096})
    until_described(client, other, {SHA_512: 16384})
    assert alter(client, [put(user, SHA_512)]) == {user: 0}
    assert alter(client, [put(user, SHA_256, 5000)]) == {user: 0}
    until_described(client, user, {SHA_256: 5000, SHA_512: 4096})
    for every in (None, []):
        found = describe(client, every)
        assert found[user] == (0, {SHA_256: 5000, SHA_512: 4096})
        assert found[other] == (0, {SHA_512: 16384})
    assert alter(client, drops=[drop(user), drop(other, SHA_512)]) == {user: 0, other: 0}
    until_described(client, user, {SHA_512: 4096})
    until_described(client, other, {})


def test_refused(client: WireClient, user: str) -> None:
    """SE-81. Good entries of the same request are done."""
    names = {case: f"{case} {user}" for case in ("few", "many", "mechanism", "unknown", "good")}
    puts = [
        put(names["few"], iterations=4095),
        put(names["many"], iterations=16385),
        put(names["mechanism"], 3),
        put(names["good"]),
        put(""),
    ]
    unacceptable = ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert altered(client, puts, [drop(names["unknown"])]) == {
        names["few"]: (unacceptable, "Too few iterations"),
        names["many"]: (unacceptable, "Too many iterations"),
        names["mechanism"]: (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        names["unknown"]: (
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
        names["good"]: (0, None),
        "": (unacceptable, "Username must not be empty"),
    }
    until_described(client, names["good"], {SHA_256: 4096})
    assert describe(client, [names["few"]])[names["few"]][0] == ErrorCode.RESOURCE_NOT_FOUND


def test_a_user_twice(client: WireClient, user: str) -> None:
    """SE-81: neither change is made."""
    assert alter(client, [put(user)]) == {user: 0}
    until_described(client, user, {SHA_256: 4096})
    both = altered(client, [put(user, SHA_512)], [drop(user)])
    text = "A user credential cannot be altered twice in the same request"
    assert both == {user: (ErrorCode.DUPLICATE_RESOURCE, text)}
    until_described(client, user, {SHA_256: 4096})
    assert describe(client, [user, user]) == {user: (ErrorCode.DUPLICATE_RESOURCE, {})}


def test_who_cannot_be_described(client: WireClient, user: str) -> None:
    """SE-81, in the words that Kafka's tests look for."""
    asked = [{"name": name} for name in (user, "twice", "twice")]
    reply = client.call("DescribeUserScramCredentials", 0, users=asked)
    assert {one["user"]: one["error_message"] for one in reply["results"]} == {
        user: f"Attempt to describe a user credential that does not exist: {user}",
        "twice": (
            "Cannot describe SCRAM credentials for the same user twice in a single request: twice"
        ),
    }


@groupd_only
def test_salted_passwords_have_their_size(client: WireClient, user: str) -> None:
    puts = [put("short " + user, salted_password=b"x"), put("no salt " + user, salt=b"")]
    assert set(alter(client, puts).values()) == {ErrorCode.UNACCEPTABLE_CREDENTIAL}


def test_delegation_tokens(client: WireClient) -> None:
    """SE-82. kio cannot read the times in the replies of the other three: see the unit tests."""
    for version in (1, 2, 3):
        reply = client.call("DescribeDelegationToken", version, owners=None)
        assert reply["error_code"] == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        assert reply["tokens"] == []


@groupd_only
def test_users_outlive_a_broker(tmp_path: Path, user: str) -> None:
    """They outlive kill -9 too."""
    with running(Daemon(tmp_path)) as daemon:
        with WireClient(daemon.host, daemon.port) as client:
            assert alter(client, [put(user, SHA_512, 5000)]) == {user: 0}
        daemon.restart()
        with WireClient(daemon.host, daemon.port) as client:
            assert describe(client, None) == {user: (0, {SHA_512: 5000})}
