"""Rebalances as traces, from real clients to the OpenTelemetry Collector's receiver."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from tests.support.collector import Collector, ReceivedSpan, collecting
from tests.support.daemon import ROOT, Daemon, ends_well, refused
from tests.support.peer import FAST_SETTINGS, SESSION_TIMEOUT_MS
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.raw_member import RawMember, admin_json, settle, topic_ids
from tests.support.wire_client import WireClient

PARTITIONS = 4
SETTLE_S = 60.0
ENDPOINT = "groupd.otel.traces.endpoint"
DEAD = "http://127.0.0.1:9/v1/traces"
"""Nobody listens there."""
LIBRARY_LINE = "traces are not delivered"


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with collecting(tmp_path) as made:
        yield made


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    daemons: list[Daemon] = []

    def make(endpoint: str, *arguments: str, env: Mapping[str, str] | None = None) -> Daemon:
        daemon = Daemon(
            tmp_path / "groupd",
            topics={"orders": PARTITIONS},
            settings={**FAST_SETTINGS, ENDPOINT: endpoint},
            arguments=arguments,
            env=env,
        )
        daemons.append(daemon)
        daemon.start()
        return daemon

    yield make
    for daemon in daemons:
        daemon.close()


class Members:
    """Consumers of one group, polled in turn. `protocol`: the client's setting."""

    def __init__(self, daemon: Daemon, protocol: str) -> None:
        self.group = f"group-{protocol}"
        self._settings: dict[str, str | int] = {
            "bootstrap.servers": daemon.bootstrap,
            "group.id": self.group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
        if protocol == "classic":
            session = {"session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": 300}
            self._settings |= session
        self._consumers: list[Consumer] = []

    def add(self) -> None:
        """One more member; waits until all have their share."""
        consumer = Consumer(self._settings)
        consumer.subscribe(["orders"])
        self._consumers.append(consumer)
        share = PARTITIONS // len(self._consumers)
        wait_until(lambda: self._shares() == {share}, SETTLE_S, "all members have their share")

    def _shares(self) -> set[int]:
        for consumer in self._consumers:
            consumer.poll(0.02)
        return {len(consumer.assignment()) for consumer in self._consumers}

    def close(self) -> None:
        for consumer in self._consumers:
            consumer.close()


def checked(collector: Collector, group: str) -> list[ReceivedSpan]:
    """The rebalances of a group, whose traces are whole: every child lies within its root."""
    roots = collector.roots(group)
    ids = {root.trace_id: root for root in roots}
    assert len(ids) == len(roots)
    for span in collector.spans():
        root = ids.get(span.trace_id)
        if root is None or span is root or not span.parent_id:
            continue
        assert span.parent_id == root.span_id
        assert root.begin_ns <= span.begin_ns <= span.end_ns <= root.end_ns
    for root, following in pairwise(roots):
        assert root.end_ns <= following.begin_ns
        if root.attributes["groupd.outcome"] == "superseded":
            assert root.links == ((following.trace_id, following.span_id),)
    return roots


def named(spans: list[ReceivedSpan], name: str) -> list[ReceivedSpan]:
    return [span for span in spans if span.name == name]


def test_a_consumer_group_of_real_clients(
    collector: Collector, serve: Callable[..., Daemon]
) -> None:
    daemon = serve(collector.endpoint)
    with ends_well(daemon):
        with closing(Members(daemon, "consumer")) as members:
            members.add()
            members.add()
        events = admin_json(daemon, f"/groups/{members.group}/events")
    # Everything that happened has come, also what had not been sent when the daemon stopped.
    roots = checked(collector, members.group)
    targets = [event["epoch"] for event in events if event["event"] == "target-installed"]
    assert {root.attributes["groupd.epoch"] for root in roots} >= set(targets)
    assert roots[-1].attributes["groupd.members"] == 0
    moved = next(root for root in roots if "groupd.partitions_revoked" in root.attributes)
    assert moved.attributes["groupd.group.type"] == "consumer"
    assert moved.attributes["groupd.outcome"] == "completed"
    assert (moved.attributes["groupd.members"], moved.attributes["groupd.partitions_revoked"]) == (
        2,
        2,
    )
    assert moved.attributes["groupd.cause"].endswith("joined")
    assert moved.resource["service.name"] == "groupd"
    children = collector.below(moved)
    (revoke,) = named(children, "revoke")
    (target,) = named(children, "target")
    assert target.attributes["groupd.assignor"] == "uniform"
    assert len(revoke.attributes["groupd.partitions"]) == 2
    assert revoke.attributes["groupd.rebalance_timeout_ms"] == 300_000
    gained = [span for span in named(children, "assign") if "groupd.partitions" in span.attributes]
    assert [span.attributes["groupd.partitions"] for span in gained] == [
        revoke.attributes["groupd.partitions"]
    ]
    assert gained[0].attributes["groupd.member.id"] != revoke.attributes["groupd.member.id"]
    assert gained[0].end_ns >= revoke.end_ns


def test_a_classic_group_of_real_clients(
    collector: Collector, serve: Callable[..., Daemon]
) -> None:
    daemon = serve(collector.endpoint)
    with ends_well(daemon), closing(Members(daemon, "classic")) as members:
        members.add()
        members.add()
    roots = checked(collector, members.group)
    two = next(
        root
        for root in roots
        if (root.attributes["groupd.members"], root.attributes["groupd.outcome"])
        == (2, "completed")
    )
    assert two.attributes["groupd.group.type"] == "classic"
    children = collector.below(two)
    assert [span.name for span in children] == ["join", "target"]
    assert children[0].attributes == {"groupd.members": 2}
    assert children[1].attributes == {"groupd.assignor": "range"}
    assert children[0].end_ns == children[1].begin_ns


def test_a_member_that_does_not_revoke_has_an_error(
    collector: Collector, serve: Callable[..., Daemon]
) -> None:
    daemon = serve(collector.endpoint)
    ids = topic_ids(daemon)
    with ends_well(daemon):
        slow, late = (RawMember(daemon, "billing", name, ids) for name in ("slow", "late"))
        with closing(slow), closing(late):
            slow.join(["orders"], rebalance_timeout=500)
            late.join(["orders"])

            def is_out() -> bool:
                # It goes on with heartbeats, but keeps what it has.
                slow.beat(topic_partitions=None)
                events = admin_json(daemon, "/groups/billing/events")
                return "member-fenced" in [event["event"] for event in events]

            wait_until(is_out, SETTLE_S, "the slow member is fenced")
    checked(collector, "billing")
    failed = [span for span in collector.spans() if span.error]
    assert [(span.name, span.error) for span in failed] == [
        ("revoke", "partitions not revoked within 500 ms")
    ]
    assert failed[0].attributes["groupd.member.id"] == "slow"


def test_nodes_send_the_traces_of_their_own_groups(
    collector: Collector, serve: Callable[..., Daemon], postgres: PostgresServer
) -> None:
    # The environment has a name and the receiver; both reach the further nodes.
    env = {
        "GROUPD_STORE": postgres.url(postgres.emptied_database()),
        "OTEL_SERVICE_NAME": "orders",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint.removesuffix("/v1/traces"),
    }
    daemon = serve("environment", "--workers", "2", env=env)
    groups = [f"group-{number}" for number in range(6)]
    join = {
        "member_id": "one",
        "member_epoch": 0,
        "rebalance_timeout": 60_000,
        "subscribed_topic_names": ["orders"],
        "topic_partitions": (),
    }
    with ends_well(daemon):
        with WireClient(daemon.host, daemon.port) as client:
            found = client.call("FindCoordinator", 4, coordinator_keys=groups, key_type=0)
        for one in found["coordinators"]:
            with WireClient(one["host"], one["port"]) as client:
                reply = client.call("ConsumerGroupHeartbeat", 1, group_id=one["key"], **join)
            assert reply["error_code"] == 0
    nodes = set()
    for group in groups:
        (root,) = checked(collector, group)
        assert root.resource["service.name"] == "orders"
        nodes.add(root.resource["groupd.node.id"])
    assert nodes == {0, 1}


def test_a_dead_receiver_costs_a_line_and_two_seconds_at_the_stop(
    serve: Callable[..., Daemon],
) -> None:
    daemon = serve(DEAD, env={"OTEL_BSP_SCHEDULE_DELAY": "50"})
    ids = topic_ids(daemon)
    with ends_well(daemon):
        for number in range(20):
            with closing(RawMember(daemon, f"g{number}", "one", ids)) as one:
                one.join(["orders"])
        wait_until(lambda: LIBRARY_LINE in daemon.logs(), SETTLE_S, "the line", daemon.logs)
    text = (daemon.directory / "groupd.log").read_text()
    assert text.count(LIBRARY_LINE) == 1
    assert text.count("traces are lost") == 1


def test_a_recording_is_the_same_with_traces(
    collector: Collector, serve: Callable[..., Daemon], tmp_path: Path
) -> None:
    file = tmp_path / "recording"
    daemon = serve(collector.endpoint, "--record", str(file))
    ids = topic_ids(daemon)
    with ends_well(daemon):
        one, two = (RawMember(daemon, "billing", name, ids) for name in ("one", "two"))
        with closing(one), closing(two):
            one.join(["orders"])
            two.join(["orders"])
            settle(one, two)
    assert [root.attributes["groupd.outcome"] for root in checked(collector, "billing")] == [
        "completed",
        "completed",
    ]
    command = [sys.executable, "-m", "groupd", "replay", str(file)]
    replayed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_without_the_extra_a_start_is_refused(tmp_path: Path) -> None:
    # A module of that name in the current directory stands for one that is not installed.
    (tmp_path / "opentelemetry.py").write_text("raise ModuleNotFoundError(name=__name__)\n")
    line = refused(["--set", f"{ENDPOINT}={DEAD}", "--store", "memory://"], tmp_path)
    assert line.endswith("run: pip install 'groupd[otel]'")
    assert ENDPOINT in line
