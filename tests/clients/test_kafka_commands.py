"""The commands that speak to any Kafka cluster: against groupd, and against Apache Kafka with
GROUPD_PEER=kafka. What one of them answers, the other one does, too."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple

import pytest

from groupd.coordinator.cli.main import main
from tests.clients.conftest import TopicMaker
from tests.clients.share import ShareGroup, ShareWay, accept_all
from tests.clients.test_history import Member, now_committed, rewind
from tests.support.admin import produce
from tests.support.peer import Peer
from tests.support.process import wait_until

COUNTS = {"orders": 2}


class Ran(NamedTuple):
    stdout: str
    stderr: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.splitlines()]


class Shop(NamedTuple):
    """A topic of two partitions with 30 records in each."""

    peer: Peer
    topic: str
    group: str

    def run(self, *arguments: str, code: int = 0) -> Ran:
        """`groupd ...` against the peer, which must end with `code`."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main([*arguments, "--bootstrap", self.peer.bootstrap])
        ran = Ran(out.getvalue(), err.getvalue())
        assert ended.value.code == code, (arguments, ran)
        return ran

    def committed(self) -> dict[int, int]:
        found = now_committed(self.peer.bootstrap, self.group, {self.topic: 2})
        return {number: offset for (_, number), offset in found.items()}


@pytest.fixture
def shop(peer: Peer, topics: TopicMaker, unique: str) -> Shop:
    (topic,) = topics(COUNTS)
    produce(peer.bootstrap, {topic: 2}, 60)
    return Shop(peer, topic, f"billing-{unique}")


@pytest.fixture(params=["consumer", "classic"])
def member(shop: Shop, request: pytest.FixtureRequest) -> Iterator[Member]:
    """The one member of the shop's group; it has committed 12 of partition 0."""
    made = Member(shop.peer.bootstrap, shop.group, [shop.topic], request.param)
    made.join(2)
    made.commit({(shop.topic, 0): 12})
    yield made
    made.close()


def test_groups_with_their_lag(shop: Shop, member: Member) -> None:
    asked = ("groups", "list", "--filter", shop.group, "-o", "json")
    (row,) = shop.run(*asked).rows
    assert row == {"group_id": shop.group, "type": row["type"], "state": "Stable"}
    (row,) = shop.run(*asked, "--lag").rows
    assert row["type"] in ("consumer", "classic")
    assert (row["members"], row["lag"]) == (1, 18), "where it reads partition 1 is not known"
    assert set(row) == {"group_id", "type", "state", "members", "lag"}, "no more than Kafka tells"
    head, *_ = shop.run("groups", "list", "--sort", "lag").stdout.splitlines()
    assert head.split() == ["group_id", "type", "state", "members", "lag"]


def test_one_group(shop: Shop, member: Member) -> None:
    (found,) = shop.run("groups", "describe", shop.group, "--format", "json").rows
    (who,) = found["members"]
    assert who["client_id"] == "worker"
    assert who["owned"] == {shop.topic: [0, 1]}
    offsets = [
        (row["partition"], row["committed_offset"], row["end_offset"], row["lag"], row["member_id"])
        for row in found["offsets"]["partitions"]
    ]
    me = who["member_id"]
    assert offsets == [(0, 12, 30, 18, me), (1, None, 30, None, me)]
    text = shop.run("groups", "describe", shop.group, "--wide").stdout
    assert "state: Stable" in text
    assert "last commit" not in text, "Kafka does not tell it"


def test_a_share_group(shop: Shop, share_group: ShareGroup) -> None:
    group = share_group.group_id
    found = {(shop.topic, part, offset) for part in range(2) for offset in range(30)}
    member = share_group.member(ShareWay("java"), [shop.topic])
    accept_all(member, found)
    (row,) = shop.run("groups", "list", "--filter", group, "--lag", "-o", "json").rows
    assert row == {"group_id": group, "type": "share", "state": "Stable", "members": 1, "lag": 0}

    def described() -> dict[str, Any]:
        (shown,) = shop.run("groups", "describe", group, "--format", "json").rows
        return shown

    shown = described()
    (who,) = shown["members"]
    assert who["client_id"] == f"{group}-java-0"
    assert who["owned"] == {shop.topic: [0, 1]}
    assert (shown["protocol_name"], shown["group_epoch"]) == ("simple", who["member_epoch"])
    rows = shown["offsets"]["partitions"]
    assert [(row["end_offset"], row["lag"]) for row in rows] == [(30, 0)] * 2
    assert [row["member_id"] for row in rows] == [who["member_id"]] * 2
    assert all(0 <= row["committed_offset"] <= 30 for row in rows), "maybe one write behind"

    member.close()
    produce(shop.peer.bootstrap, {shop.topic: 2}, 10)
    (row,) = shop.run("groups", "list", "--filter", group, "--lag", "-o", "json").rows
    assert (row["state"], row["members"], row["lag"]) == ("Empty", 0, 10)
    assert [row["lag"] for row in described()["offsets"]["partitions"]] == [5, 5]


