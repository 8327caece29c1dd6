"""The admin port of a started daemon: beside clients that say and read nothing; its pages."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.peer import running
from tests.support.raw import RawConnection, frame, request, string

OFFSET_COMMIT = 8
TIMEOUT_S = 5.0
"""Less than all time-outs of the admin port, so an answer has waited for none."""
AT_ONCE = 500
LISTED_MAX = 10_000


def commit(group: str, partitions: int = 1) -> bytes:
    body = string(group) + struct.pack(">i", -1) + string("") + struct.pack(">q", -1)
    body += struct.pack(">i", 1) + string("orders") + struct.pack(">i", partitions)
    for number in range(partitions):
        body += struct.pack(">iq", number, 7) + string("")
    return frame(request(OFFSET_COMMIT, 2, 1, body))


def commit_all(port: int, groups: list[str]) -> None:
    with RawConnection(port, timeout_s=60.0) as client:
        for start in range(0, len(groups), AT_ONCE):
            some = groups[start : start + AT_ONCE]
            client.socket.sendall(b"".join(map(commit, some)))
            for _ in some:
                assert client.reply()[1].endswith(b"\0\0"), "no error"


def get(daemon: Daemon, path: str, host: str = "localhost") -> int:
    asked = urllib.request.Request(daemon.admin_url + path, headers={"Host": host})
    try:
        with urllib.request.urlopen(asked, timeout=TIMEOUT_S) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def groupd(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "groupd", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    with running(Daemon(tmp_path, topics={"orders": 4})) as made:
        yield made


def unread(daemon: Daemon, data: bytes) -> socket.socket:
    """A client that sends this and reads nothing."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.connect((daemon.host, daemon.admin_port))
    made.sendall(data)
    return made


@pytest.mark.parametrize("open_metrics", ["true", "false"])
def test_metrics_are_not_for_pages_from_elsewhere(tmp_path: Path, open_metrics: str) -> None:
    """A name that leads here by DNS rebinding shows no names of groups; one of a scraper does."""
    settings = {
        "groupd.admin.hosts": "groupd.monitoring.svc",
        "groupd.admin.metrics.open": open_metrics,
    }
    with running(Daemon(tmp_path, settings=settings)) as daemon:
        for host, status in (("evil.example", 421), ("GROUPD.monitoring.svc:9644", 200)):
            assert get(daemon, "/metrics", host) == status, host
            assert get(daemon, "/healthz", host) == 200, host


def test_who_reads_nothing_and_who_says_nothing_keep_nobody_out(daemon: Daemon) -> None:
    long = "g" * 8000
    commit_all(daemon.port, [f"{long}{number}" for number in range(1000)])
    with ExitStack() as clients:
        for data in [b"GET /groups HTTP/1.1\r\nHost: localhost\r\n\r\n"] * 64 + [b""] * 200:
            clients.enter_context(unread(daemon, data))
        for path in ("/healthz", "/readyz", "/metrics", "/groups", "/config"):
            assert get(daemon, path) == 200, path
        health = groupd("health", "--admin", f"{daemon.host}:{daemon.admin_port}")
        assert (health.returncode, health.stdout) == (0, "ready\n")


def test_the_command_follows_the_pages(tmp_path: Path) -> None:
    groups = [f"group-{number:05}" for number in range(LISTED_MAX + 50)]
    with running(Daemon(tmp_path, topics={"orders": 4})) as daemon:
        commit_all(daemon.port, groups)
        admin = f"{daemon.host}:{daemon.admin_port}"
        listed = groupd("groups", "list", "--admin", admin, "--format", "json")
        assert listed.returncode == 0, listed.stderr
        rows = [json.loads(line) for line in listed.stdout.splitlines()]
        assert [row["group_id"] for row in rows] == groups
        with urllib.request.urlopen(f"{daemon.admin_url}/groups", timeout=60) as answer:
            assert len(json.load(answer)) == LISTED_MAX
            link = answer.headers["Link"]
        assert link == '</groups?after=group-09999&limit=10000>; rel="next"'
        page = f"{daemon.admin_url}/groups?limit=3&after=group-00007"
        with urllib.request.urlopen(page, timeout=60) as answer:
            assert [row["group_id"] for row in json.load(answer)] == groups[8:11]
        for wrong in ("limit=0", "limit=x", "limit=10001"):
            assert get(daemon, f"/groups?{wrong}") == 400
            assert get(daemon, f"/groups/{groups[0]}?{wrong}") == 400
        assert get(daemon, f"/groups/{groups[0]}/offsets?after=orders") == 400


def test_offsets_come_in_pages(tmp_path: Path) -> None:
    with running(Daemon(tmp_path, topics={"orders": 1200})) as daemon:
        with RawConnection(daemon.port) as client:
            client.socket.sendall(commit("g", 1200))
            client.reply()
        url = f"{daemon.admin_url}/groups/g/offsets?limit=700"
        with urllib.request.urlopen(url, timeout=60) as answer:
            first, link = json.load(answer), answer.headers["Link"]
        assert link == '</groups/g/offsets?after=orders-699&limit=700>; rel="next"'
        following = daemon.admin_url + link[1 : link.index(">")]
        with urllib.request.urlopen(following, timeout=60) as answer:
            second, link = json.load(answer), answer.headers["Link"]
        rows = first["partitions"] + second["partitions"]
        assert [row["partition"] for row in rows] == list(range(1200))
        assert {row["committed_offset"] for row in rows} == {7}
        assert link is None
        admin = f"{daemon.host}:{daemon.admin_port}"
        shown = groupd("groups", "describe", "g", "--admin", admin, "--format", "json")
        assert len(json.loads(shown.stdout)["offsets"]["partitions"]) == 1200
