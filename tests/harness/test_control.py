"""The control API over HTTP: every route, what it refuses, and the examples of docs/testing.md."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from groupd.testing.control_api import document
from groupd.testing.control_routes import ROUTES
from groupd.testing.harness import GroupCoordinator
from tests.harness.members import Member

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "testing.md").read_text()
NOW = {"timeout": 0}
JSON = {"Content-Type": "application/json"}


class Control:
    """One broker's control API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def ask(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=30)
        try:
            sent.request(method, path, data, JSON if headers is None else headers)
            reply = sent.getresponse()
            return reply.status, json.loads(reply.read())
        finally:
            sent.close()

    def get(self, path: str) -> Any:
        status, found = self.ask("GET", path)
        assert status == 200, found
        return found

    def post(self, path: str, body: Any = None) -> Any:
        status, found = self.ask("POST", path, {} if body is None else body)
        assert status == 200, found
        return found


@pytest.fixture
def c() -> Iterator[GroupCoordinator]:
    with GroupCoordinator.start(control=True) as started:
        yield started


@pytest.fixture
def control(c: GroupCoordinator) -> Control:
    assert c.admin_url is not None
    return Control(c.admin_url)


def test_topics_records_and_offsets(control: Control) -> None:
    control.post("/control/topics", {"name": "orders", "partitions": 2})
    assert control.get("/control/topics") == {"orders": 2}
    binary = {"base64": "/w=="}
    records = ["a", {"value": binary, "key": "k", "headers": {"h": None}, "partition": 1}]
    placed = control.post("/control/topics/orders/records", {"records": records})
    assert [(one["partition"], one["offset"]) for one in placed] == [(0, 0), (1, 0)]
    found = control.get("/control/topics/orders/records")
    assert found["total"] == 2
    assert [one["value"] for one in found["records"]] == ["a", binary]
    assert found["records"][1]["headers"] == {"h": None}
    page = control.get("/control/topics/orders/records?from=1&limit=1&partition=1")
    assert page == {"total": 1, "records": []}
    place = {"topic": "orders", "partition": 0, "offset": 1}
    control.post("/control/groups/a%2Fb/offsets", {"offsets": [place]})
    assert control.get("/control/groups/a%2Fb/offsets") == [place]
    lag = control.get("/control/groups/a%2Fb/lag")
    assert [one["lag"] for one in lag] == [0, 1]
    assert control.ask("DELETE", "/control/topics/orders")[0] == 200
    assert control.get("/control/topics") == {}


def test_a_real_client_under_control(control: Control, c: GroupCoordinator) -> None:
    control.post("/control/topics", {"name": "orders", "partitions": 6})
    control.post("/control/clock", {"mode": "frozen"})
    assert control.get("/control/clock")["factor"] == 0
    with Member(c.bootstrap_servers, "billing") as member:
        member.wait(owned=6)
        group = control.post("/control/groups/billing/wait", {"until": "stable", "members": 1})
        member_id = group["result"]["members"][0]["member_id"]
        owner = {"until": "owned", "topic": "orders", "partition": 5}
        assert control.post("/control/groups/billing/wait", owner)["result"] == member_id
        assert [one["group_id"] for one in control.get("/control/groups")] == ["billing"]
        shown = control.get("/control/groups/billing")
        assert (shown["state"], shown["rebalances"]) == ("Stable", 1)
        assert control.get("/control/groups/billing/events")
        fault = control.post("/control/faults", {"action": "hold", "api": "heartbeat"})
        path = f"/control/faults/{fault['id']}"
        assert control.post(f"{path}/wait", {"hits": 1})["hits"] >= 1
        assert control.get(path)["held"] == 1
        assert control.post("/control/clock/advance", {"ms": 45_000})["fired"] >= 1
        gone = {"until": "members", "count": 0}
        assert control.post("/control/groups/billing/wait", gone)["result"] == []
        assert control.post(f"{path}/release")["released"] == 1
        assert control.ask("DELETE", path)[0] == 200
        assert control.get("/control/faults") == []
        control.post("/control/groups/billing/wait", {"until": "stable", "members": 1})
        storm = control.post("/control/recipes/unknown_member_storm", {"group": "billing"})
        assert len(storm["members"]) == 1
        late = {"until": "rebalances", "count": 3}
        assert control.post("/control/groups/billing/wait", late)["result"] >= 3
    control.post("/control/settle")
    assert control.get("/control/check") == {"ok": True, "violations": None}


