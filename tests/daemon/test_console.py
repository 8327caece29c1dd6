"""The console's side of the daemon: files, streams and what-if, with real consumers; who may see
what. The page itself is tested in a browser (tests/browser)."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer

from tests.support.daemon import Daemon, ends_well
from tests.support.process import wait_until

TIMEOUT_S = 30.0
TOKEN = "a-token-of-20-characters"
PAGE = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    running = Daemon(
        tmp_path_factory.mktemp("console"),
        topics={"orders": 6},
        settings={"groupd.lag.interval.ms": "200"},
    )
    running.start()
    with ends_well(running):
        yield running


class Stream:
    """The events of a stream, read in a thread: `events` grows."""

    def __init__(self, daemon: Daemon, path: str) -> None:
        self._daemon = daemon
        self._answer = urllib.request.urlopen(f"{daemon.admin_url}{path}", timeout=TIMEOUT_S)
        assert self._answer.headers["Content-Type"] == "text/event-stream"
        self.events: list[tuple[str, Any]] = []
        self.ended = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        name = ""
        for line in self._answer:
            if line.startswith(b"event: "):
                name = line[7:].strip().decode()
            elif line.startswith(b"data: "):
                self.events.append((name, json.loads(line[6:])))
        self.ended = True

    def wait(self, good: Any) -> Any:
        """The first event for which `good(name, data)` is true."""
        wait_until(
            lambda: any(good(*one) for one in self.events),
            TIMEOUT_S,
            "an event",
            lambda: f"{self.events}\n{self._daemon.logs()}",
        )
        return next(one for one in self.events if good(*one))[1]


def consumer(daemon: Daemon, group: str, name: str, **settings: Any) -> Consumer:
    made = Consumer(
        {
            "bootstrap.servers": daemon.bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "client.id": name,
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    made.subscribe(["orders"])
    return made


def joined(daemon: Daemon, members: list[Consumer]) -> None:
    """All of the members have partitions."""

    def all_have() -> bool:
        for member in members:
            member.poll(0.05)
        return all(member.assignment() for member in members)

    wait_until(all_have, TIMEOUT_S, "partitions of all members", daemon.logs)


def shown(daemon: Daemon, path: str) -> Any:
    with urllib.request.urlopen(f"{daemon.admin_url}{path}", timeout=TIMEOUT_S) as answer:
        return json.load(answer)


def test_streams_tell_of_a_group_from_its_first_member_to_its_end(daemon: Daemon) -> None:
    everything = Stream(daemon, "/live/groups")
    first = consumer(daemon, "billing", "billing-1")
    joined(daemon, [first])
    row = everything.wait(lambda _, data: any(one["members"] == 1 for one in data["rows"]))
    assert row["rows"][0]["last_rebalance"]["cause"].endswith("joined")

    one = Stream(daemon, "/live/groups/billing")
    picture = one.wait(lambda _, data: data["group"]["state"] == "Stable")
    assert [member["client_id"] for member in picture["group"]["members"]] == ["billing-1"]
    assert len(picture["offsets"]["partitions"]) == 6
    assert {entry["source"] for entry in picture["configs"]} == {"default"}
    assert picture["lag"]["judgement"] is None

    second = consumer(daemon, "billing", "billing-2")
    joined(daemon, [first, second])
    picture = one.wait(
        lambda _, data: (
            [len(m["owned"].get("orders", ())) for m in data["group"]["members"]] == [3, 3]
        )
    )
    newest = picture["rebalances"][0]
    assert "billing-2" in newest["sentence"]
    assert newest["steps"]

    for member in (second, first):
        member.close()
    gone = one.wait(lambda _, data: data["group"]["state"] == "Empty")
    assert gone["group"]["members"] == []
    everything.wait(lambda _, data: any(row["state"] == "Empty" for row in data["rows"]))


def test_what_if_proposes_and_changes_nothing(daemon: Daemon) -> None:
    members = [consumer(daemon, "planned", f"planned-{number}") for number in range(2)]
    joined(daemon, members)
    path = "/groups/planned/what-if"
    assert shown(daemon, path) == {"assignors": ["uniform", "range"], "used": "uniform"}
    before = shown(daemon, "/groups/planned")["members"]
    plan = shown(daemon, f"{path}?assignor=range")
    assert plan["proposed"].values() == {3} or sorted(plan["proposed"].values()) == [3, 3]
    assert plan["moved"] == len(plan["moves"])
    ranges = sorted(target["orders"] for target in plan["target"].values())
    assert ranges == [[0, 1, 2], [3, 4, 5]]
    after = shown(daemon, "/groups/planned")["members"]
    assert [one["target"] for one in after] == [one["target"] for one in before]
    assert status(daemon, f"{path}?assignor=nothing") == 400
    for member in members:
        member.close()


def test_what_if_of_a_classic_group(daemon: Daemon) -> None:
    classic = consumer(daemon, "classic", "classic-1", **{"group.protocol": "classic"})
    joined(daemon, [classic])
    path = "/groups/classic/what-if"
    assert shown(daemon, path) == {"assignors": ["uniform", "range"], "used": None}
    before = shown(daemon, "/groups/classic")["members"]
    plan = shown(daemon, f"{path}?assignor=uniform")
    assert plan["compared"].startswith("Now: assigned by its members with range. ")
    assert (plan["moved"], plan["current"]) == (0, plan["proposed"])
    assert list(plan["target"].values()) == [{"orders": [0, 1, 2, 3, 4, 5]}]
    after = shown(daemon, "/groups/classic")
    assert (after["state"], after["members"]) == ("Stable", before)
    classic.close()
    assert status(daemon, path) == 400


def status(daemon: Daemon, path: str, **headers: str) -> int:
    request = urllib.request.Request(f"{daemon.admin_url}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_streams_of_what_is_not_there(daemon: Daemon) -> None:
    assert status(daemon, "/live/groups/nobody") == 404
    assert status(daemon, "/live/groups-named/=..") == status(daemon, "/groups-named/=/lag") == 404
    assert status(daemon, "/live") == status(daemon, "/live/nothing") == 404
    assert status(daemon, "/console/nothing.js") == 404


def test_the_page_and_its_files_forbid_everything_from_elsewhere(daemon: Daemon) -> None:
    request = urllib.request.Request(daemon.admin_url, headers=PAGE)
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        policy = answer.headers["Content-Security-Policy"]
        page = answer.read()
    assert policy.startswith("default-src 'none'; script-src 'self'; ")
    assert b"/console/console.js" in page
    assert b"http://" not in page.replace(b"http://www.w3.org/", b"")
    assert status(daemon, "/console/console.js") == 200
    with urllib.request.urlopen(daemon.admin_url, timeout=TIMEOUT_S) as answer:
        assert b"/groups" in answer.read()  # other clients get the list of paths


def test_a_head_of_a_stream_has_no_end_to_wait_for(daemon: Daemon) -> None:
    request = urllib.request.Request(f"{daemon.admin_url}/live/groups", method="HEAD")
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert answer.read() == b""


def test_health_tells_shards_and_limits(daemon: Daemon) -> None:
    health = Stream(daemon, "/live/health").wait(lambda *_: True)
    assert health["not_ready"] is None
    assert health["store"] == "sqlite"
    assert health["shards"]["failed"] == 0
    names = {limit["name"] for limit in health["limits"]}
    assert "connections" in names


def test_a_closed_port_shows_the_page_and_asks_for_a_token(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read {TOKEN}\n")
    tokens.chmod(0o600)
    settings = {"groupd.admin.token.file": str(tokens), "groupd.admin.authentication": "always"}
    daemon = Daemon(tmp_path, settings=settings)
    daemon.start()
    with ends_well(daemon):
        assert status(daemon, "/", **PAGE) == 200
        assert status(daemon, "/console/console.js") == 200
        assert status(daemon, "/console/console.js", Host="evil.example") == 421
        for path in ("/", "/groups", "/live/groups", "/live/health", "/live/nothing"):
            assert status(daemon, path) == 401
        stream = urllib.request.Request(
            f"{daemon.admin_url}/live/groups", headers={"Authorization": f"Bearer {TOKEN}"}
        )
        with urllib.request.urlopen(stream, timeout=TIMEOUT_S) as answer:
            assert answer.readline() == b"event: snapshot\n"