def test_a_group_that_is_not_there(shop: Shop) -> None:
    assert shop.run("groups", "describe", "nobody", code=1).stderr == "groupd: no group nobody\n"
    told = shop.run("groups", "reset", "nobody", "--to", "latest", code=1).stderr
    assert "nothing committed: name topics with --topic" in told


def test_a_reset_waits_until_the_group_is_empty(shop: Shop, member: Member) -> None:
    asked = ("groups", "reset", shop.group, "--to", "earliest", "-o", "json")
    refused = shop.run(*asked, "--apply", code=1)
    assert "it has members" in refused.stderr
    assert refused.rows[0]["action"] == "rewind", "the plan is shown"
    assert shop.committed() == {0: 12}
    member.close()
    wait_until(lambda: shop.run("groups", "list", "-o", "json").stdout, 10, "an answer")
    wait_until(lambda: _is_empty(shop), 30, "an empty group")
    dry = shop.run(*asked)
    assert "a dry run: 1 offset would be written" in dry.stderr
    assert shop.committed() == {0: 12}
    assert "1 offset written and read back" in shop.run(*asked, "--apply").stderr
    assert shop.committed() == {0: 0}


def _is_empty(shop: Shop) -> bool:
    rows = shop.run("groups", "list", "--filter", shop.group, "-o", "json").rows
    return [row["state"] for row in rows] in (["Empty"], [])


