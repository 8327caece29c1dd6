"""Transactions of the Java client under both transaction versions, and Kafka's tool for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.clients.test_transactions import TIMEOUT_S, readable_count, transactional
from tests.clients.tools import Said, Tools
from tests.support.daemon import Daemon
from tests.support.peer import running
from tests.support.process import wait_until

RECORDS = 600


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    made = Tools(tmp_path_factory.mktemp("tools"))
    yield made
    made.close()


@pytest.fixture(params=[1, 2], ids=["TV1", "TV2"])
def daemon(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Daemon]:
    with running(
        Daemon(
            tmp_path_factory.mktemp("daemon"),
            topics={"t": 3},
            settings={"groupd.transaction.version": str(request.param)},
        )
    ) as made:
        yield made


def row(said: Said) -> dict[str, str]:
    """The only row of a table of kafka-transactions."""
    assert said.exit == 0, said
    header, line = said.lines
    return dict(zip(header.split("\t"), (cell.strip() for cell in line.split("\t")), strict=False))


def test_the_java_producer_and_the_tool(
    daemon: Daemon, tools: Tools, request: pytest.FixtureRequest
) -> None:
    def run(tool: str, *arguments: str) -> Said:
        return tools.call(daemon.bootstrap, tool, *arguments)

    said = run(
        "kafka-producer-perf-test",
        *("--topic", "t", "--num-records", str(RECORDS), "--record-size", "20"),
        *("--throughput", "2000", "--transactional-id", "perf"),
        *("--transaction-duration-ms", "30"),
    )
    assert said.exit == 0, said
    assert f"{RECORDS} records sent" in said.out
    assert readable_count(daemon.bootstrap, "t", "read_committed") == RECORDS
    listed = row(run("kafka-transactions", "list"))
    assert (listed["TransactionalId"], listed["ProducerId"]) == ("perf", "0")
    described = row(run("kafka-transactions", "describe", "--transactional-id", "perf"))
    # Version 2 has a new epoch for each transaction.
    assert (int(described["ProducerEpoch"]) > 0) == ("TV2" in request.node.name)
    assert described["TopicPartitions"] == ""


def test_the_tool_shows_an_open_transaction(daemon: Daemon, tools: Tools) -> None:
    producer = transactional(daemon.bootstrap, "open")
    producer.begin_transaction()
    producer.produce("t", b"1", partition=1)
    producer.flush(TIMEOUT_S)

    def run(*arguments: str) -> Said:
        return tools.call(daemon.bootstrap, "kafka-transactions", *arguments)

    described = row(run("describe", "--transactional-id", "open"))
    assert described["TransactionState"] == "Ongoing"
    assert described["TopicPartitions"] == "t-1"
    found = row(run("describe-producers", "--topic", "t", "--partition", "1"))
    assert found["CurrentTransactionStartOffset"] == "0"
    producer.commit_transaction(TIMEOUT_S)
    wait_until(
        lambda: row(run("list"))["TransactionState"] == "CompleteCommit",
        TIMEOUT_S,
        "the markers",
        daemon.logs,
    )
