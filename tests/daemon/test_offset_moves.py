"""POST `/groups/{id}/offsets/reset` and `/restore`: a preview, then the move, as the console asks
for it; who may do so, and what the audit log says."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.daemon import Daemon, ends_well
from tests.support.process import wait_until

TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = Daemon(tmp_path_factory.mktemp("moves"), topics={"orders": 2})
    running.start()
    producer = Producer({"bootstrap.servers": running.bootstrap})
    for number in range(100):
        producer.produce("orders", b"x", partition=number % 2, timestamp=1_000_000 + number)
    assert producer.flush(TIMEOUT_S) == 0
    with ends_well(running):
        yield running


def client(daemon: Daemon, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": daemon.bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
        }
    )


def joined(daemon: Daemon, group: str) -> Consumer:
    """A member that has its partitions."""
    member = client(daemon, group)
    member.subscribe(["orders"])
    wait_until(
        lambda: member.poll(0.1) is None and bool(member.assignment()),
        TIMEOUT_S,
        "partitions",
        daemon.logs,
    )
    return member


def commit(daemon: Daemon, group: str, *offsets: int) -> None:
    consumer = client(daemon, group)
    places = [TopicPartition("orders", at, offset) for at, offset in enumerate(offsets)]
    consumer.commit(offsets=places, asynchronous=False)
    consumer.close()


def committed(daemon: Daemon, group: str) -> list[int]:
    consumer = client(daemon, group)
    found = consumer.committed([TopicPartition("orders", at) for at in range(2)], TIMEOUT_S)
    consumer.close()
    return [one.offset for one in found]


def order(daemon: Daemon, path: str, body: Any, **headers: str) -> tuple[int, Any]:
    """Status, and the answer or the line of text that refuses."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(
        f"{daemon.admin_url}{path}",
        data,
        {"Content-Type": "application/json", "Origin": daemon.admin_url, **headers},
        method="POST",
    )
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode().strip()


def reset(daemon: Daemon, group: str, to: str, value: Any = None, **more: Any) -> tuple[int, Any]:
    return order(daemon, f"/groups/{group}/offsets/reset", {"to": to, "value": value, **more})


def restore(daemon: Daemon, group: str, at: str, **more: Any) -> tuple[int, Any]:
    return order(daemon, f"/groups/{group}/offsets/restore", {"at": at, **more})


def shown(answer: Any) -> dict[str, list[list[int | None]]]:
    """What an answer has shown and would write, as it is sent back."""
    found: dict[str, list[list[int | None]]] = {}
    for row in answer["rows"]:
        if row["action"] not in ("keep", "leave", "skip"):
            found.setdefault(row["topic"], []).append([row["partition"], row["from"], row["to"]])
    return found


def reset_now(
    daemon: Daemon, group: str, to: str, value: Any = None, **more: Any
) -> tuple[int, Any]:
    """Sends back at once what a preview has shown."""
    status, answer = reset(daemon, group, to, value, **more)
    assert status == 200, answer
    return reset(daemon, group, to, value, apply=shown(answer))


def audited(daemon: Daemon, group: str) -> list[str]:
    """The lines of the audit log about a group."""
    log = (daemon.directory / "groupd.log").read_text()
    return [one for one in log.splitlines() if "log=audit" in one and f"group={group} " in one]


def moves(rows: list[dict[str, Any]]) -> list[tuple[int | None, int | None, int | None]]:
    return [(row["from"], row["to"], row["records"]) for row in rows]


def test_a_reset_is_shown_first_and_done_when_that_is_sent_back(daemon: Daemon) -> None:
    commit(daemon, "reset", 40, 50)
    status, answer = reset(daemon, "reset", "earliest")
    assert (status, answer["refusal"]) == (200, "")
    assert moves(answer["rows"]) == [(40, 0, -40), (50, 0, -50)]
    assert committed(daemon, "reset") == [40, 50]
    assert reset(daemon, "reset", "earliest", apply=shown(answer)) == (200, {"written": 2})
    assert committed(daemon, "reset") == [0, 0]
    status, line = reset(daemon, "reset", "earliest", apply=shown(answer))
    assert (status, "2 offsets moved since that was shown" in line) == (409, True)

    one = {"orders": [1]}
    for to, value, wanted in (
        ("latest", None, 50),
        ("offset", 7, 7),
        ("shift", 5, 12),
        ("shift", -100, 0),
        # Records 1, 3, 5 ... stand in partition 1.
        ("time", datetime.fromtimestamp(1000.051, UTC).isoformat(), 25),
    ):
        assert reset_now(daemon, "reset", to, value, partitions=one) == (200, {"written": 1})
        assert committed(daemon, "reset") == [0, wanted]
    lines = audited(daemon, "reset")
    assert len(lines) == 6, "one for each order, however fast they come"
    assert all("offsets reset" in line for line in lines)
    assert all('principal="admin port: anonymous"' in line for line in lines)
    assert all("client=/127.0.0.1" in line for line in lines)