def test_every_way_to_say_where_to(shop: Shop) -> None:
    rewind(shop.peer.bootstrap, shop.group, {(shop.topic, 0): 12})
    between_ms = time.time_ns() // 1_000_000 + 1
    wait_until(lambda: time.time_ns() // 1_000_000 > between_ms, 1, "the next millisecond")
    produce(shop.peer.bootstrap, {shop.topic: 2}, 10)

    def steps(*arguments: str) -> list[tuple[Any, ...]]:
        ran = shop.run("groups", "reset", shop.group, *arguments, "-o", "json", "--apply")
        names = ("partition", "from", "to", "action", "records")
        return [tuple(row[name] for name in names) for row in ran.rows]

    assert steps("--to", "shift:-2") == [(0, 12, 10, "rewind", 2)]
    assert steps("--to", "offset:11") == [(0, 10, 11, "forward", 1)]
    assert steps("--to", str(between_ms)) == [(0, 11, 30, "forward", 19)]
    assert steps("--to", "latest", "--topic", shop.topic) == [
        (0, 30, 35, "forward", 5),
        (1, None, 35, "first", None),
    ]
    assert steps("--to", "offset:99", "--topic", f"{shop.topic}:1,7") == [
        (1, 35, 35, "keep", 0),
        (7, None, None, "leave", None),
    ]
    assert shop.committed() == {0: 35, 1: 35}
    told = shop.run("groups", "reset", shop.group, "--to", "now", "--topic", "no", code=1).stderr
    assert told == "groupd: no topic no\n"


def test_a_share_group_is_reset(shop: Shop, share_group: ShareGroup) -> None:
    group = share_group.group_id
    member = share_group.member(ShareWay("java"), [shop.topic])
    accept_all(member, {(shop.topic, part, at) for part in range(2) for at in range(30)})
    asked = ("groups", "reset", group, "-o", "json", "--to")
    assert "it has members" in shop.run(*asked, "earliest", "--apply", code=1).stderr
    member.close()
    assert "a dry run: 2 offsets would be written" in shop.run(*asked, "offset:20").stderr

    def steps(*arguments: str) -> list[tuple[Any, ...]]:
        names = ("partition", "from", "to", "action", "records")
        ran = shop.run(*asked, *arguments, "--apply")
        assert "written and read back" in ran.stderr
        return [tuple(row[name] for name in names) for row in ran.rows]

    shop.run(*asked, "offset:20", "--apply")
    assert steps("latest") == [(0, 20, 30, "forward", 10), (1, 20, 30, "forward", 10)]
    one = ("--topic", f"{shop.topic}:1")
    assert steps("shift:-2", *one) == [(1, 30, 28, "rewind", 2)]
    assert steps("2000-01-01", *one) == [(1, 28, 0, "rewind", 28)]
    assert steps("offset:25", *one) == [(1, 0, 25, "forward", 25)]

    # An offset that is right already: what is finished behind it is forgotten.
    wanted = {(shop.topic, 1, at) for at in range(25, 30)}
    member = share_group.member(ShareWay("java"), [shop.topic])
    first, *others = member.poll_records()
    assert first.offset == 25
    member.acknowledge("accept", others)
    member.finish("release", [first])
    member.close()
    assert steps("offset:25", *one) == [(1, 25, 25, "again", None)]
    member = share_group.member(ShareWay("java"), [shop.topic])
    again = accept_all(member, wanted)
    assert {record.place: record.count for record in again} == dict.fromkeys(wanted, 1)


def test_a_share_group_begins_where_a_consumer_group_is(shop: Shop, unique: str) -> None:
    rewind(shop.peer.bootstrap, shop.group, {(shop.topic, 0): 12})
    asked = ("groups", "reset", f"parcels-{unique}", "--to", f"group:{shop.group}", "-o", "json")
    every = ("--topic", shop.topic)
    ran = shop.run(*asked, *every, "--share", "--apply")
    assert [(row["partition"], row["to"], row["action"]) for row in ran.rows] == [
        (0, 12, "first"),
        (1, None, "leave"),
    ]
    assert ran.rows[1]["warning"] == f"group {shop.group} has no offset there"
    (row,) = shop.run("groups", "list", "--filter", f"parcels-{unique}", "--lag", "-o", "json").rows
    assert (row["type"], row["state"], row["lag"]) == ("share", "Empty", 18)
    assert [row["action"] for row in shop.run(*asked).rows] == ["again"]
    back = ("groups", "reset", shop.group, "--to", f"group:parcels-{unique}", "-o", "json")
    assert [row["action"] for row in shop.run(*back).rows] == ["keep"]
    told = shop.run(*back, "--share", code=1).stderr
    assert told == f"groupd: group {shop.group} is no share group\n"
    nobody = shop.run("groups", "reset", shop.group, "--to", "group:nobody", code=1).stderr
    assert nobody == "groupd: group nobody has nothing committed\n"


def test_topics(shop: Shop) -> None:
    (row,) = shop.run("topics", "list", "--filter", shop.topic, "-o", "json").rows
    assert (row["topic"], row["partitions"], row["internal"]) == (shop.topic, 2, False)
    assert shop.topic in shop.run("topics", "list").stdout
    rows = shop.run("topics", "describe", shop.topic, "-o", "json").rows
    assert [(row["partition"], row["start"], row["records"]) for row in rows] == [
        (0, 0, 30),
        (1, 0, 30),
    ]
    assert {len(row["in_sync"]) for row in rows} == {row["leader"] is not None for row in rows}
    assert shop.run("topics", "describe", "no", code=1).stderr == "groupd: no topic no\n"


def test_settings_say_where_they_come_from(shop: Shop) -> None:
    of_topic = ("--entity", "topic", shop.topic)

    def own() -> dict[str, str]:
        rows = shop.run("configs", "describe", *of_topic, "-o", "json").rows
        return {row["key"]: row["value"] for row in rows if row["source"] == "topic"}

    assert own() == {}
    ran = shop.run("configs", "set", *of_topic, "retention.ms=1000", "cleanup.policy=compact")
    assert ran.stdout.splitlines() == [
        "retention.ms: 604800000 -> 1000 (topic)",
        "cleanup.policy: delete -> compact (topic)",
    ]
    assert own() == {"retention.ms": "1000", "cleanup.policy": "compact"}
    (row,) = shop.run("configs", "delete", *of_topic, "retention.ms", "-o", "json").rows
    assert row == {
        "entity": "topic",
        "name": shop.topic,
        "key": "retention.ms",
        "from": "1000",
        "to": "604800000",
        "source": "default",
    }
    every = shop.run("configs", "describe", *of_topic, "--all").stdout
    assert "retention.ms" in every
    told = shop.run("configs", "set", *of_topic, "retention.ms=x", "cleanup.policy=delete", code=1)
    assert "retention.ms" in told.stderr
    assert own() == {"cleanup.policy": "compact"}, "all or none"


def test_settings_of_groups_and_brokers(shop: Shop) -> None:
    of_group = ("--entity", "group", shop.group)
    key = "consumer.heartbeat.interval.ms"
    ran = shop.run("configs", "set", *of_group, f"{key}=400")
    assert ran.stdout == f"{key}: 300 -> 400 (group)\n"
    assert shop.run("configs", "delete", *of_group, key).stdout == f"{key}: 400 -> 300 (static)\n"
    (topic, *_) = shop.run("topics", "describe", shop.topic, "-o", "json").rows
    broker = ("--entity", "broker", str(topic["leader"]))
    rows = shop.run("configs", "describe", *broker, "-o", "json").rows
    assert {row["key"]: row["source"] for row in rows}["group.initial.rebalance.delay.ms"] == (
        "static"
    )
    assert shop.run("configs", "describe", "--entity", "broker", "4711", code=1).stderr == (
        "groupd: no broker 4711\n"
    )
