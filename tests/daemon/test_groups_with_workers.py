"""Groups of a daemon with workers on its one admin port: offsets with lag, and events of all."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support.admin import produce
from tests.support.daemon import Daemon
from tests.support.peer import running
from tests.support.raw_member import admin_json
from tests.support.wire_client import WireClient

GROUPS = [f"group-{number}" for number in range(6)]


@pytest.fixture
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running(
        Daemon(tmp_path_factory.mktemp("workers"), workers=2, topics={"orders": 2})
    ) as made:
        yield made


def test_lag_and_events_come_from_all_workers(daemon: Daemon) -> None:
    produce(f"{daemon.host}:{daemon.port}", {"orders": 2}, 10)
    with WireClient(daemon.host, daemon.port) as client:
        found = client.call("FindCoordinator", 4, coordinator_keys=GROUPS, key_type=0)
    for one in found["coordinators"]:
        place = {"partition_index": 1, "committed_offset": 1, "committed_metadata": ""}
        with WireClient(one["host"], one["port"]) as client:
            reply = client.call(
                "OffsetCommit",
                8,
                group_id=one["key"],
                generation_id_or_member_epoch=-1,
                member_id="",
                topics=[{"name": "orders", "partitions": [place]}],
            )
            client.call(
                "ConsumerGroupHeartbeat",
                1,
                group_id=one["key"],
                member_id="c1",
                member_epoch=0,
                rebalance_timeout=60_000,
                subscribed_topic_names=["orders"],
                topic_partitions=(),
            )
        assert reply["topics"][0]["partitions"][0]["error_code"] == 0
    assert len({one["port"] for one in found["coordinators"]}) == 2

    ends = []
    for group in GROUPS:
        (_, row) = admin_json(daemon, f"/groups/{group}/offsets")["partitions"]
        assert (row["topic"], row["partition"], row["committed_offset"]) == ("orders", 1, 1)
        assert row["lag"] == row["end_offset"] - 1
        ends.append(row["end_offset"])
    assert set(ends) == {ends[0]}
    assert ends[0] > 1
    events = admin_json(daemon, "/events")
    joined = {event["group_id"] for event in events if event["event"] == "member-joined"}
    assert joined == set(GROUPS), json.dumps(events)
