"""Users that log in with SCRAM, made by Kafka's tools and by the Admin clients of Python."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.admin import KafkaAdminClient
from kafka.admin import ScramMechanism as PyScramMechanism
from kafka.admin import UserScramCredentialDeletion as PyDeletion
from kafka.admin import UserScramCredentialUpsertion as PyUpsertion

from tests.clients.group import SETTLE_S
from tests.clients.kafka_tool_calls import Run, shows
from tests.support.peer import Peer
from tests.support.process import wait_until

TIMEOUT_S = 20
RESOURCE_NOT_FOUND = 91
SHA_512 = PyScramMechanism.SCRAM_SHA_512


@shows(
    "kafka-configs",
    "--entity-type users --alter --add-config SCRAM-SHA-256=[...] | --delete-config",
    "--entity-type users [--entity-name USER] --describe",
)
def test_users(run: Run, peer: Peer, unique: str) -> None:
    user = f"user-{unique}"
    entity = ["--entity-type", "users", "--entity-name", user, "--alter"]
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    added = "SCRAM-SHA-256=[iterations=8192,password=secret]"
    run("kafka-configs", *entity, "--add-config", added)
    run("kafka-configs", *entity, "--add-config", "SCRAM-SHA-512=[password=secret]")
    expected = {"SCRAM_SHA_256": 8192, "SCRAM_SHA_512": 4096}
    wait_until(lambda: described(admin, user) == expected, SETTLE_S, "both are there")
    for shown in (entity[:-1], entity[:2]):
        said = run("kafka-configs", *shown, "--describe").out
        assert f"'{user}' are SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096" in said
    run("kafka-configs", *entity, "--delete-config", "SCRAM-SHA-256")
    wait_until(lambda: described(admin, user) == {"SCRAM_SHA_512": 4096}, SETTLE_S, "one is left")
    refused = run("kafka-configs", *entity, "--delete-config", "SCRAM-SHA-256", exits=1)
    assert "ResourceNotFoundException" in refused.err
    few = ["--add-config", "SCRAM-SHA-256=[iterations=4095,password=secret]"]
    assert "4096" in run("kafka-configs", *entity, *few, exits=1).err


def described(admin: AdminClient, user: str) -> dict[str, int] | None:
    """Mechanism -> iterations; None for an unknown user."""
    future = admin.describe_user_scram_credentials([user])[user]
    error = future.exception(TIMEOUT_S)
    if error is not None:
        assert error.args[0].code() == RESOURCE_NOT_FOUND
        return None
    return {one.mechanism.name: one.iterations for one in future.result().scram_credential_infos}


@shows("kafka-delegation-tokens", "--create | --renew | --expire | --describe (refused)")
def test_delegation_tokens(run: Run) -> None:
    """There are none. SE-82."""
    calls = [
        ["--create", "--max-life-time-period", "-1"],
        ["--renew", "--renew-time-period", "-1", "--hmac", "AAAA"],
        ["--expire", "--expiry-time-period", "-1", "--hmac", "AAAA"],
        ["--describe"],
    ]
    for call in calls:
        said = run("kafka-delegation-tokens", "--command-config", "/dev/null", *call, exits=1)
        assert "DelegationTokenDisabledException" in said.err or "not allowed" in said.err


def test_confluent_admin(peer: Peer, unique: str) -> None:
    admin = AdminClient({"bootstrap.servers": peer.bootstrap})
    user = f"confluent-{unique}"
    first = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192)
    second = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)

    def alter(change: Any) -> None:
        (future,) = admin.alter_user_scram_credentials([change]).values()
        assert future.result(TIMEOUT_S) is None

    alter(UserScramCredentialUpsertion(user, first, b"secret"))
    alter(UserScramCredentialUpsertion(user, second, b"secret", b"salt"))
    expected = {"SCRAM_SHA_256": 8192, "SCRAM_SHA_512": 4096}
    wait_until(lambda: described(admin, user) == expected, SETTLE_S, "both are there")
    every = admin.describe_user_scram_credentials().result(TIMEOUT_S)
    assert user in every
    alter(UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_256))
    alter(UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512))
    wait_until(lambda: described(admin, user) is None, SETTLE_S, "both are gone")
    with pytest.raises(KafkaException) as refused:
        alter(UserScramCredentialDeletion(user, ScramMechanism.SCRAM_SHA_512))
    assert refused.value.args[0].code() == RESOURCE_NOT_FOUND


@pytest.fixture
def kafka_python(peer: Peer) -> Iterator[KafkaAdminClient]:
    made = KafkaAdminClient(bootstrap_servers=peer.bootstrap)
    yield made
    made.close()


def test_kafka_python_admin(kafka_python: KafkaAdminClient, unique: str) -> None:
    user = f"python-{unique}"
    there = {"error": None, "credential_infos": [{"mechanism": SHA_512, "iterations": 5000}]}
    alter, describe = (
        kafka_python.alter_user_scram_credentials,
        kafka_python.describe_user_scram_credentials,
    )
    assert alter([PyUpsertion(user, SHA_512, b"secret", 5000)]) == {user: None}
    wait_until(lambda: describe([user]) == {user: there}, SETTLE_S, "it is there")
    assert describe()[user] == there
    assert alter([PyDeletion(user, SHA_512)]) == {user: None}
    wait_until(lambda: describe([user])[user]["error"], SETTLE_S, "it is gone")
    assert alter([PyDeletion(user, SHA_512)])[user]
