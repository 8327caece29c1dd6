"""The lag of groups on the admin port, with real consumers: rows, metrics, and what a daemon knows
after a restart."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.daemon import Daemon, ends_well
from tests.support.metrics import samples
from tests.support.process import wait_until

TIMEOUT_S = 30.0
LOG = {"group.id": "billing", "enable.auto.commit": False}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    running = Daemon(
        tmp_path,
        topics={"orders": 2},
        settings={"groupd.lag.interval.ms": "100"},
    )
    running.start()
    with ends_well(running):
        yield running


def produce(daemon: Daemon, partition: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": daemon.bootstrap})
    for number in range(count):
        producer.produce("orders", b"%d" % number, partition=partition)
    assert producer.flush(TIMEOUT_S) == 0


def commit(daemon: Daemon, partition: int, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": daemon.bootstrap, **LOG})
    consumer.commit(offsets=[TopicPartition("orders", partition, offset)], asynchronous=False)
    consumer.close()


def shown(daemon: Daemon, path: str) -> Any:
    with urllib.request.urlopen(f"{daemon.admin_url}{path}", timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def wait_for_row(daemon: Daemon, good: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []

    def found() -> bool:
        rows[:] = shown(daemon, "/groups")
        return bool(rows) and good(rows[0])

    wait_until(found, TIMEOUT_S, "the group's row", lambda: f"{rows}\n{daemon.logs()}")
    return rows[0]


def test_rows_and_metrics_of_an_empty_group_that_stopped(daemon: Daemon) -> None:
    produce(daemon, 0, 100)
    produce(daemon, 1, 50)
    commit(daemon, 0, 60)
    commit(daemon, 1, 50)
    row = wait_for_row(daemon, lambda row: row["judgement"] == "stopped")
    assert (row["state"], row["members"], row["lag"]) == ("Empty", 0, 40)
    assert row["lag_seconds"] > 0
    partitions = shown(daemon, "/groups/billing/offsets")["partitions"]
    assert [(one["lag"], one["judgement"]) for one in partitions] == [(40, "stopped"), (0, "ok")]
    assert partitions[0]["lag_seconds"] > 0
    assert partitions[1]["lag_seconds"] is None

    def value(name: str, **labels: str) -> list[float]:
        wanted = {"consumergroup": "billing", **labels}.items()
        return [
            one.value for one in samples(daemon.admin_url, name) if wanted <= one.labels.items()
        ]

    assert value("kafka_consumergroup_lag", topic="orders", partition="0") == [40]
    assert value("kafka_consumergroup_lag", topic="orders", partition="1") == [0]
    assert value("kafka_consumergroup_current_offset", partition="0") == [60]
    assert value("kafka_consumergroup_lag_sum", topic="orders") == [40]
    assert value("kafka_consumergroup_current_offset_sum", topic="orders") == [110]
    assert value("kafka_consumergroup_members") == [0]
    assert value("groupd_consumergroup_state", type="classic", state="Empty") == [1]
    assert value("groupd_consumergroup_judgement", judgement="stopped") == [1]
    assert value("groupd_consumergroup_partition_judgement", partition="0") == [1]
    assert value("groupd_consumergroup_partition_judgement", partition="1") == []
    (age,) = value("groupd_consumergroup_lag_seconds", partition="0")
    assert value("groupd_consumergroup_lag_seconds_max")[0] >= age > 0
    ends = samples(daemon.admin_url, "kafka_topic_partition_current_offset")
    assert {one.labels["partition"]: one.value for one in ends} == {"0": 100, "1": 50}


def test_a_daemon_that_was_started_again_knows_lag_and_age(daemon: Daemon) -> None:
    before = time.time()
    produce(daemon, 0, 100)
    commit(daemon, 0, 60)
    wait_for_row(daemon, lambda row: row["lag"] == 40)
    daemon.restart()
    # Nobody has used the log of orders-0 since, so the store tells where it ends.
    row = wait_for_row(daemon, lambda row: (row["lag_seconds"] or 0) > 0)
    assert (row["lag"], row["last_rebalance"]) == (40, None)
    assert row["lag_seconds"] <= time.time() - before + 0.1  # it is rounded
    (partition,) = shown(daemon, "/groups/billing/offsets")["partitions"]
    assert (partition["end_offset"], partition["lag"]) == (100, 40)
    commit(daemon, 0, 100)
    assert wait_for_row(daemon, lambda row: row["lag"] == 0)["lag_seconds"] is None
    # `rewound` holds for a second only, which a busy machine may miss: then the offset goes back
    # once more.
    back = count(90, -1)
    wait_until(lambda: judged_after(daemon, next(back)) == "rewound", TIMEOUT_S, "rewound")


def judged_after(daemon: Daemon, offset: int) -> str:
    """Commit an offset of partition 0, and how the group is judged two rounds later."""
    commit(daemon, 0, offset)
    rounds = shown(daemon, "/groups/billing/lag")["round"]
    page: dict[str, Any] = {}

    def is_seen() -> bool:
        page.update(shown(daemon, "/groups/billing/lag"))
        return bool(page["round"] >= rounds + 2)

    wait_until(is_seen, TIMEOUT_S, "two rounds", daemon.logs)
    assert page["lag"] == 100 - offset
    return str(page["judgement"])
