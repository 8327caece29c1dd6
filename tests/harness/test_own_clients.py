"""Clients that the broker makes for a test and closes with it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException

from groupd.coordinator.faults.errors import HarnessError, WrongType
from groupd.testing.client_calls import spelled
from groupd.testing.harness import GroupCoordinator, GroupCoordinatorFactory
from tests.harness.test_plugin import SCOPE, run

ROOT = Path(__file__).resolve().parents[2]
SECURED = (("SASL_PLAINTEXT", "PLAIN"), ("SASL_SSL", "OAUTHBEARER"), ("SSL", None))


@pytest.fixture
def c(groupd: GroupCoordinator) -> GroupCoordinator:
    groupd.create_topic("orders", 3)
    groupd.produce("orders", ["coffee"])
    return groupd


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_reads_from_the_start_and_leaves_at_the_end(
    c: GroupCoordinator, protocol: str
) -> None:
    consumer = c.consumer("billing", "orders", protocol=protocol, enable_auto_commit=False)
    assert isinstance(consumer, Consumer)
    message = consumer.poll(10)
    assert message.value() == b"coffee"
    kind = c.wait_stable("billing", members=1)["type"]
    assert kind == protocol
    c.close_clients()
    c.wait_members("billing", 0)
    assert c.committed("billing") == {}, "enable.auto.commit is off"


def test_records_that_no_poll_has_returned_are_not_committed_at_the_end(
    c: GroupCoordinator,
) -> None:
    c.produce("orders", ["tea", "milk", "water", "juice"] * 5)
    consumer = c.consumer("billing", "orders", enable_auto_commit=True)
    read = consumer.poll(10)
    c.close_clients()
    assert c.committed("billing") == {("orders", read.partition()): read.offset() + 1}


def test_clients_of_aiokafka_are_stopped_with_the_test(pytester: pytest.Pytester) -> None:
    source = """
import asyncio, pytest

OPEN = []

@pytest.mark.groupd(topics={"orders": 1})
async def test_it(groupd):
    producer = groupd.producer(library="aiokafka", acks="all")
    await producer.start()
    await producer.send_and_wait("orders", b"coffee")
    consumer = groupd.consumer("billing", "orders", library="aiokafka", enable_auto_commit=False)
    await consumer.start()
    assert (await consumer.getone()).value == b"coffee"
    OPEN.extend([producer, consumer])

def test_they_are_closed():
    assert [client._closed for client in OPEN] == [True, True]
"""
    result = run(pytester, source, "-W", "error", "-o", "asyncio_mode=auto", "-o", SCOPE)
    result.assert_outcomes(passed=2)


async def test_a_broker_in_a_coroutine_stops_them_too() -> None:
    async with GroupCoordinator.start_async({"orders": 1}) as c:
        producer = c.producer(library="aiokafka")
        await producer.start()
    assert producer._closed


@pytest.mark.parametrize(("security", "mechanism"), SECURED)
def test_a_user_logs_in_whatever_the_security(
    groupd_factory: GroupCoordinatorFactory, security: str, mechanism: str | None
) -> None:
    c = groupd_factory({"orders": 1}, security=security, users={"billing": "secret"}, acls=[])  # type: ignore[arg-type]
    c.add_acls(["billing may READ,WRITE topic orders", "billing may READ group billing"])
    login = {"user": "billing", "mechanism": mechanism}
    producer = c.producer(**login)
    producer.produce("orders", b"coffee")
    assert producer.flush(10) == 0
    assert c.consumer("billing", "orders", **login).poll(10).value() == b"coffee"


async def test_a_user_logs_in_with_aiokafka(groupd_factory: GroupCoordinatorFactory) -> None:
    c = groupd_factory({"orders": 1}, security="SASL_SSL", users={"billing": "secret"})
    await c.aio.produce("orders", ["coffee"])
    async with c.consumer("billing", "orders", library="aiokafka", user="billing") as consumer:
        assert (await consumer.getone()).value == b"coffee"


def test_a_test_may_close_its_clients_and_break_the_broker(c: GroupCoordinator) -> None:
    c.consumer("billing").close()
    stuck = c.consumer("billing", "orders", protocol="consumer")
    c.wait_members("billing", 1)
    c.fault("drop", api="heartbeat")
    c.faults.hold_appends()
    c.close()
    with pytest.raises(RuntimeError, match="closed"):
        stuck.poll(0)


MISTAKES: dict[str, Callable[[GroupCoordinator], object]] = {
    "library 'aiokafak'; did you mean aiokafka?: must be confluent-kafka or aiokafka": (
        lambda c: c.consumer("billing", "orders", library="aiokafak")
    ),
    "a client of aiokafka can only be made in a coroutine": (
        lambda c: c.consumer("billing", "orders", library="aiokafka")
    ),
    "no user 'bill'; users: none": lambda c: c.producer(user="bill"),
    "aiokafka does not speak the consumer protocol": (
        lambda c: c.consumer("billing", library="aiokafka", protocol="consumer")
    ),
}


@pytest.mark.parametrize("said", MISTAKES)
def test_what_cannot_be_made_says_why(c: GroupCoordinator, said: str) -> None:
    with pytest.raises(HarnessError) as caught:
        MISTAKES[said](c)
    assert str(caught.value) == said


def test_topics_are_names_and_settings_those_of_the_library(c: GroupCoordinator) -> None:
    with pytest.raises(WrongType, match="topics are names, not list"):
        c.consumer("billing", ["orders"])  # type: ignore[arg-type]
    with pytest.raises(KafkaException, match="enable"):
        c.consumer("billing", "orders", enable_auto_comit=False)


def test_keywords_and_a_dictionary_are_settings() -> None:
    given = {"enable_auto_commit": False, "error_cb": print, "logger": None}
    made = spelled("confluent-kafka", given)
    assert made == {"enable.auto.commit": False, "error_cb": print, "logger": None}
    assert spelled("aiokafka", given) == given


def test_a_library_that_is_missing_is_named(
    c: GroupCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupd.testing.client_calls.find_spec", lambda name: None)
    with pytest.raises(HarnessError, match="aiokafka is not installed: pip install aiokafka"):
        c.consumer("billing", "orders", library="aiokafka")
    with pytest.raises(HarnessError, match="confluent-kafka or aiokafka is not installed"):
        c.producer()


GONE = """
import os, time
from groupd.testing import GroupCoordinator
from confluent_kafka import Consumer

c = GroupCoordinator.start({"orders": 1})
c.produce("orders", ["coffee"])
settings = {"group.id": "billing", "auto.offset.reset": "earliest"}
consumer = Consumer(c.client_config("confluent-kafka") | settings)
consumer.subscribe(["orders"])
assert consumer.poll(20).value() == b"coffee"
c.close()
end = time.monotonic() + 3
while time.monotonic() < end:
    consumer.poll(0.1)
os._exit(0)  # close() would wait for the broker for as long as a session
"""


def test_a_broker_that_is_gone_is_a_few_lines() -> None:
    """librdkafka begins anew with its list of one broker, without a pause: 230 of them."""
    done = subprocess.run(
        [sys.executable, "-c", GONE], cwd=ROOT, capture_output=True, text=True, check=True
    )
    lines = done.stderr.splitlines()
    assert any("Connection refused" in line for line in lines), "errors are not hidden"
    assert len(lines) < 15, done.stderr