def test_a_share_group(control: Control, c: GroupCoordinator) -> None:
    c.create_topic("orders")
    path = "/control/share-groups/workers"
    control.post(f"{path}/configs", {"config": {"share.auto.offset.reset": "earliest"}})
    c.produce("orders", ["coffee", "tea"])
    consumer = c.share_consumer("workers", "orders")
    assert len(consumer.poll(10)) == 2
    held = control.get(f"{path}/records?topic=orders&partition=0")["records"]
    assert [(one["offset"], one["state"]) for one in held] == [(0, "acquired"), (1, "acquired")]
    assert control.get(f"{path}/lag") == [{"topic": "orders", "partition": 0, "lag": 2}]
    wait = {"until": "acquired", "count": 2, "topic": "orders"}
    assert len(control.post(f"{path}/wait", wait)["result"]) == 2
    assert control.post("/control/recipes/slow_worker", {"group": "workers"})["released"] == 2
    assert control.post(f"{path}/wait", {"until": "released", "count": 2})["result"] == 2
    control.post("/control/recipes/share_leader_failover", {"group": "workers"})
    control.post("/control/recipes/share_coordinator_failover", {"outage": 1})
    assert len(consumer.poll(10)) == 2
    consumer.commit_sync()
    control.post(f"{path}/wait", {"until": "acknowledged", "count": 2})
    assert control.get(f"{path}/records/orders/0/1")["why"] == "accepted"
    assert control.get(f"{path}/offsets") == [{"topic": "orders", "partition": 0, "offset": 2}]
    status, found = control.ask("POST", f"{path}/wait", {"until": "archived", "count": 1} | NOW)
    assert (status, found["error"]["code"]) == (409, "wait-timeout")
    assert control.ask("GET", f"{path}/records/orders/0/7")[0] == 404
    assert control.ask("GET", f"{path}/records/orders/zero/7")[0] == 404


def test_coordinator_log_and_restart(control: Control, c: GroupCoordinator) -> None:
    move = control.post("/control/coordinator/move", {"group": "g", "to": [7, "h", 1]})
    assert len(move["faults"]) == 2
    control.post("/control/coordinator/loading", {"count": 1})
    assert [one["action"] for one in control.get("/control/faults")] == [
        "error",
        "redirect",
        "error",
    ]
    assert control.ask("DELETE", "/control/faults")[0] == 200
    control.post("/control/log/hold")
    control.post("/control/log/release")
    control.post("/control/topics", {"name": "orders"})
    control.post("/control/log/fail", {"count": 1})
    records = {"records": ["a"]}
    status, error = control.ask("POST", "/control/topics/orders/records", records)
    assert (status, error["error"]["code"]) == (409, "refused")
    address = c.bootstrap_servers
    control.post("/control/restart")
    assert control.get("/control/topics") == {"orders": 1}
    control.post("/control/restart", {"lose_memory": True})
    assert control.get("/control/topics") == {}
    assert c.bootstrap_servers == address


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "says"),
    [
        ("POST", "/control/topics", b"{", 400, "not JSON"),
        ("POST", "/control/topics", b"[" * 100_000, 400, "body must be an object, not a list"),
        ("POST", "/control/topics", [], 400, "body must be an object, not a list"),
        ("POST", "/control/topics", {}, 400, "body needs name"),
        ("POST", "/control/topics", {"name": 5}, 400, "body.name must be text, not a whole number"),
        ("POST", "/control/topics", {"name": "t", "partitions": 0}, 400, "a whole number >= 1"),
        ("POST", "/control/topics", {"name": "t", "x": 1}, 400, "body has no x"),
        ("POST", "/control/topics", {"name": "no spaces"}, 409, "INVALID_TOPIC_EXCEPTION"),
        ("POST", "/control/topics", b" " * 2_000_000, 413, "at most"),
        ("GET", "/control/topics/none/records", None, 404, "no topic none"),
        (
            "GET",
            "/control/topics/none/records?limit=x",
            None,
            400,
            "query.limit must be a whole number",
        ),
        ("GET", "/control/topics/none/records?colour=1", None, 400, "query has no colour"),
        ("GET", "/control/topics?colour=1", None, 400, "no parameter colour"),
        (
            "POST",
            "/control/topics/t/records",
            {"records": [5]},
            400,
            "body.records[0] must be text",
        ),
        ("GET", "/control/groups/none", None, 404, "no group none"),
        (
            "POST",
            "/control/groups/g/wait",
            {"until": "rain"},
            400,
            "body.until must be one of stable, ",
        ),
        ("POST", "/control/groups/g/wait", {"until": "epoch"}, 400, "body needs member"),
        (
            "POST",
            "/control/groups/g/wait",
            {"until": "stable", "topic": "t"},
            400,
            "body has no topic",
        ),
        (
            "POST",
            "/control/groups/g/wait",
            {"until": "stable", "timeout": 61},
            400,
            "<= 60.0 (seconds",
        ),
        (
            "POST",
            "/control/groups/g/wait",
            {"until": "stable", "timeout": 0},
            409,
            "there is no group g",
        ),
        ("POST", "/control/faults", {"action": "error"}, 400, "needs code"),
        ("POST", "/control/faults", {"action": "redirect", "node": [1]}, 400, "[id, host, port]"),
        ("GET", "/control/faults/9", None, 404, "no fault 9"),
        ("GET", "/control/faults/x", None, 404, "no such route"),
        ("POST", "/control/recipes/zombie", {}, 404, "mean /control/recipes/zombie_member?"),
        ("POST", "/control/recipes/zombie_member", {}, 400, "body needs group"),
        ("POST", "/control/recipes/zombie_member", {"group": "g"}, 404, "no group g"),
        ("POST", "/control/recipes/offset_expiry", {"group": "g", "ms": 1}, 400, "body has no ms"),
        ("POST", "/control/clock", {"mode": 0}, 400, "a number > 0"),
        ("POST", "/control/clock/advance", {"ms": -1}, 400, "a whole number >= 0"),
        ("PUT", "/control/clock", {}, 405, "GET, POST"),
        ("GET", "/control", None, 404, "no such route"),
    ],
)
def test_bad_input_is_one_json_error(
    control: Control, method: str, path: str, body: Any, status: int, says: str
) -> None:
    found, error = control.ask(method, path, body)
    assert (found, list(error), list(error["error"])) == (status, ["error"], ["code", "message"])
    assert says in error["error"]["message"]


