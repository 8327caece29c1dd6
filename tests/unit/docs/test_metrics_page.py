"""`docs/metrics.md` names exactly the metrics that are exposed, with their types and labels."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast
from unittest.mock import MagicMock, Mock

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from groupd.coordinator.admin.collectors import (
    LogCollector,
    SecurityCollector,
    ShareStateMetrics,
    TelemetryCollector,
    TopicCleaningCollector,
)
from groupd.coordinator.admin.lag_metrics import LagCollector
from groupd.coordinator.admin.metrics import make_registry
from groupd.coordinator.admin.rates import Beginning
from groupd.coordinator.admin.share_metrics import ShareRequestsMetrics
from groupd.coordinator.catalogue_changes import CatalogueChanges
from groupd.coordinator.cleaning.topic_cleaner import TopicCleaner
from groupd.coordinator.cluster.metrics import MembershipCollector, PeerCollector
from groupd.coordinator.cluster.peers import Peers
from groupd.coordinator.config.coordinator_config import CoordinatorConfig
from groupd.coordinator.core.state import ShardState
from groupd.coordinator.lag.growth import Bounds
from groupd.coordinator.lag.judgement import Judgement
from groupd.coordinator.lag.watch import GroupLag, LagWatch, PartitionLag
from groupd.coordinator.recording.recorder import RecordingCollector
from groupd.coordinator.recording.tape import Tape
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.cleaner import Cleaner
from groupd.coordinator.runtime.clock import SystemClock
from groupd.coordinator.runtime.long_work import LongWork
from groupd.coordinator.runtime.loop_stalls import LoopStalls
from groupd.coordinator.runtime.routes import ROUTES
from groupd.coordinator.security.security import Security
from groupd.coordinator.server.connection_stats import ConnectionStats
from groupd.coordinator.server.handshakes import Handshakes
from groupd.coordinator.share_partitions.counts import ShareCounts
from groupd.coordinator.share_state.coordinator import ShareCoordinator
from groupd.coordinator.topics.telemetry import ClientMetrics, Telemetry
from groupd.coordinator.transactions.coordinator import TransactionCoordinator
from groupd.protocol.errors import ErrorCode
from groupd.storage.memory import MemoryStore

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
ROW = re.compile(r"\| `(\w+)` \| (gauge|counter|untyped) \| (.*?) \|")


def scraped() -> dict[str, tuple[str, frozenset[str]]]:
    """Exposed name -> (type, labels) of all metrics that are not the process's own."""
    config = CoordinatorConfig()

    def no_shard(*_: object) -> object:
        return _NoGroups()

    broker = Broker(
        config,
        no_shard,  # type: ignore[arg-type]
        MemoryStore(),
        SystemClock(),
        ROUTES,
    )
    node = Mock(renew_ns=1, renewals=1, failures=0, fenced=0)
    node.lease = Mock(age_ms=1, valid=lambda: True)
    node.view = Mock(members=(), missing=0, catalogue=1, counts={"groups": 1})
    node.held = Mock(last_load_ms=1, taken=Counter(), given=Counter())
    member = Mock(node=node, node_id=1, units={})
    member.store.journal.applied = 1
    connections = ConnectionStats()
    connections.requests[(18, 3)] = 1
    connections.handshakes = Handshakes(config, SystemClock())
    facts = Mock(listener="SSL", expires=0.0, reloads=0, failed_reloads=0)
    connections.certificates = lambda: [cast(Any, facts)]
    for again in (False, True):
        connections.sasl.logins["EXTERNAL", "PLAIN", again, True] = 1
    transactions = TransactionCoordinator(
        config, MemoryStore(), broker.writer, SystemClock(), never, NoMarkers()
    )
    share_state = ShareCoordinator(
        config, MemoryStore(), broker.writer, SystemClock(), lambda *_: True, broker.work
    )
    share_state.counts.pruned[0] = 1
    cleaner = Cleaner(MemoryStore(), broker.shards, config, broker.clock.now)
    topic_cleaner = TopicCleaner(cast(Any, Mock()), MemoryStore(), config, broker.clock)
    telemetry = Telemetry(
        ClientMetrics(MemoryStore(), CatalogueChanges()), broker.clock.now, lambda: bytes(16)
    )
    security = Security(config, MemoryStore(), broker.work.turn, broker.clock.monotonic_ms)
    peers = Peers(config, broker.clock, {}.get)
    peers.calls["WriteTxnMarkers", "answered"] = peers.last_ms["WriteTxnMarkers"] = 1
    with TemporaryDirectory() as directory:
        tape = Tape(Path(directory) / "r", 1)
        more: list[Collector] = [
            LogCollector(cleaner, LoopStalls()),
            TopicCleaningCollector(topic_cleaner),
            RecordingCollector(tape),
            TelemetryCollector(telemetry),
            SecurityCollector(security),
            ShareStateMetrics(share_state),
            PeerCollector(peers),
            MembershipCollector(cast(Any, member)),
            lag_collector(config),
            share_metrics(config),
        ]
        registry: CollectorRegistry = make_registry(
            broker, connections, transactions, more, Beginning(broker.clock)
        )
        tape.discard()
    found = {}
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        if family.name.startswith(("process_", "python_")):
            continue
        name = family.name + ("_total" if family.type == "counter" else "")
        labels = frozenset(label for sample in family.samples for label in sample.labels)
        kind = "untyped" if family.type == "unknown" else family.type
        found[name] = (kind, labels)
    return found


