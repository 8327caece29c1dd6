"""What `records`, `wait_records` and `lag` say of committed, aborted and open transactions."""

from __future__ import annotations

import http.client
import json
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer, Producer

from groupd.coordinator.faults.errors import HarnessError, WaitTimeout
from groupd.testing.harness import GroupCoordinator


@pytest.fixture
def c(groupd_factory: Any) -> GroupCoordinator:
    started: GroupCoordinator = groupd_factory(topics={"orders": 1}, control=True)
    return started


@pytest.fixture
def producer(c: GroupCoordinator) -> Producer:
    made = Producer({"bootstrap.servers": c.bootstrap_servers, "transactional.id": "t"})
    made.init_transactions(10)
    return made


def transaction(producer: Producer, *values: str) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce("orders", value)
    assert producer.flush(10) == 0


def values(c: GroupCoordinator, **options: Any) -> list[bytes | None]:
    return [record.value for record in c.records("orders", **options)]


def read_by_a_consumer(c: GroupCoordinator, isolation: str, wanted: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": c.bootstrap_servers,
            "group.id": isolation,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
        }
    )
    consumer.subscribe(["orders"])
    found: list[bytes] = []
    while len(found) < wanted:
        message = consumer.poll(10)
        assert message is not None
        found.append(message.value())
    consumer.close()
    return found


def test_aborted_records_are_left_out_as_consumers_leave_them_out(
    c: GroupCoordinator, producer: Producer
) -> None:
    c.produce("orders", ["plain"])
    transaction(producer, "aborted-1", "aborted-2")
    producer.abort_transaction(10)
    transaction(producer, "kept")
    producer.commit_transaction(10)
    c.produce("orders", ["after"])
    committed = [b"plain", b"kept", b"after"]
    everything = [b"plain", b"aborted-1", b"aborted-2", b"kept", b"after"]
    assert values(c) == committed
    assert values(c, isolation="read_committed") == committed
    assert values(c, isolation="read_uncommitted") == everything
    assert read_by_a_consumer(c, "read_committed", 3) == committed
    assert read_by_a_consumer(c, "read_uncommitted", 5) == everything


def test_an_open_transaction_hides_all_that_follows_until_it_ends(
    c: GroupCoordinator, producer: Producer
) -> None:
    c.produce("orders", ["before"])
    transaction(producer, "open")
    c.produce("orders", ["behind"])
    assert values(c) == [b"before"]
    assert values(c, isolation="read_uncommitted") == [b"before", b"open", b"behind"]
    producer.abort_transaction(10)
    assert values(c) == [b"before", b"behind"]


def test_a_wait_sees_a_transaction_when_it_is_committed(
    c: GroupCoordinator, producer: Producer
) -> None:
    transaction(producer, "one", "two")
    waited = c.wait_records("orders", 2, isolation="read_uncommitted")
    assert [record.value for record in waited] == [b"one", b"two"]
    with pytest.raises(WaitTimeout, match="1 records in orders; it has 0 "):
        c.wait_records("orders", 1, timeout=0.1)
    commit = threading.Timer(0.1, producer.commit_transaction, [10])
    commit.start()
    assert [record.value for record in c.wait_records("orders", 2)] == [b"one", b"two"]
    commit.join()


async def test_coroutines_read_as_methods_do(c: GroupCoordinator, producer: Producer) -> None:
    transaction(producer, "aborted")
    producer.abort_transaction(10)
    assert await c.aio.records("orders") == []
    assert len(await c.aio.records("orders", isolation="read_uncommitted")) == 1
    assert len(await c.aio.wait_records("orders", 1, isolation="read_uncommitted")) == 1


def test_lag_counts_records_that_a_consumer_would_still_get(
    c: GroupCoordinator, producer: Producer
) -> None:
    c.produce("orders", ["a", "b"])
    transaction(producer, "kept")
    producer.commit_transaction(10)
    transaction(producer, "aborted")
    producer.abort_transaction(10)
    c.commit("billing", {("orders", 0): 1})
    assert c.lag("billing") == {("orders", 0): 2}
    c.commit("billing", {("orders", 0): 3})  # behind it: two markers and the aborted record
    assert c.lag("billing") == {("orders", 0): 0}
    assert c.wait_lag("billing") == {("orders", 0): 0}


def test_other_languages_choose_the_isolation_too(c: GroupCoordinator, producer: Producer) -> None:
    transaction(producer, "aborted")
    producer.abort_transaction(10)
    c.produce("orders", ["plain"])
    path = "/control/topics/orders/records"
    assert [one["value"] for one in ask(c, "GET", path)[1]["records"]] == ["plain"]
    status, all_of_them = ask(c, "GET", f"{path}?isolation=read_uncommitted")
    assert (status, all_of_them["total"]) == (200, 2)
    status, wrong = ask(c, "GET", f"{path}?isolation=dirty")
    assert status == 400
    assert "read_committed, read_uncommitted" in wrong["error"]["message"]
    body = {"count": 2, "isolation": "read_uncommitted"}
    status, waited = ask(c, "POST", "/control/topics/orders/wait", body)
    assert (status, len(waited["records"])) == (200, 2)
    status, late = ask(c, "POST", "/control/topics/orders/wait", {"count": 2, "timeout": 0.05})
    assert (status, late["error"]["code"]) == (409, "wait-timeout")


def test_an_isolation_that_is_none(c: GroupCoordinator) -> None:
    with pytest.raises(HarnessError, match="did you mean read_committed"):
        c.records("orders", isolation="read_comitted")  # type: ignore[arg-type]


def test_a_recorded_broker_waits_for_records(groupd_factory: Any, tmp_path: Path) -> None:
    recorded = groupd_factory(topics={"orders": 2}, record=tmp_path / "recording.jsonl")
    late = threading.Timer(0.1, recorded.produce, ["orders", ["a", "b", "c"]])
    late.start()
    assert len(recorded.wait_records("orders", 3)) == 3
    late.join()


def test_a_wait_goes_on_over_a_restart(c: GroupCoordinator) -> None:
    c.produce("orders", ["a"])

    def restart() -> None:
        c.restart()
        c.produce("orders", ["b"])

    thread = threading.Timer(0.1, restart)
    thread.start()
    assert [record.value for record in c.wait_records("orders", 2)] == [b"a", b"b"]
    thread.join()


def ask(c: GroupCoordinator, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    assert c.admin_url is not None
    connection = http.client.HTTPConnection(urlsplit(c.admin_url).netloc, timeout=30)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json"})
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()