def test_web_pages_are_kept_out(control: Control) -> None:
    page = {"Content-Type": "application/json", "Origin": "http://evil.example"}
    assert control.ask("POST", "/control/restart", {}, page)[0] == 403
    assert control.ask("POST", "/control/restart", {}, {"Content-Type": "text/plain"})[0] == 415
    assert control.ask("POST", "/control/restart", b"", {})[0] == 415


def test_the_document_is_served_kept_and_complete(control: Control) -> None:
    served = control.get("/control/openapi.json")
    assert served == document() == json.loads((ROOT / "docs" / "openapi.json").read_text())
    ids = [one["operationId"] for path in served["paths"].values() for one in path.values()]
    assert len(set(ids)) == len(ids) == len(ROUTES)


def test_without_control_there_is_none() -> None:
    with GroupCoordinator.start(admin=("127.0.0.1", 0)) as c:
        assert c.admin_url is not None
        sent = http.client.HTTPConnection(urlsplit(c.admin_url).netloc, timeout=10)
        sent.request("GET", "/control/topics")
        assert sent.getresponse().status == 404
        sent.close()


def serve(*flags: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "groupd", "serve", "--listen", "127.0.0.1:0", *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def test_serve_with_control_is_for_loopback_only() -> None:
    refused = serve("--control", "--admin", "0.0.0.0:0")
    _, errors = refused.communicate(timeout=30)
    assert refused.returncode == 2
    assert "--control-anywhere" in errors
    stored = serve("--control", "--admin", "127.0.0.1:0", "--store", "sqlite:///x.db")
    _, errors = stored.communicate(timeout=30)
    assert stored.returncode == 2
    assert "memory://" in errors


def test_serve_with_control_serves_restarts_and_ends() -> None:
    process = serve("--control", "--profile", "test", "--admin", "127.0.0.1:0", "--topic", "t:2")
    assert process.stdout is not None
    try:
        ready = dict(part.split("=") for part in process.stdout.readline().split()[2:])
        control = Control(f"http://{ready['admin']}")
        assert control.get("/control/topics") == {"t": 2}
        control.post("/control/restart")
        assert control.get("/control/topics") == {"t": 2}
    finally:
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "whoever reaches it can do anything" in errors


def test_the_example_of_the_page(control: Control, tmp_path: Path) -> None:
    """The helpers for Java, Go and Node run in tests/examples."""
    found = re.search(r"```bash\n(.*?)```", PAGE.partition("## Any language")[2], re.DOTALL)
    assert found is not None
    (tmp_path / "example.sh").write_text(found[1])
    done = subprocess.run(
        ["bash", "-e", "example.sh"],
        cwd=tmp_path,
        env={**os.environ, "GROUPD": control.url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"fired":' in done.stdout
    assert control.get("/control/topics") == {"orders": 6}
    assert len(control.get("/control/faults")) == 1
    assert control.get("/control/check")["ok"]
