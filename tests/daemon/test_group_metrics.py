"""The group coordinator's metrics of a daemon that has had something to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from groupd.testing.harness import GroupCoordinator
from tests.support.metrics import samples
from tests.support.process import wait_until
from tests.support.raw_member import RawMember, settle, topic_ids
from tests.support.wire_client import WireClient

PREFIX = "kafka_server_group_coordinator_metrics_"
OLD_PREFIX = "kafka_coordinator_group_groupmetadatamanager_"
Scrape = dict[tuple[str, str], float]


@pytest.fixture
def daemon(groupd_factory: Callable[..., GroupCoordinator]) -> GroupCoordinator:
    return groupd_factory(topics={"orders": 4, "doomed": 2}, admin=("127.0.0.1", 0))


def scrape(daemon: GroupCoordinator) -> Scrape:
    """(name, value of the only label or "") -> value."""
    assert daemon.admin_url is not None
    return {
        (sample.name, "".join(sample.labels.values())): sample.value
        for sample in samples(daemon.admin_url)
    }


def test_groups_offsets_and_rebalances_are_counted(daemon: GroupCoordinator) -> None:
    members = [RawMember(daemon, "kip848", name, topic_ids(daemon)) for name in ("m1", "m2")]
    for member in members:
        member.join(["orders"])
    settle(*members)
    with WireClient(daemon.host, daemon.port) as client:
        daemon.commit("simple", {"orders": dict.fromkeys(range(4), 1)})
        daemon.commit("simple", {"doomed": dict.fromkeys(range(2), 1)})
        deleted = client.call(
            "OffsetDelete",
            0,
            group_id="simple",
            topics=[{"name": "orders", "partitions": [{"partition_index": 3}]}],
        )
        assert deleted["error_code"] == 0
    daemon.delete_topic("doomed")
    key = (PREFIX + "offset_count", "")
    wait_until(lambda: scrape(daemon)[key] == 3, 10, "offsets of the deleted topic are gone")

    found = scrape(daemon)

    def value(name: str, label: str = "") -> float:
        return found[(PREFIX + name, label)]

    assert value("offset_commit_count") == 6
    assert value("offset_deletion_count") == 1
    assert value("offset_expiration_count") == 0
    assert found[("groupd_events_total", "offsets-forgotten")] == 2
    assert value("offset_commit_rate") > 0
    assert value("offset_expiration_rate") == 0
    protocols = {one: value("group_count", one) for one in ("classic", "consumer")}
    assert protocols == {"classic": 1, "consumer": 1}
    assert value("group_count", "share") == value("group_count", "streams") == 0
    assert value("consumer_group_count", "Stable") == 1
    assert value("classic_group_count", "Empty") == 1
    assert value("consumer_group_rebalance_count") == 2
    assert value("num_partitions", "active") == 50
    assert found[(OLD_PREFIX + "numoffsets", "")] == 3
    assert found[(OLD_PREFIX + "numgroups", "")] == 1
    assert found[(OLD_PREFIX + "numgroupsempty", "")] == 1
    assert found[(OLD_PREFIX + "numgroupsstable", "")] == 0
    for member in members:
        member.close()


def test_durations_add_up(daemon: GroupCoordinator) -> None:
    before = scrape(daemon)
    assert before[(PREFIX + "event_purgatory_time_ms_max", "")] == 0
    for _ in range(20):
        daemon.commit("simple", {"orders": dict.fromkeys(range(4), 1)})
    found = scrape(daemon)
    for kind in ("event_processing", "event_purgatory", "batch_linger", "batch_flush"):
        shares = [
            found[(f"{PREFIX}{kind}_time_ms_{share}", "")]
            for share in ("p50", "p95", "p99", "p999", "max")
        ]
        assert 0 < shares[0] <= shares[-1] < 10_000, kind
        assert shares == sorted(shares)
    assert (
        found[(PREFIX + "event_purgatory_time_ms_max", "")]
        >= found[(PREFIX + "batch_flush_time_ms_p50", "")]
    )
    assert found[(PREFIX + "batch_flush_rate", "")] > 0
    assert found[(PREFIX + "event_queue_size", "")] == 0
    assert 0 <= found[(PREFIX + "thread_idle_ratio_avg", "")] <= 1
