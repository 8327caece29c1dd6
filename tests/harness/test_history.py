"""What `events` and the report of a failed test say of what clients did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from groupd.coordinator.core.types import Event, EventKind
from groupd.testing import replay
from groupd.testing.harness import GroupCoordinator
from groupd.testing.history import EVENTS_MAX, TRAFFIC_PER_GROUP, History
from tests.harness.members import Member, settings


@pytest.fixture
def c(groupd: GroupCoordinator) -> GroupCoordinator:
    groupd.create_topic("orders", 2)
    groupd.produce("orders", ["a", "b", "c"])
    return groupd


def told(c: GroupCoordinator, event: str) -> list[Any]:
    return [one for one in c.events("billing") if one["event"] == event]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_commits_and_fetches_are_events(c: GroupCoordinator, protocol: str) -> None:
    with Member(c.bootstrap_servers, "billing", protocol, **{"client.id": "mine"}) as member:
        member.wait(owned=2, values=3)
        member.commit()
        (commit,) = told(c, "offsets-committed")
        assert commit["details"] == {"offsets": {"orders-0": 2, "orders-1": 1}}
        assert commit["member_id"] == c.describe("billing")["members"][0]["member_id"]
        assert commit["epoch"] > 0
        fetched = told(c, "offsets-fetched")[0]
        assert set(fetched["details"]["offsets"].values()) == {-1}
        reads = [one["details"] for one in told(c, "reads-from")]
        assert reads[0]["client_id"] == "mine"
        assert {place for one in reads for place in one["offsets"]} == {"orders-0", "orders-1"}
        assert {offset for one in reads for offset in one["offsets"].values()} >= {0}
    names = [one["event"] for one in c.events("billing")]
    assert names.index("offsets-fetched") < names.index("reads-from")
    assert names.index("reads-from") < names.index("offsets-committed")
    assert [one["sequence"] for one in c.events("billing")] == sorted(
        one["sequence"] for one in c.events("billing")
    )


def test_a_refused_commit_and_a_fault_are_events(c: GroupCoordinator) -> None:
    consumer = Consumer(settings(c.bootstrap_servers, "billing", "consumer"))
    place = [TopicPartition("orders", 0, 1)]
    with (
        c.fault("error", api="OffsetCommit", code="INVALID_COMMIT_OFFSET_SIZE") as fault,
        pytest.raises(KafkaException),
    ):
        consumer.commit(offsets=place, asynchronous=False)
    (hit,) = told(c, "fault-hit")
    assert hit["cause"] == f"fault {fault.number} took OffsetCommit"
    assert hit["details"] == {"action": "error", "error": "INVALID_COMMIT_OFFSET_SIZE"}
    assert told(c, "offsets-committed") == []
    with Member(c.bootstrap_servers, "billing") as member:
        member.wait(owned=2)
        with pytest.raises(KafkaException):
            consumer.commit(offsets=place, asynchronous=False)
    (refused,) = told(c, "commit-refused")
    assert refused["details"] == {"error": "UNKNOWN_MEMBER_ID", "offsets": {"orders-0": 1}}
    consumer.close()


def test_a_commit_of_the_harness_is_an_event(c: GroupCoordinator) -> None:
    c.commit("billing", {("orders", 1): 1})
    (commit,) = told(c, "offsets-committed")
    assert commit["details"] == {"offsets": {"orders-1": 1}}
    c.restart()
    assert told(c, "offsets-committed") == [commit]  # what was before a restart is known


def test_a_recording_of_a_broker_with_commits_replays(groupd_factory: Any, tmp_path: Path) -> None:
    path = tmp_path / "recording.jsonl"
    c = groupd_factory(topics={"orders": 2}, record=path)
    c.produce("orders", ["a"])
    with Member(c.bootstrap_servers, "billing") as member:
        member.wait(owned=2, values=1)
        member.commit()
        assert told(c, "offsets-committed")
    c.close()
    assert replay(path) is None


def test_commits_push_no_rebalance_out() -> None:
    history = History()
    history.add(Event("consumer", EventKind.MEMBER_JOINED, "g", "m"), 1)
    for number in range(5 * TRAFFIC_PER_GROUP):
        history.note("g", "offsets-committed", number, details={"offsets": {"orders-0": number}})
    events = history.of("g")
    assert len(events) == 1 + TRAFFIC_PER_GROUP
    assert events[0]["event"] == "member-joined"
    assert events[-1]["timestamp_ms"] == 5 * TRAFFIC_PER_GROUP - 1


def test_the_group_that_was_quiet_for_longest_is_forgotten() -> None:
    history = History()
    for number in range(EVENTS_MAX + 10):
        history.note(f"g{number % 1999}", "offsets-committed", number, details={})
    kept = [history.of(f"g{number}") for number in range(1999)]
    assert sum(map(len, kept)) <= EVENTS_MAX
    assert history.latest(1) == [f"g{(EVENTS_MAX + 9) % 1999}"]
