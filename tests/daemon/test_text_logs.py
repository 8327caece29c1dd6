"""Text logs are for people: a daemon that goes through groups, refusals, bad input and restarts
writes no Python."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.classic_member import ClassicMember
from tests.support.daemon import Daemon
from tests.support.raw import RawConnection, frame, request
from tests.support.raw_member import RawMember, settle, topic_ids
from tests.support.wire_client import WireClient

LINE = re.compile(r'(?:[a-z_]+=(?:"(?:[^"\\]|\\.)*"|[^\s="]+) ?)+')
"""`name=value` pairs, values in double quotes where they need them."""
PYTHON = re.compile(
    r"""b'|b"|\('|\['|\{'|\(\d+,\)|\bNone\b|\bTrue\b|\bFalse\b|<[\w.]+[ :>]|[a-z]='|[A-Z]\w+\("""
)
UNKNOWN_API = 31_337


@pytest.fixture(params=["text", "json"])
def log_format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def daemon(tmp_path: Path, log_format: str) -> Iterator[Daemon]:
    flags = ("--log-format", log_format, "--log-level", "debug")
    started = Daemon(tmp_path, topics={"orders": 4}, arguments=flags)
    try:
        started.start()
        yield started
    finally:
        started.close()


def exercise(daemon: Daemon) -> None:
    """Members on both protocols that come, move, are refused, leave; input that nobody knows."""
    ids = topic_ids(daemon)
    first, second = (RawMember(daemon, "billing", name, ids) for name in ("c1", "c2"))
    with closing(first), closing(second):
        first.join(["orders"], subscribed_topic_regex="ord.*")
        second.join(["orders"])
        settle(first, second)
        assert first.beat(member_epoch=99)["error_code"] != 0
        assert second.beat(subscribed_topic_regex="(")["error_code"] != 0
        first.beat(member_epoch=-1)
    member = ClassicMember((daemon.host, daemon.port), "old", group_instance_id="i-1")
    member.send_join_once()
    reply = member.joined()
    member.member_id = reply["member_id"]
    member.send_sync({member.member_id: b"\x00"})
    assert member.client.receive()["error_code"] == 0
    refused = RawMember(daemon, "old", "c1", ids)
    with closing(refused):
        assert refused.join(["orders"])["error_code"] != 0
    member.client.close()
    with WireClient(daemon.host, daemon.port) as client:
        said = {"transactional_id": "worker", "transaction_timeout": 60_000}
        assert client.call("InitProducerId", 4, **said)["error_code"] == 0
        client.call("DeleteGroups", 2, groups_names=["old"])
    with RawConnection(daemon.port) as connection:
        connection.send(frame(request(UNKNOWN_API, 0, 1)))
        assert connection.is_closed_by_peer()


def test_no_line_is_python(daemon: Daemon, log_format: str) -> None:
    exercise(daemon)
    daemon.restart()
    exercise(daemon)
    daemon.stop()
    lines = daemon.process.stderr().splitlines()
    events = set()
    for line in lines:
        if log_format == "json":
            entry = json.loads(line)
            assert None not in entry.values(), line
            events.add(entry["event"])
            continue
        assert LINE.fullmatch(line), line
        assert PYTHON.search(line) is None, line
        assert line.startswith("timestamp="), line
        events.update(re.findall(r' event=("[^"]*"|\S+)', line))
    expected = {"serving", "stopped", "member-joined", "member-left", "rebalance-completed"}
    assert expected <= events, sorted(events)
    assert any("connection closed" in event for event in events)
    if log_format == "json":
        serving = next(json.loads(line) for line in lines if '"serving"' in line)
        ((host, port),) = serving["kafka"].values()
        assert (host, type(port)) == ("127.0.0.1", int)
