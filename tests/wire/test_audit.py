"""The audit log (`docs/spec/security.md#7`): who has deleted groups and offsets, and who has set
offsets without being a member."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.kio_entities import Plain
from tests.support.peer import running
from tests.support.process import wait_until
from tests.support.wire_client import WireClient

START_S = 30.0
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
TRANSACTION = {
    "transactional_id": "moves",
    "transaction_timeout": 60_000,
    "producer_id": -1,
    "producer_epoch": -1,
}
Line = dict[str, Any]
Lines = Callable[[], list[Line]]


class Audited:
    """A broker with an authorizer; `lines` gives what is new in its audit log."""

    def __init__(self, directory: Path) -> None:
        self.daemon = Daemon(
            directory,
            topics={"orders": 3, "bills": 1},
            settings=SETTINGS,
            arguments=["--log-format", "json"],
        )
        self._log = directory / "groupd.log"
        self._read = 0

    def lines(self) -> list[Line]:
        found = self._log.read_text().splitlines()[self._read :]
        self._read += len(found)
        return [
            {name: line[name] for name in line if name not in ("level", "timestamp", "logger")}
            for line in map(json.loads, found)
            if line.get("log") == "audit"
        ]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    made = Audited(tmp_path_factory.mktemp("audit"))
    with running(made.daemon):
        yield made


@pytest.fixture
def client(broker: Audited) -> Iterator[WireClient]:
    with WireClient(broker.daemon.host, broker.daemon.port) as made:
        yield made


@pytest.fixture
def group(request: pytest.FixtureRequest, broker: Audited, client: WireClient) -> str:
    name = str(request.node.name)
    wait_until(
        lambda: commit(client, name, {"orders": [0, 1], "bills": [0]}) == [0, 0, 0],
        START_S,
        "the coordinator",
    )
    return name


def commit(
    client: WireClient, group: str, places: dict[str, list[int]], **fields: Any
) -> list[int]:
    """Commits offsets; the error codes."""
    topics: list[Plain] = [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": partition,
                    "committed_offset": 5,
                    "committed_leader_epoch": -1,
                    "committed_metadata": "",
                }
                for partition in partitions
            ],
        }
        for topic, partitions in places.items()
    ]
    asked = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    reply = client.call("OffsetCommit", 8, group_id=group, topics=topics, **(asked | fields))
    return [one["error_code"] for topic in reply["topics"] for one in topic["partitions"]]


def line(event: str, **facts: Any) -> Line:
    by = {"log": "audit", "principal": "User:ANONYMOUS", "client": "/127.0.0.1"}
    return {"event": event, **by, **facts}


def test_offsets_that_no_member_has_set(broker: Audited, client: WireClient, group: str) -> None:
    assert broker.lines() == [
        line("offsets reset", group=group, topic="orders", offsets={"0": 5, "1": 5}),
        line("offsets reset", group=group, topic="bills", offsets={"0": 5}),
    ]
    assert commit(client, group, {"orders": [1]}) == [0], "one line is enough for a while"
    assert commit(client, group, {"orders": [1], "nil": [0]}, member_id="m")[0] != 0
    assert broker.lines() == []


def test_offsets_of_a_topic_that_is_named_by_its_id(
    broker: Audited, client: WireClient, group: str
) -> None:
    """The audit log has the offsets that are set, not those that are refused."""
    described = client.call("Metadata", 12, topics=[{"name": "orders"}])
    broker.lines()
    partitions = [{"partition_index": number, "committed_offset": 7} for number in (2, 9)]
    topics = [{"topic_id": described["topics"][0]["topic_id"], "partitions": partitions}]
    with WireClient(broker.daemon.host, broker.daemon.port) as other:
        reply = other.call("OffsetCommit", 10, group_id=f"{group} by id", topics=topics,
                           generation_id_or_member_epoch=-1, member_id="")  # fmt: skip
    assert sorted(one["error_code"] for one in reply["topics"][0]["partitions"]) == [0, 3]
    assert broker.lines() == [
        line("offsets reset", group=f"{group} by id", topic="orders", offsets={"2": 7})
    ]


def test_offsets_that_no_member_has_set_in_a_transaction(
    broker: Audited, client: WireClient, group: str
) -> None:
    group = f"{group} moved"
    wait_until(
        lambda: client.call("InitProducerId", 4, **TRANSACTION)["error_code"] == 0,
        START_S,
        "the transaction coordinator",
    )
    producer = client.call("InitProducerId", 4, **TRANSACTION)
    owner = {name: producer[name] for name in ("producer_id", "producer_epoch")}
    transaction = {"transactional_id": "moves", "group_id": group, **owner}
    assert client.call("AddOffsetsToTxn", 3, **transaction)["error_code"] == 0
    broker.lines()
    partition = {"partition_index": 0, "committed_offset": 6}
    topics = [{"name": "orders", "partitions": [partition]}]
    reply = client.call("TxnOffsetCommit", 3, topics=topics, generation_id=-1, member_id="",
                        group_instance_id=None, **transaction)  # fmt: skip
    assert reply["topics"][0]["partitions"][0]["error_code"] == 0
    assert broker.lines() == [
        line(
            "offsets reset",
            group=group,
            topic="orders",
            offsets={"0": 6},
            transactional_id="moves",
        )
    ]


def test_offsets_and_groups_that_are_deleted(
    broker: Audited, client: WireClient, group: str
) -> None:
    broker.lines()
    topics = [
        {"name": "orders", "partitions": [{"partition_index": 0}, {"partition_index": 9}]},
        {"name": "nil", "partitions": [{"partition_index": 0}]},
    ]
    reply = client.call("OffsetDelete", 0, group_id=group, topics=topics)
    codes = [one["error_code"] for topic in reply["topics"] for one in topic["partitions"]]
    assert sorted(codes) == [0, 3, 3]
    assert broker.lines() == [line("offsets deleted", group=group, topic="orders", partitions=[0])]
    reply = client.call("DeleteGroups", 2, groups_names=[group, "nobody"])
    assert sorted(one["error_code"] for one in reply["results"]) == [0, 69]
    assert broker.lines() == [line("group deleted", group=group)]


def test_who_hangs_up_early_is_named_all_the_same(
    broker: Audited, client: WireClient, group: str
) -> None:
    broker.lines()
    with WireClient(broker.daemon.host, broker.daemon.port) as other:
        other.send("DeleteGroups", 2, {"groups_names": [group]})
    found: list[Line] = []

    def named() -> bool:
        found.extend(broker.lines())
        return bool(found)

    wait_until(named, START_S, "the line")
    assert found == [line("group deleted", group=group)]


def test_a_long_request_has_one_line_for_each_topic(
    broker: Audited, client: WireClient, group: str
) -> None:
    broker.lines()
    topics = [
        {"name": f"nil-{number}", "partitions": [{"partition_index": 0}]} for number in range(600)
    ]
    topics.append({"name": "orders", "partitions": [{"partition_index": 0}]})
    reply = client.call("OffsetDelete", 0, group_id=group, topics=topics)
    assert len(reply["topics"]) == len(topics)
    assert broker.lines() == [line("offsets deleted", group=group, topic="orders", partitions=[0])]
