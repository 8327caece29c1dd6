"""Findings: each one where it belongs, with evidence, and not a step before its threshold."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import fields

from groupd.pipeline import group_tables
from groupd.pipeline.errors import PipelineError
from groupd.pipeline.fold.checkup import NamedPlace
from groupd.pipeline.fold.entry import FoldEntry, FoldFacts
from groupd.pipeline.fold.findings import DEFAULT_SEVERITIES, Thresholds, read_thresholds
from groupd.pipeline.fold.groups import GroupsFold
from groupd.pipeline.fold.health import HealthFold
from groupd.pipeline.fold.state import Settings, TopicNames
from groupd.protocol.records.schema import OffsetCommitKey, OffsetCommitValue, Record
from tests.pipeline.group_logs import TimedShard, entry_of
from tests.pipeline.test_fold_classic import History
from tests.unit.consumer_group.harness import BAR, FOO, topic

SECOND, MINUTE, DAY = 1000, 60_000, 86_400_000


class Log:
    """Entries of a shard and commits beside them, in the order of time."""

    def __init__(self, **limits: Any) -> None:
        self.shard = TimedShard(topic("foo", FOO, 4), topic("bar", BAR, 2))
        self.commits: list[FoldEntry] = []
        self.limits = Thresholds(**limits)
        self.ends: dict[NamedPlace, int] = {}

    def commit(self, partition: int, offset: int, name: str = "foo", group: str = "g") -> None:
        at_ms = self.shard.now.wall_ms
        value = OffsetCommitValue(
            offset, commit_timestamp_ms=at_ms, topic_id=FOO if name == "foo" else BAR
        )
        record = Record(OffsetCommitKey(group, name, partition), value)
        entry = entry_of(len(self.shard.log), at_ms, record)
        self.commits.append(entry)

    def health(self) -> dict[str, list[dict[str, Any]]]:
        """Rows by finding, and those of `group_states`."""
        # A commit stands in front of the next record of the shard that was written after it.
        entries = sorted([*self.commits, *self.shard.entries()], key=lambda entry: entry.log_offset)
        return self.of(entries, self.shard.now.wall_ms)

    def of(self, entries: list[FoldEntry], now_ms: int) -> dict[str, list[dict[str, Any]]]:
        limits = self.limits
        facts, topics = (
            FoldFacts(frozenset({"findings", "group_states"})),
            TopicNames(self.shard.names()),
        )
        settings = Settings(
            limits.session_timeout_ms,
            limits.flapping_life_ms,
            limits.flapping_count,
            limits.flapping_window_ms,
        )
        health = HealthFold(facts, topics, limits, self.ends, now_ms)
        fold = GroupsFold(facts, topics, settings, [health])
        for entry in entries:
            fold.feed(entry)
        fold.finish()
        found: dict[str, list[dict[str, Any]]] = {}
        for table, row in facts.take():
            found.setdefault(row["finding"] if table == "findings" else table, []).append(row)
            if table == "findings":
                assert list(row) == group_tables.FINDINGS.fieldNames()
                evidence = json.loads(row["evidence"])
                assert evidence["where"]["group"] == row["group"]
                assert evidence.keys() == {"table", "where", "since", "until", "facts"}
        return found


def test_a_quiet_group_has_no_findings() -> None:
    log = Log()
    log.shard.join("a")
    log.shard.settle_all(SECOND)
    log.shard.join("b")
    log.shard.settle_all(SECOND)
    for partition in range(4):
        log.commit(partition, 10)
        log.ends["foo", partition] = 10
    log.shard.advance(60 * MINUTE)
    found = log.health()
    assert found.keys() == {"group_states"}
    (state,) = found["group_states"]
    assert (state["state"], state["members"], state["protocol"]) == ("Stable", 2, "consumer")


def restart(log: Log, member: str, client_id: str) -> str:
    """The client leaves and comes back as another member; its member id."""
    log.shard.leave(member)
    log.shard.settle_all()
    log.shard.advance(10 * SECOND)
    name, _, number = member.partition("-")
    again = f"{name}-{int(number or 0) + 1}"
    log.shard.join(again, client_id=client_id)
    log.shard.settle_all()
    log.shard.advance(30 * SECOND)
    return again


@pytest.mark.parametrize("members", [6, 12])
def test_a_rolling_start_is_no_storm(members: int) -> None:
    """Every member joins once, whether the members share a client id and a host or not."""
    for client_ids in (["app"] * members, [f"app-{number}" for number in range(members)]):
        log = Log()
        for number, client_id in enumerate(client_ids):
            log.shard.join(f"m{number}", client_id=client_id)
            log.shard.settle_all()
            log.shard.advance(30 * SECOND)
        assert "rebalance-storm" not in log.health()


def test_two_rolling_restarts_are_no_storm() -> None:
    """A deployment that is rolled back within the window: every client leaves and joins twice."""
    for shared in (True, False):
        log = Log()
        names = [f"m{number}" for number in range(4)]
        client_ids = ["app" if shared else f"app-{name}" for name in names]
        for name, client_id in zip(names, client_ids, strict=True):
            log.shard.join(name, client_id=client_id)
        log.shard.settle_all()
        log.shard.advance(60 * MINUTE)
        for _ in range(2):
            for at in range(4):
                names[at] = restart(log, names[at], client_ids[at])
        assert "rebalance-storm" not in log.health()


def test_a_rolling_restart_of_static_members_that_stay_away_too_long_is_no_storm() -> None:
    log = Log()
    for number in range(4):
        log.shard.join(f"m{number}-0", instance_id=f"i{number}")
    log.shard.settle_all()
    log.shard.advance(60 * MINUTE)
    for number in range(4):
        log.shard.leave(f"m{number}-0", epoch=-2, instance_id=f"i{number}")
        log.shard.advance(50 * SECOND)
        log.shard.join(f"m{number}-1", instance_id=f"i{number}")
        log.shard.settle_all()
    assert "rebalance-storm" not in log.health()


def test_a_storm_is_told_with_the_client_that_causes_it() -> None:
    """One of four clients leaves and joins again and again. The first two times it could be a
    deployment; from the third time on its rebalances count."""
    log = Log(flapping_count=100)
    names = {}
    for number in range(4):
        names[number] = f"m{number}"
        log.shard.join(names[number], client_id=f"app-{number}")
        log.shard.settle_all()
        log.shard.advance(MINUTE)
    for _ in range(4):
        names[2] = restart(log, names[2], "app-2")
    assert "rebalance-storm" not in log.health()
    names[2] = restart(log, names[2], "app-2")
    (row,) = log.health()["rebalance-storm"]
    # Joins from the third on (the first was its start), departures from the third on.
    assert (row["count"], row["severity"], row["member_id"]) == (7, "critical", names[2])
    evidence = json.loads(row["evidence"])
    assert evidence["where"]["epoch"] == [9, *range(10, 16)]
    (client,) = evidence["facts"]["clients"]
    assert client == {
        "client_id": "app-2",
        "client_host": "/127.0.0.1",
        "instance_id": None,
        "member_id": names[2],
        "rebalances": 7,
        "share": 1.0,
    }
    assert "app-2 at /127.0.0.1 caused 100%" in row["summary"]


def test_clients_that_take_turns_are_named_by_their_share() -> None:
    log = Log(flapping_count=100)
    names = {0: "m0", 1: "m1", 2: "m2"}
    for number, name in names.items():
        log.shard.join(name, client_id=f"app-{number}")
        log.shard.settle_all()
    log.shard.advance(60 * MINUTE)
    for turn in (0, 1, 0, 0, 1, 0, 1, 0):
        member = names[turn]
        log.shard.leave(member)
        log.shard.settle_all()
        names[turn] = member + "x"
        log.shard.join(names[turn], client_id=f"app-{turn}")
        log.shard.settle_all()
        log.shard.advance(30 * SECOND)
    (row,) = log.health()["rebalance-storm"]
    clients = json.loads(row["evidence"])["facts"]["clients"]
    found = [(one["client_id"], one["rebalances"], one["share"]) for one in clients]
    assert found == [("app-0", 6, 0.75), ("app-1", 2, 0.25)]
    assert row["member_id"] == names[0]


def test_new_processes_that_take_a_place_again_and_again_are_a_storm() -> None:
    """Tasks of a scheduler that come back elsewhere, under another name each time."""
    log = Log(flapping_count=100)
    for name in ("a", "b", "c"):
        log.shard.join(name, client_id=name)
    log.shard.settle_all()
    log.shard.advance(60 * MINUTE)
    name = "c"
    for number in range(6):
        log.shard.leave(name)
        log.shard.settle_all()
        log.shard.advance(20 * SECOND)
        name = f"task-{number}"
        log.shard.join(name, client_id=name)
        log.shard.settle_all()
    (row,) = log.health()["rebalance-storm"]
    assert (row["count"], row["member_id"]) == (8, "task-5")


def test_storms_far_apart_are_two() -> None:
    log = Log(storm_rebalances=2, storm_repeats=1)
    for number in range(4):
        log.shard.join(f"m{number}")
        log.shard.settle_all()
        log.shard.advance(30 * SECOND if number != 1 else 20 * MINUTE)
    assert [row["count"] for row in log.health()["rebalance-storm"]] == [2, 2]


def test_a_storm_of_a_classic_cooperative_group_and_its_rolling_restart() -> None:
    """Each departure and each return takes two generations there."""

    def generations(laps: list[str]) -> list[FoldEntry]:
        history, owners, number = History(), {"a": (0, 1), "b": (2, 3)}, 1
        history.generation(number, 0, owners)
        for lap, member in enumerate(laps):
            other = "b" if member == "a" else "a"
            for step, now in enumerate(
                ({other: owners[other]}, {other: (0, 1, 2, 3)}, {"a": (0, 1), "b": (2, 3)})
            ):
                number += 1
                history.generation(number, 3600 + 60 * lap + 20 * step, now)
        return history.entries

    restarted, stormy = generations(["a", "b"]), generations(["a"] * 6)
    assert "rebalance-storm" not in Log().of(restarted, restarted[-1].at_ms)
    (row,) = Log().of(stormy, stormy[-1].at_ms)["rebalance-storm"]
    (client,) = json.loads(row["evidence"])["facts"]["clients"]
    assert (client["client_id"], client["share"]) == ("client-a", 1.0)


def test_a_flapping_member() -> None:
    log = Log()
    log.shard.join("a")
    log.shard.settle_all()
    for number in range(4):
        log.shard.join(f"b{number}", client_id="restless")
        log.shard.advance(SECOND)
        log.shard.leave(f"b{number}")
        log.shard.settle_all(SECOND)
    (row,) = log.health()["flapping-member"]
    assert json.loads(row["evidence"])["facts"] == {"client": "restless/127.0.0.1"}


@pytest.mark.parametrize(
    ("end", "still_ms", "stuck"),
    [(11, 5 * MINUTE, True), (11, 5 * MINUTE - 1, False), (10, DAY // 4, False)],
)
def test_a_stuck_partition(end: int, still_ms: int, stuck: bool) -> None:
    log = Log()
    log.shard.join("a")
    log.shard.settle_all()
    log.commit(2, 10)
    log.ends["foo", 2] = end
    log.shard.advance(still_ms)
    found = log.health().get("stuck-partition", [])
    assert [(row["topic"], row["partition"]) for row in found] == ([("foo", 2)] if stuck else [])


def test_a_partition_that_nobody_had_for_long() -> None:
    log = Log()
    log.shard.join("a")
    log.shard.settle_all()
    log.shard.join("b")
    log.shard.say("a")
    log.shard.say("a")
    for _ in range(5):
        log.shard.advance(13 * SECOND)
        log.shard.say("a")
    log.shard.say("b")
    (row,) = log.health()["unowned-partition"]
    assert (row["count"], row["last"] - row["first"]) == (2, 65 * SECOND)


def test_a_skewed_assignment_and_idle_members() -> None:
    history = History()
    history.generation(1, 0, {"a": (0, 1, 2, 3, 4, 5), "b": (6,), "c": ()})
    found = Log().of(history.entries, history.entries[-1].at_ms)
    (row,) = found["skewed-assignment"]
    assert (row["member_id"], json.loads(row["evidence"])["facts"]["most"]) == ("a", 6)
    assert "idle-members" not in found
    history = History()
    history.generation(1, 0, {"a": (0,), "b": (1,), "c": ()})
    found = Log().of(history.entries, history.entries[-1].at_ms)
    assert [row["count"] for row in found["idle-members"]] == [1]
    assert "skewed-assignment" not in found


def test_a_commit_by_somebody_who_does_not_own_the_partition() -> None:
    log = Log()
    log.shard.join("a", names=["foo", "bar"])
    log.shard.settle_all()
    log.commit(0, 5, "bar")
    log.shard.say("a", names=["foo"])
    log.shard.settle_all()
    log.shard.advance(4 * SECOND)
    log.commit(0, 6, "bar")
    assert "zombie-commit" not in log.health()
    log.shard.advance(2 * SECOND)
    log.commit(0, 7, "bar")
    (row,) = log.health()["zombie-commit"]
    assert (row["topic"], row["partition"], row["member_id"], row["count"]) == ("bar", 0, "a", 1)


def test_a_commit_right_after_everybody_left() -> None:
    log = Log()
    log.shard.join("a")
    log.shard.settle_all()
    log.shard.leave("a")
    log.shard.advance(SECOND)
    log.commit(0, 5)
    log.shard.advance(MINUTE)
    log.commit(1, 5)  # a tool
    (row,) = log.health()["zombie-commit"]
    assert (row["partition"], json.loads(row["evidence"])["facts"]["kinds"]) == (
        0,
        {"after-leaving": 1},
    )


def test_offsets_near_expiry() -> None:
    log = Log()
    log.commit(0, 5, group="tool")
    log.shard.advance(6 * DAY - 1)
    assert "offsets-near-expiry" not in log.health()
    log.shard.advance(1)
    (row,) = log.health()["offsets-near-expiry"]
    assert (row["group"], row["count"], row["last"] - log.shard.now.wall_ms) == ("tool", 1, DAY)
    (state,) = log.health()["group_states"]
    assert (state["group"], state["state"]) == ("tool", "Offsets")


def test_offsets_of_subscribed_topics_do_not_expire() -> None:
    log = Log()
    log.shard.join("a")
    log.shard.settle_all()
    log.commit(0, 5)
    log.commit(0, 5, "bar")
    log.shard.advance(8 * DAY)
    (row,) = log.health()["offsets-near-expiry"]
    assert list(json.loads(row["evidence"])["facts"]["expires"]) == ["bar-0"]


def test_a_conflict_over_a_static_instance() -> None:
    history = History()
    for number in range(4):
        history.generation(1, number * 60, {f"a{number}": (0, 1)}, instances={f"a{number}": "inst"})
    (row,) = Log().of(history.entries, history.entries[-1].at_ms)["static-conflict"]
    assert row["count"] == 3
    assert json.loads(row["evidence"])["where"]["member_id"] == ["a0", "a1", "a2"]
    found = Log(conflict_replacements=4).of(history.entries, history.entries[-1].at_ms)
    assert "static-conflict" not in found


def test_an_unfinished_rebalance() -> None:
    log = Log()
    log.shard.join("a")
    log.shard.settle_all()
    log.shard.join("b")
    log.shard.say("a")
    assert "unfinished-rebalance" not in log.health()
    log.shard.advance(5 * MINUTE)
    (row,) = log.health()["unfinished-rebalance"]
    assert (row["member_id"], row["last"] - row["first"]) == ("a", 5 * MINUTE)
    (state,) = log.health()["group_states"]
    assert state["state"] == "Rebalancing"


def test_an_empty_group_with_lag() -> None:
    log = Log()
    log.shard.join("a")
    log.shard.settle_all()
    log.commit(0, 5)
    log.commit(1, 9)
    log.shard.leave("a")
    log.ends |= {("foo", 0): 12, ("foo", 1): 9}
    log.shard.advance(MINUTE)
    (row,) = log.health()["empty-group-with-lag"]
    assert json.loads(row["evidence"])["facts"] == {
        "count": 1,
        "lag": 7,
        "partitions": {"foo-0": 7},
    }


def test_a_config_over_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "health.toml"
    path.write_text(
        '[storm]\nrebalances = 3\nwindow = "5m"\n[skew]\nratio = 3\n'
        '[severity]\nidle-members = "critical"\n'
    )
    limits = read_thresholds(str(path))
    assert (limits.storm_rebalances, limits.storm_window_ms, limits.skew_ratio) == (3, 300_000, 3)
    assert limits.severity == {**DEFAULT_SEVERITIES, "idle-members": "critical"}
    assert read_thresholds("") == Thresholds()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[storm]\nwindows = 3", "there is no windows in [storm]"),
        ("[storm]\nrebalances = -1", "storm.rebalances = -1"),
        ("[storm]\nwindow = 5", "5 is not a length of time"),
        ("storm = 3", "storm must be a table"),
        ('[severity]\nrebalance-storm = "awful"', "awful"),
        ("[storm", "cannot be read"),
    ],
)
def test_a_wrong_config_is_told_in_one_line(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "health.toml"
    path.write_text(text)
    with pytest.raises(PipelineError) as caught:
        read_thresholds(str(path))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_documented_thresholds_are_the_defaults(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "pipeline-jobs.md").read_text("utf-8")
    table = page[page.index("| finding |") : page.index("An\nunknown key")]
    text = ""
    for name, keys in re.findall(r"`\[(\w+)\]` ((?:`[^`]+`(?:, )?)+)", table):
        text += f"[{name}]\n" + keys.replace("`, `", "\n").strip("`") + "\n"
    path = tmp_path / "health.toml"
    path.write_text(text)
    assert text.count("=") == len(fields(Thresholds)) - 1
    assert read_thresholds(str(path)) == Thresholds()
    told = dict(re.findall(r"^\| `([\w-]+)` \| (\w+) \|", table, re.MULTILINE))
    assert told == DEFAULT_SEVERITIES
