"""A secured broker in one line: users, mechanisms, certificates and ACLs of the harness."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaError, Message, Producer
from kafka import KafkaConsumer

from groupd.coordinator.faults.errors import HarnessError
from groupd.testing.harness import GroupCoordinator

USERS = {"billing": "secret", "audit": 'q"uo\\te'}
ACLS = [
    "billing may READ,WRITE topic orders*",
    "billing may READ group billing",
    "audit may READ group *",
]
GROUP = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
SECURED: dict[str, Any] = {"topics": {"orders": 1}, "users": USERS, "acls": ACLS}
WAIT_S = 20.0


def polled(config: dict[str, Any], group: str = "billing") -> Message:
    """The first message or error that a consumer of confluent-kafka gets."""
    consumer = Consumer({**GROUP, **config, "group.id": group})
    consumer.subscribe(["orders"])
    try:
        found = consumer.poll(WAIT_S)
        assert found is not None
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"])
@pytest.mark.groupd(security="SASL_SSL", **SECURED)
def test_in_one_line(groupd: GroupCoordinator, mechanism: Any) -> None:
    groupd.produce("orders", ["a"])
    assert polled(groupd.client_config("billing", mechanism=mechanism)).value() == b"a"
    refused = polled(groupd.client_config("audit", mechanism=mechanism)).error()
    assert refused is not None
    assert refused.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


@pytest.mark.groupd(security="SSL", **SECURED)
def test_the_certificate_says_who_it_is(groupd: GroupCoordinator) -> None:
    groupd.produce("orders", ["a"])
    assert polled(groupd.client_config("billing")).value() == b"a"
    error = polled(groupd.client_config("billing"), group="elsewhere").error()
    assert error is not None
    assert error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED


@pytest.mark.groupd(security="SASL_PLAINTEXT", **SECURED)
def test_other_libraries(groupd: GroupCoordinator) -> None:
    groupd.produce("orders", ["a"])
    config = groupd.client_config("kafka-python", user="billing", mechanism="OAUTHBEARER")
    consumer = KafkaConsumer("orders", group_id="billing", auto_offset_reset="earliest", **config)
    assert next(iter(consumer)).value == b"a"
    consumer.close()


@pytest.mark.groupd(security="SASL_SSL", **SECURED)
async def test_aiokafka(groupd: GroupCoordinator) -> None:
    await groupd.aio.produce("orders", ["a"])
    login = await groupd.aio.login("billing")
    assert login.mechanism == "SCRAM-SHA-512"
    config = groupd.client_config("aiokafka", user="billing")
    async with AIOKafkaConsumer(
        "orders", group_id="billing", auto_offset_reset="earliest", **config
    ) as consumer:
        assert (await consumer.getone()).value == b"a"


@pytest.mark.groupd(security="SASL_PLAINTEXT", **SECURED)
def test_users_and_acls_change_while_it_runs(groupd: GroupCoordinator) -> None:
    groupd.produce("orders", ["a"])
    groupd.add_user("late", "pass")
    late = groupd.client_config("late")
    denied = polled(late).error()
    assert denied is not None
    groupd.add_acls(["late may READ topic orders", "late may READ group *"])
    assert polled(late).value() == b"a"
    groupd.remove_acls(["late may READ topic orders"])
    assert groupd.acls() == sorted(
        [
            "audit may READ group *",
            "billing may READ group billing",
            "billing may READ topic orders*",
            "billing may WRITE topic orders*",
            "late may READ group *",
        ]
    )
    groupd.remove_user("late")
    assert groupd.users() == ["audit", "billing"]
    groupd.restart()
    assert len(groupd.acls()) == 5
    groupd.restart(lose_memory=True)
    assert len(groupd.acls()) == 4
    groupd.create_topic("orders")
    producer = Producer(groupd.client_config("billing", role="producer"))
    errors: list[Any] = []
    producer.produce("orders", b"b", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(WAIT_S) == 0
    assert errors == [None]


def test_mistakes() -> None:
    for options, said in (
        ({"security": "SASL"}, "SASL_PLAINTEXT"),
        ({"users": USERS}, "users need security"),
        ({"security": "SASL_SSL", "mechanisms": ["SCRAM"]}, "mechanism .SCRAM.: PLAIN"),
        ({"acls": ["billing READ topic orders"]}, "write PRINCIPAL may"),
    ):
        with pytest.raises(HarnessError, match=said):
            GroupCoordinator.start(**options)  # type: ignore[arg-type]


@pytest.mark.groupd(security="SASL_PLAINTEXT", users=USERS)
def test_unknown_users_and_mechanisms(groupd: GroupCoordinator) -> None:
    with pytest.raises(HarnessError, match="did you mean billing"):
        groupd.client_config("confluent-kafka", user="biling")
    with pytest.raises(HarnessError, match="SECURITY_DISABLED"):
        groupd.add_acls(["billing may READ topic orders"])
    with pytest.raises(HarnessError, match="libraries"):
        groupd.client_config("biling")


@pytest.mark.groupd(security="SASL_SSL", control=True, process=True, **SECURED)
def test_over_http(groupd: GroupCoordinator, tmp_path: Path) -> None:
    def ask(path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{groupd.admin_url}{path}", data, headers)
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)

    assert ask("/control/users") == {"users": ["audit", "billing"]}
    ask("/control/users", {"name": "late", "password": "pass"})
    ask("/control/acls", {"rules": ["late may ALL topic *", "late may ALL group *"]})
    assert len(ask("/control/acls")["acls"]) == 6
    config = ask("/control/clients/confluent-kafka?user=late&mechanism=SCRAM-SHA-256")
    groupd.produce("orders", ["a"])
    assert polled(config).value() == b"a"
    text = ask("/control/clients/java/properties?user=late")["properties"]
    assert "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule" in text
    assert text == groupd.client_properties("late")
