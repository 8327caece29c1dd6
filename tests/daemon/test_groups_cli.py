"""`groupd groups` on call: a running daemon's groups, read by people with 120 columns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pytest

from groupd.coordinator.cli.main import main
from groupd.coordinator.daemon import admin_port as daemon_admin
from groupd.coordinator.lag.growth import LogEnds
from groupd.coordinator.lag.watch import LagWatch
from groupd.coordinator.runtime.broker import Broker
from groupd.coordinator.runtime.clock import Clock
from groupd.testing.harness import GroupCoordinator
from tests.support.kio_entities import Plain
from tests.support.metrics import samples
from tests.support.process import wait_until
from tests.support.raw_member import RawMember, admin_json, settle, topic_ids

WIDTH = 120
LONG = "a-service-of-the-department-of-long-names-in-region-eu-central-1-instance-number-"
Run = Callable[..., str]


def _watch_by_its_clock(broker: Broker, ends: LogEnds, clock: Clock, *others: Any) -> LagWatch:
    return LagWatch(broker, ends, broker.clock, *others)


@pytest.fixture
def c() -> Iterator[GroupCoordinator]:
    """The rounds over the lag go by the frozen clock, too."""
    admin = ("127.0.0.1", 0)
    with (
        patch.object(daemon_admin, "LagWatch", _watch_by_its_clock),
        GroupCoordinator.start({"orders": 4}, clock="frozen", admin=admin) as started,
    ):
        yield started


def rounds(c: GroupCoordinator, count: int) -> None:
    """So many rounds over the lag, ten seconds after each other."""
    for _ in range(count):
        before = admin_json(c, "/groups/billing/lag")["round"]
        c.clock.advance(10_000)
        wait_until(
            lambda: admin_json(c, "/groups/billing/lag")["round"] > before,  # noqa: B023
            20,
            "a round over the lag",
        )


@pytest.fixture
def run(c: GroupCoordinator, capsys: pytest.CaptureFixture[str]) -> Run:
    """`groupd groups ...` against the broker; what it prints."""

    def run(*arguments: str) -> str:
        assert c.admin_url is not None
        with pytest.raises(SystemExit) as ended:
            main(["groups", *arguments, "--admin", c.admin_url.removeprefix("http://")])
        assert ended.value.code == 0, capsys.readouterr().err
        return capsys.readouterr().out

    return run


def commit(member: RawMember, topic: str, partition: int, offset: int) -> None:
    place = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
    reply = member.client.call(
        "OffsetCommit",
        9,
        group_id=member.group,
        generation_id_or_member_epoch=member.epoch,
        member_id=member.member,
        topics=[{"name": topic, "partitions": [place]}],
    )
    assert reply["topics"][0]["partitions"][0]["error_code"] == 0


def row(text: str, *start: str) -> list[str]:
    """The row of a table that begins with these cells."""
    (found,) = (
        line.split() for line in text.splitlines() if line.split()[: len(start)] == [*start]
    )
    return found


def test_a_consumer_that_heartbeats_but_does_not_poll_is_found(
    c: GroupCoordinator, run: Run
) -> None:
    ids = topic_ids(c)
    members = [RawMember(c, "billing", name, ids) for name in ("c1", "c2")]
    for member in members:
        member.join(["orders"])
    settle(*members)
    owner = {n: member for member in members for n in member.owned["orders"]}
    c.produce("orders", [{"value": str(n), "partition": n % 4} for n in range(40)])
    for number, member in owner.items():
        commit(member, "orders", number, 10 if member is members[0] else 2)
    rounds(c, 1)
    assert "judgement: not known yet\n" in run("describe", "billing")
    rounds(c, 5)
    text = run("describe", "billing")
    assert "look at:" not in text
    assert "judgement: ok (16 records wait, and it keeps up)" in text
    rounds(c, 1)

    text = run("describe", "billing")
    assert "state: Stable" in text
    assert row(text, "c1")[-8:-5] == ["3", "2", "0"], "epoch, owns, lag"
    assert text.count("1 min 10 s ago") == 2 + 4, "of members and of partitions"
    (number, *_) = members[1].owned["orders"]
    shown = row(text, "orders", str(number))
    assert shown[2:5] == ["2", "10", "8"], "committed, end, lag"
    assert shown[-3:] == ["c2", "c2", "/127.0.0.1"], "member, client, host"
    wide = run("describe", "billing", "--wide")
    places = " in " + ", ".join(f"orders-{one}" for one in members[1].owned["orders"])
    told = (
        "c2 (client c2 at 127.0.0.1) is in the group, but has committed nothing for 1 min, "
        f"although 16 records wait{places}"
    )
    # One judgement, wherever one looks.
    assert f"\n  {told}: does it poll?\n" in wide
    assert f"\njudgement: stalled ({told})\n" in wide
    assert f"\njudgement: stalled ({told})\n" in run("why", "billing", "--wide")
    assert "stalled" in row(run("list", "--lag"), "billing")
    answer: Plain = json.loads(run("describe", "billing", "--format", "json"))
    page = admin_json(c, "/groups/billing/lag")
    assert answer["judgement"] == page["judgement"] == "stalled"
    assert answer["silent"] == page["silent"]
    assert [one["member_id"] for one in page["silent"]] == ["c2"]
    (bad,) = [one for one in answer["offsets"]["partitions"] if one["partition"] == number]
    assert (bad["judgement"], bad["member_id"]) == ("stalled", "c2")
    assert c.admin_url is not None
    (sample,) = samples(c.admin_url, "groupd_consumergroup_judgement")
    assert sample.labels == {"consumergroup": "billing", "judgement": "stalled"}

    commit(members[1], "orders", number, 3)
    rounds(c, 1)
    assert "does it poll?" not in run("describe", "billing")
    for member in members:
        member.close()


def test_a_member_that_has_not_committed_yet_counts_from_its_assignment(
    c: GroupCoordinator, run: Run
) -> None:
    first, member = (RawMember(c, "billing", name, topic_ids(c)) for name in ("c0", "c1"))
    first.join(["orders"])
    settle(first)
    commit(first, "orders", 0, 0)
    first.close()
    c.clock.advance(90_000)
    member.join(["orders"])
    settle(member)
    c.produce("orders", [{"value": "coffee", "partition": 0}, {"value": "tea", "partition": 1}])
    rounds(c, 5)
    assert "committed nothing" not in run("describe", "billing")
    rounds(c, 1)
    text = run("describe", "billing", "--wide")
    assert "committed nothing for 1 min, although 1 record waits in orders-0" in text
    assert row(text, "orders", "1")[2:5] == ["-", "1", "-"], "nobody has committed: no lag"
    member.close()


def test_after_a_restart_only_the_lag_is_known_at_first(c: GroupCoordinator, run: Run) -> None:
    c.produce("orders", [{"value": "tea", "partition": 0}] * 9)
    member = RawMember(c, "billing", "c1", topic_ids(c))
    member.join(["orders"])
    settle(member)
    commit(member, "orders", 0, 2)
    c.restart()
    member.close()
    if admin_json(c, "/groups/billing/lag")["lag"] is None:
        rounds(c, 1)  # the first one came before the group was loaded
    assert c.admin_url is not None
    page = admin_json(c, "/groups/billing/lag")
    known = [page[name] for name in ("lag", "lag_seconds", "judgement", "reason")]
    assert known == [7, None, None, None]
    (listed,) = admin_json(c, "/groups")
    assert [listed[name] for name in ("lag", "lag_seconds", "judgement")] == [7, None, None]
    (partition,) = [
        one for one in admin_json(c, "/groups/billing/offsets")["partitions"] if one["lag"]
    ]
    assert [partition[name] for name in ("lag", "lag_seconds", "judgement")] == [7, None, None]
    for name in ("judgement", "lag_seconds", "lag_seconds_max", "partition_judgement"):
        assert samples(c.admin_url, f"groupd_consumergroup_{name}") == []
    assert [one.value for one in samples(c.admin_url, "kafka_consumergroup_lag")] == [7]
    assert run("list", "--lag").count("not known yet") == 2, "lag time and judgement"
    assert run("describe", "billing").count("not known yet") == 1 + 2
    rounds(c, 1)
    page = admin_json(c, "/groups/billing/lag")
    assert (page["lag"], page["judgement"]) == (7, "ok"), (
        "the member has a minute from the start on"
    )
    assert page["lag_seconds"] is not None


def test_a_member_of_a_group_that_has_committed_nothing_is_not_accused(
    c: GroupCoordinator, run: Run
) -> None:
    """It may keep its offsets elsewhere, or read only what is new."""
    member = RawMember(c, "billing", "c1", topic_ids(c))
    member.join(["orders"])
    settle(member)
    c.produce("orders", ["coffee"])
    rounds(c, 9)
    assert "does it poll?" not in run("describe", "billing")
    member.close()


def test_describe_says_what_a_group_waits_for(c: GroupCoordinator, run: Run) -> None:
    ids = topic_ids(c)
    first, second = (RawMember(c, "billing", name, ids) for name in ("c1", "c2"))
    first.join(["orders"])
    settle(first)
    second.join(["orders"])
    first.beat()
    text = run("describe", "billing")
    assert (
        "c2: waits for orders-3: c1 was told to revoke it and has not confirmed (1 min left)"
        in (text)
    )
    first.close()
    second.close()


def test_the_timeline_of_one_group_and_of_all(c: GroupCoordinator, run: Run) -> None:
    ids = topic_ids(c)
    members = [RawMember(c, group, "c1", ids) for group in ("billing", "shipping")]
    for member in members:
        member.join(["orders"])
    members[0].beat(member_epoch=-1)
    (left,) = (
        line for line in run("events", "billing", "--wide").splitlines() if " member-left " in line
    )
    assert " member-left c1 (the member asked to leave) epoch=" in left
    assert left.endswith("client_id=c1 client_host=/127.0.0.1 freed=orders:[0,1,2,3]")
    everything = run("events")
    assert "billing group-created" in everything
    assert "shipping group-created" in everything
    rows = [json.loads(line) for line in run("events", "--format", "json").splitlines()]
    assert {event["group_id"] for event in rows} == {"billing", "shipping"}
    assert [event["sequence"] for event in rows] == sorted(event["sequence"] for event in rows)
    of_one = [
        json.loads(line) for line in run("events", "shipping", "--format", "json").splitlines()
    ]
    assert of_one == [event for event in rows if event["group_id"] == "shipping"]
    for member in members:
        member.close()


def test_events_can_be_followed(c: GroupCoordinator) -> None:
    assert c.admin_url is not None
    command = [sys.executable, "-m", "groupd", "groups", "events", "billing", "--follow"]
    command += ["--admin", c.admin_url.removeprefix("http://")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as following:
        assert following.stdout is not None
        output = following.stdout.fileno()
        os.set_blocking(output, False)
        seen: list[str] = []

        def has(word: str) -> bool:
            with suppress(BlockingIOError):
                seen.append(os.read(output, 1 << 16).decode())
            return word in "".join(seen)

        member = RawMember(c, "billing", "c1", topic_ids(c))
        member.join(["orders"])
        wait_until(lambda: has("member-joined c1"), 20, "the join")
        member.beat(member_epoch=-1)
        wait_until(lambda: has("member-left c1"), 20, "the leave")
        assert "".join(seen).count("member-joined c1") == 1
        member.close()
        following.terminate()
        following.wait(10)


def test_tables_fit_120_columns_with_long_names_and_wide_cuts_nothing(
    run: Run, c: GroupCoordinator
) -> None:
    topic, group = f"{LONG}topic", f"{LONG}group"
    c.create_topic(topic, 2)
    ids = topic_ids(c)
    members = [RawMember(c, group, f"{LONG}{number}", ids) for number in range(2)]
    for member in members:
        member.join([topic])
    settle(*members)
    for member in members:
        (number,) = member.owned[topic]
        commit(member, topic, number, 0)
    c.produce(topic, [{"value": "x", "partition": number} for number in range(2)])
    c.clock.advance(11 * 60_000)
    members.append(RawMember(c, group, f"{LONG}2", ids))
    members[-1].join([topic])
    tables = [("list",), ("describe", group), ("events", group)]
    for arguments in tables:
        assert max(map(len, run(*arguments).splitlines())) <= WIDTH, arguments
    cut = run("describe", group)
    assert {line.split()[0][-2:] for line in cut.splitlines() if " STABLE " in line} >= {"-0", "-1"}
    wide = run("describe", group, "--wide")
    for name in (topic, group, *(member.member for member in members)):
        assert name in wide
    for member in members:
        member.close()


def test_what_is_not_there_is_not_found(c: GroupCoordinator) -> None:
    assert admin_json(c, "/groups/nobody/offsets") is None
    assert admin_json(c, "/events/more") is None


def test_why_a_group_rebalanced(c: GroupCoordinator, run: Run) -> None:
    ids = topic_ids(c)
    first, second = (RawMember(c, "billing", name, ids) for name in ("c1", "c2"))
    first.join(["orders"])
    settle(first)
    c.clock.advance(10_000)
    second.join(["orders"])
    first.beat()
    waiting = run("why", "billing", "--wide")
    assert "billing: Reconciling" in waiting
    assert "c2: waits for orders-2: c1 was told to revoke it" in waiting
    assert "Member c2 (client c2) joined. 0 partitions moved so far; it is not over yet." in waiting
    assert "  +0.000 s: c1 (client c1) is to revoke orders-2, orders-3 within 1 min\n" in waiting
    c.clock.advance(4000)
    settle(first, second)
    assert (
        "Member c2 (client c2) joined. 2 partitions moved; it took 4 s. "
        "Member c1 (client c1) took longest to revoke partitions: 4 s.\n"
    ) in run("why", "billing", "--wide")
    second.beat(member_epoch=-1)
    first.beat()
    last, *others = map(json.loads, run("why", "billing", "-o", "json").splitlines())
    assert last["cause"] == "member c2 (client c2) left: the member asked to leave"
    assert len(others) == 2
    assert run("why", "billing", "--last", "1", "-o", "json").count("\n") == 1
    assert max(map(len, run("why", "billing").splitlines())) <= WIDTH
    for member in (first, second):
        member.close()


def test_watch_shows_what_a_daemon_answers(c: GroupCoordinator, run: Run) -> None:
    member = RawMember(c, "billing", "c1", topic_ids(c))
    member.join(["orders"])
    settle(member)
    assert "billing" in run("watch")
    shown = run("watch", "billing")
    assert shown.startswith("billing: consumer, Stable, 1 member")
    assert "consumer-session of c1 in " in shown
    member.close()
