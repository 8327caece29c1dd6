"""`groupd groups` without a daemon: what is shown, and peers that are no Kafka brokers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from groupd.coordinator.cli.groups.history import change_fields, change_line, offset_fields
from groupd.coordinator.cli.kafka import calls
from groupd.coordinator.cli.kafka.cluster import KafkaCluster
from groupd.coordinator.cli.kafka.connection import KafkaError
from groupd.coordinator.cli.main import main
from groupd.coordinator.cli.tables import table
from groupd.coordinator.core.group_type import LoggedEventKind
from groupd.coordinator.history.changes import (
    Actor,
    Author,
    ChangeKind,
    CommittedOffset,
    LoggedGroupEvent,
    OffsetChange,
)

BEFORE = CommittedOffset("t", 3, 20, 1, "", 1_772_366_400_000, 5)
AFTER = CommittedOffset("t", 3, 5, 1, "m", 1_772_366_460_000, 9)


def test_a_change_is_one_line_and_one_object() -> None:
    author = Author(Actor.OWNER, "m-1", None, "app", "/10.0.0.7", 4, 17, 0)
    change = OffsetChange(ChangeKind.BACK, 1_772_366_460_001, 9, "t", 3, BEFORE, AFTER, author)
    line = change_line(change)
    assert line.endswith(
        "@9  t-3  back     20 -> 5 (-15)  by owner m-1 client=app/10.0.0.7 epoch=4 "
        "transaction of producer 17"
    )
    fields = json.loads(json.dumps(change_fields("g", change)))
    assert (fields["type"], fields["kind"], fields["group"]) == ("offset", "back", "g")
    assert (fields["from"]["offset"], fields["to"]["offset"]) == (20, 5)
    assert fields["by"]["producer_id"] == 17
    assert list(fields["to"])[:3] == ["offset", "leader_epoch", "metadata"]


def test_deletions_and_events_are_told_with_their_cause() -> None:
    gone = OffsetChange(
        ChangeKind.EXPIRED, 0, 9, "t", 3, BEFORE, None, Author(Actor.COORDINATOR), "retention"
    )
    assert change_line(gone).endswith("expired  20 -> none  by coordinator (retention)")
    assert change_fields("g", gone)["to"] is None
    event = LoggedGroupEvent(LoggedEventKind.REBALANCED, 0, 4, "", 3, {"members": 2})
    assert change_line(event).endswith("@4  * rebalanced epoch=3 members=2")
    assert change_fields("g", event)["details"] == {"members": 2}


def test_tables_keep_brackets_and_cut_nothing_off(capsys: pytest.CaptureFixture[str]) -> None:
    name = "[red]" + "x" * 300
    table(("name", "n"), [(name, 5), ("b", "-")], wide=True)
    out = capsys.readouterr().out
    assert name in out
    assert len(out.splitlines()) == 4


def test_offsets_have_their_topic_id_as_tools_write_it() -> None:
    topic_id = bytes.fromhex("00112233445566778899aabbccddeeff")
    offset = CommittedOffset("t", 3, 20, 1, "", 7, 5, topic_id)
    assert offset_fields("g", offset)["topic_id"] == "00112233-4455-6677-8899-aabbccddeeff"


@contextmanager
def peer(answer: bytes) -> Iterator[int]:
    """A server that reads something, answers `answer` and hangs up; its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        thread.join(10)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "closed"),
        (b"HTTP/1.1 400 Bad Request\r\n", "does not speak Kafka's protocol"),
        (b"\x00\x00\x00\x0a\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00", "out of order"),
        (b"\x00\x00\x00\x04\x00\x00\x00\x01", "not understood"),
        (b"\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00", "does not offer Fetch v4"),
    ],
)
def test_whoever_is_no_broker_is_named(answer: bytes, said: str) -> None:
    with (
        peer(answer) as port,
        pytest.raises(KafkaError, match=said) as failed,
        KafkaCluster([("127.0.0.1", port)]) as cluster,
    ):
        calls.fetch(cluster.any(), "t", 0, 0, 1000)
    assert f"127.0.0.1:{port}" in str(failed.value)


def test_the_first_server_that_answers_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def at(_: KafkaCluster, address: tuple[str, int]) -> str:
        host, port = address
        asked.append(port)
        if port < 3:
            raise KafkaError(f"no Kafka broker at {host}:{port}")
        return f"{host}:{port}"

    monkeypatch.setattr(KafkaCluster, "at", at)
    assert KafkaCluster([("a", 1), ("b", 3), ("c", 4)]).any() == "b:3"
    assert asked == [1, 3]
    with pytest.raises(KafkaError, match="a:1"):
        KafkaCluster([("a", 1), ("b", 2)]).any()


def test_one_line_and_exit_code_1_where_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["groups", "restore", "g", "--at", "-5m", "--bootstrap", "127.0.0.1:1"])
    assert ended.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "groupd: no Kafka broker at 127.0.0.1:1: Connection refused"