def lag_collector(config: CoordinatorConfig) -> LagCollector:
    """That of a group that has stopped on one partition."""
    group = Mock(members=(), type_name="consumer", state_name=lambda: "Empty")
    shard = Mock(shard=Mock(state=Mock(groups={"g": group})))
    topic = Mock(partitions=1)
    broker = Mock(config=config, shards=[shard], image=Mock(by_name={"t": topic}))
    stopped = PartitionLag(1, 1, 1, 1, 1, 1, age_ms=1, judgement=Judgement.STOPPED)
    watch = LagWatch(broker, Mock(), SystemClock(), LongWork(), config)
    watch.groups["g"] = group_lag = GroupLag({"t": {0: stopped}})
    group_lag.totals.add(("t", 0), stopped)
    watch.bounds = {"t": {0: Bounds(0, 2)}}
    return LagCollector(broker, watch, 100)


def share_metrics(config: CoordinatorConfig) -> ShareRequestsMetrics:
    """Those of a node that leads one share-partition."""
    share = Mock(group_id="g", lock_timeouts=1, records=Mock(in_flight=2, start_offset=3))
    share.partition = Mock(topic_id=b"t" * 16, partition=0)
    leaders = MagicMock(all=lambda: [share], __len__=lambda _: 1)
    sessions = MagicMock(partitions=1, __len__=lambda _: 1)
    shares = Mock(leaders=leaders, sessions=sessions, counts=ShareCounts())
    topic = Mock()
    topic.name = "t"
    broker = Mock(config=config, image=Mock(by_id={share.partition.topic_id: topic}))
    return ShareRequestsMetrics(shares, broker, 100)


async def never() -> int:
    raise AssertionError("nobody asks for a producer id")


class NoMarkers:
    async def write_marker(self, *_: object) -> dict[tuple[str, int], ErrorCode]:
        raise AssertionError("nothing ends")


class _NoGroups:
    """A shard without groups, which is all that the collector asks of it."""

    state = ShardState(CoordinatorConfig(), lambda: "", {})

    def offset_count(self) -> int:
        return 0


def test_the_page_and_a_scrape_agree() -> None:
    documented = {}
    for name, kind, labels in ROW.findall(PAGE.read_text()):
        named = re.findall(r"`(\w+)`", labels)
        documented[name] = (kind, frozenset(named))
    assert documented == scraped()
    assert len(documented) > 20


def test_names_that_take_the_place_of_another_exporters_exist() -> None:
    section = PAGE.read_text().partition("\n## Names of other exporters\n")[2]
    rows = re.findall(r"^\| (.*) \| (.*) \|$", section, re.MULTILINE)[1:]
    names = {name for _, ours in rows for name in re.findall(r"\b(?:kafka|groupd)_\w+", ours)}
    assert len(names) >= 12
    assert names <= scraped().keys()
    theirs = [name for other, _ in rows for name in re.findall(r"`(kminion_\w+)", other)]
    assert len(set(theirs)) == len(theirs)