def test_a_restore_brings_back_what_was_committed_then(daemon: Daemon) -> None:
    commit(daemon, "restore", 30, 20)
    moment = time.time() + 0.002  # the log has milliseconds
    wait_until(lambda: time.time() > moment, 1, "a later time", str)
    then = datetime.now(UTC).isoformat()
    wait_until(lambda: time.time() > moment + 0.004, 1, "a later time", str)
    commit(daemon, "restore", 0, 0)
    status, answer = restore(daemon, "restore", then)
    assert (status, moves(answer["rows"])) == (200, [(0, 30, 30), (0, 20, 20)])
    assert restore(daemon, "restore", then, apply=shown(answer)) == (200, {"written": 2})
    assert committed(daemon, "restore") == [30, 20]
    before = "2001-01-01T00:00:00Z"
    status, answer = restore(daemon, "restore", before, delete_new=True)
    assert [(row["action"], row["starts_anew"]) for row in answer["rows"]] == [("delete", True)] * 2
    status, line = restore(daemon, "restore", before, apply=shown(answer))
    assert (status, "would not do what was shown" in line) == (409, True)
    apply = shown(answer)
    assert restore(daemon, "restore", before, delete_new=True, apply=apply)[0] == 200
    assert committed(daemon, "restore") == [-1001, -1001]
    assert ["offsets deleted" in line for line in audited(daemon, "restore")] == [False, True]


def test_the_last_moves_and_who_made_them(daemon: Daemon) -> None:
    commit(daemon, "moved", 30, 20)
    reset_now(daemon, "moved", "offset", 5)
    found = last_moves(daemon, "moved")
    assert sorted(found[:2]) == [
        ("back", 20, 5, "admin/simple"),
        ("back", 30, 5, "admin/simple"),
    ]
    assert sorted(found[2:]) == [
        ("first", None, 20, "admin/simple"),
        ("first", None, 30, "admin/simple"),
    ]


def last_moves(daemon: Daemon, group: str) -> list[tuple[str, int | None, int | None, str]]:
    url = f"{daemon.admin_url}/groups/{group}/moves"
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        shown = json.load(answer)
    assert shown["complete"]
    return [(one["kind"], one["from"], one["to"], one["by"]) for one in shown["moves"]]


def test_what_members_commit_while_they_read_on_is_no_move(daemon: Daemon) -> None:
    commit(daemon, "reading", 10, 10)
    member = joined(daemon, "reading")
    for offset in (11, 12, 5, 6):
        place = TopicPartition("orders", 0, offset)
        member.commit(offsets=[place], asynchronous=False)
    member.close()
    back, *firsts = last_moves(daemon, "reading")
    assert back[:3] == ("back", 12, 5)
    assert back[3].startswith("owner ")
    assert [one[0] for one in firsts] == ["first", "first"]


def test_a_group_with_members_is_not_moved(daemon: Daemon) -> None:
    commit(daemon, "busy", 10, 10)
    member = joined(daemon, "busy")
    status, answer = reset(daemon, "busy", "latest")
    assert (status, "it has members" in answer["refusal"]) == (200, True)
    status, line = reset(daemon, "busy", "latest", apply=shown(answer))
    assert (status, "it has members" in line) == (409, True)
    assert committed(daemon, "busy") == [10, 10]
    member.close()


@pytest.mark.parametrize(
    "body",
    [
        b"no json",
        {"to": "somewhere"},
        {"to": "offset"},
        {"to": "offset", "value": -1},
        {"to": "time", "value": "yesterday"},
        {"to": "time", "value": "2026-01-01T00:00:00"},
        {"to": "earliest", "partitions": [{"topic": "orders"}]},
        {"to": "earliest", "apply": True},
    ],
)
def test_bad_orders_are_refused_with_one_line(daemon: Daemon, body: Any) -> None:
    status, line = order(daemon, "/groups/any/offsets/reset", body)
    assert (status, line.count("\n")) == (400, 0)


def test_what_cannot_be_moved(daemon: Daemon) -> None:
    assert reset(daemon, "nobody", "earliest")[0] == 409
    gone = {"no-such-topic": [0]}
    status, answer = reset(daemon, "nobody", "earliest", partitions=gone)
    assert (status, answer["rows"][0]["action"]) == (200, "leave")
    status, line = reset(daemon, "nobody", "earliest", apply={"no-such-topic": [[0, None, 5]]})
    assert (status, "Nothing has been written" in line) == (409, True)
    assert order(daemon, "/groups/any/offsets/nothing", {})[0] == 404
    assert order(daemon, "/groups/any/offsets/reset", b" " * (2 << 20))[0] == 400


def test_pages_of_other_sites_may_not_ask_for_it(daemon: Daemon) -> None:
    path, body = "/groups/any/offsets/reset", {"to": "earliest"}
    assert order(daemon, path, body, Origin="https://evil.example")[0] == 403
    assert order(daemon, path, body, **{"Content-Type": "text/plain"})[0] == 415


def test_only_admins_may_do_so(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("read 0123456789abcdef-r\nadmin 0123456789abcdef-a\n")
    tokens.chmod(0o600)
    daemon = Daemon(tmp_path, settings={"groupd.admin.token.file": str(tokens)})
    daemon.start()
    with ends_well(daemon):
        path, body = "/groups/any/offsets/reset", {"to": "earliest"}
        reader = {"Authorization": "Bearer 0123456789abcdef-r"}
        admin = {"Authorization": "Bearer 0123456789abcdef-a"}
        assert order(daemon, path, body)[0] == 401
        assert order(daemon, path, body, **reader)[0] == 403
        assert order(daemon, path, body, **admin)[0] == 409  # there is no such group
