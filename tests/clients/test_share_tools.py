"""The official command-line tools of Apache Kafka 4.4 for share groups: kafka-share-groups,
kafka-console-share-consumer, and what kafka-groups and kafka-configs say of share groups
(docs/spec/share-group.md#SG-125)."""

from __future__ import annotations

from pathlib import Path

from tests.clients.conftest import TopicMaker
from tests.clients.kafka_tool_calls import Run, shows
from tests.clients.share import Place, ShareGroup, ShareWay, accept_all
from tests.clients.test_history import Member
from tests.clients.tools import Said
from tests.support.admin import produce
from tests.support.peer import Peer

IDLE_MS = "10000"


def offsets(run: Run, group: str, *arguments: str) -> dict[str, tuple[str, str]]:
    """(start offset, lag) by partition, as the tool shows them."""
    rows = run("kafka-share-groups", "--describe", "--group", group, *arguments).table
    return {row["PARTITION"]: (row["START-OFFSET"], row["LAG"]) for row in rows}


@shows(
    "kafka-share-groups",
    "--list [--state [STATES]]",
    "--describe [--offsets] [--verbose]",
    "--describe --members [--verbose]",
    "--describe --state [--verbose]",
    "--describe --all-groups",
)
@shows("kafka-groups", "--list --share")
def test_a_live_share_group_is_described(
    run: Run, peer: Peer, topics: TopicMaker, share_group: ShareGroup
) -> None:
    (topic,) = counts = topics({"shown": 2})
    group = share_group.group_id
    member = share_group.member(ShareWay("java"), counts)
    accept_all(member, produce(peer.bootstrap, counts, 20))

    assert group in run("kafka-share-groups", "--list").lines
    states = run("kafka-share-groups", "--list", "--state").table
    assert {"GROUP": group, "STATE": "Stable"} in states
    assert group not in run("kafka-share-groups", "--list", "--state", "Empty").out
    (shown,) = [
        line.split() for line in run("kafka-groups", "--list", "--share").lines if group in line
    ]
    assert shown == [group, "Share", "share"]

    for row in run("kafka-share-groups", "--describe", "--group", group).table:
        assert (row["TOPIC"], row["LAG"]) == (topic, "0")
    verbose = run("kafka-share-groups", "--describe", "--group", group, "--offsets", "--verbose")
    assert {row["LEADER-EPOCH"] for row in verbose.table} <= {"0", "1"}
    (row,) = run("kafka-share-groups", "--describe", "--group", group, "--members").table
    assert row["CLIENT-ID"] == f"{group}-java-0"
    assert (row["HOST"], row["#PARTITIONS"]) == ("/127.0.0.1", "2")
    assert row["ASSIGNMENT"] == f"{topic}:0,1"
    (row,) = run(
        *["kafka-share-groups", "--describe", "--group", group, "--members", "--verbose"]
    ).table
    epoch = row["MEMBER-EPOCH"]
    (row,) = run("kafka-share-groups", "--describe", "--group", group, "--state").table
    assert (row["STATE"], row["#MEMBERS"]) == ("Stable", "1")
    (row,) = run(
        *["kafka-share-groups", "--describe", "--group", group, "--state", "--verbose"]
    ).table
    assert row["GROUP-EPOCH"] == row["ASSIGNMENT-EPOCH"] == epoch
    assert group in run("kafka-share-groups", "--describe", "--all-groups", "--state").out

    reset = ["--reset-offsets", "--group", group, "--topic", topic, "--to-earliest", "--execute"]
    assert "is not empty" in run("kafka-share-groups", *reset, exits=1).err
    assert "GroupNotEmptyException" in run("kafka-share-groups", "--delete", "--group", group).out


@shows(
    "kafka-share-groups",
    "--reset-offsets --to-earliest | --to-latest | --to-offset | --to-current | --to-datetime"
    " [--dry-run | --execute]",
    "--reset-offsets --all-topics",
    "--reset-offsets --export, --from-file",
    "--delete-offsets --topic",
    "--delete",
)
def test_the_offsets_of_an_empty_share_group(
    run: Run, peer: Peer, topics: TopicMaker, share_group: ShareGroup, tmp_path: Path
) -> None:
    (topic,) = counts = topics({"reset": 2})
    group = share_group.group_id
    written = produce(peer.bootstrap, counts, 20)
    member = share_group.member(ShareWay("java"), counts)
    accept_all(member, written)
    member.close()

    def reset(*arguments: str) -> Said:
        return run("kafka-share-groups", "--reset-offsets", "--group", group, *arguments)

    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,4\n{topic},1,7\n")
    modes = {
        ("--topic", topic, "--to-earliest"): [("0", "10"), ("0", "10")],
        ("--topic", topic, "--to-latest"): [("10", "0"), ("10", "0")],
        ("--topic", topic, "--to-offset", "6"): [("6", "4"), ("6", "4")],
        ("--topic", f"{topic}:1", "--to-offset", "5"): [("6", "4"), ("5", "5")],
        ("--all-topics", "--to-current"): [("6", "4"), ("5", "5")],
        ("--topic", topic, "--to-datetime", "2000-01-01T00:00:00.000"): [("0", "10"), ("0", "10")],
        ("--from-file", str(plan)): [("4", "6"), ("7", "3")],
    }
    before = offsets(run, group)
    for mode, expected in modes.items():
        reset(*mode, "--dry-run")
        assert offsets(run, group) == before, mode
        reset(*mode, "--execute")
        before = dict(zip("01", expected, strict=True))
        assert offsets(run, group) == before, mode
    exported = reset("--topic", topic, "--to-current", "--export", "--dry-run").lines
    assert sorted(exported) == [f"{topic},0,4", f"{topic},1,7"]

    wanted: set[Place] = {at for at in written if at[2] >= (4, 7)[at[1]]}
    member = share_group.member(ShareWay("java"), counts)
    again = accept_all(member, wanted)
    assert {record.place for record in again} == wanted
    assert {record.count for record in again} == {1}
    member.close()

    said = run("kafka-share-groups", "--delete-offsets", "--group", group, "--topic", topic)
    assert "Successful" in said.out, said
    said = run("kafka-share-groups", "--describe", "--group", group)
    assert "has no offset information" in said.out
    said = run("kafka-share-groups", "--delete", "--group", group)
    assert "successful" in said.out, said
    assert group not in run("kafka-share-groups", "--list").lines
    said = run("kafka-share-groups", "--delete", "--group", group)
    assert "GroupIdNotFoundException" in said.out


@shows("kafka-share-groups", "--reset-offsets of a group that is not there yet")
def test_a_reset_makes_a_new_share_group(
    run: Run, peer: Peer, topics: TopicMaker, unique: str
) -> None:
    (topic,) = counts = topics({"new": 1})
    group = f"new-{unique}"
    produce(peer.bootstrap, counts, 5)
    chosen = ["--group", group, "--topic", topic, "--to-offset", "3", "--execute"]
    run("kafka-share-groups", "--reset-offsets", *chosen)
    assert offsets(run, group) == {"0": ("3", "2")}


@shows("kafka-share-groups", "--reset-offsets --from-file of a consumer group's offsets (KIP-1323)")
def test_a_share_group_goes_on_where_a_consumer_group_stopped(
    run: Run, peer: Peer, topics: TopicMaker, share_group: ShareGroup, tmp_path: Path
) -> None:
    (topic,) = counts = topics({"moved": 2})
    group, consumer_group = share_group.group_id, f"from-{share_group.group_id}"
    written = produce(peer.bootstrap, counts, 20)
    consumer = Member(peer.bootstrap, consumer_group, [topic], "consumer")
    consumer.join(2)
    consumer.commit({(topic, 0): 4, (topic, 1): 7})
    consumer.close()

    exported = run(
        *["kafka-consumer-groups", "--reset-offsets", "--group", consumer_group],
        *["--all-topics", "--to-current", "--export", "--dry-run"],
    ).lines
    assert sorted(exported) == [f"{topic},0,4", f"{topic},1,7"]
    plan = tmp_path / "plan.csv"
    plan.write_text("\n".join(exported))
    chosen = ["--reset-offsets", "--group", group, "--from-file", str(plan)]
    run("kafka-share-groups", *chosen, "--dry-run")
    assert group not in run("kafka-share-groups", "--list").lines
    run("kafka-share-groups", *chosen, "--execute")
    assert offsets(run, group) == {"0": ("4", "6"), "1": ("7", "3")}

    left: set[Place] = {at for at in written if at[2] >= (4, 7)[at[1]]}
    member = share_group.member(ShareWay("java"), counts)
    assert {record.place for record in accept_all(member, left)} == left


@shows(
    "kafka-console-share-consumer",
    "--topic --group --max-messages",
    "--release | --reject",
)
def test_the_console_share_consumer(
    run: Run, peer: Peer, topics: TopicMaker, share_group: ShareGroup
) -> None:
    (topic,) = counts = topics({"console": 1})
    group = share_group.group_id

    def consume(count: int, *arguments: str) -> list[str]:
        return run(
            "kafka-console-share-consumer",
            *["--topic", topic, "--group", group, "--timeout-ms", IDLE_MS],
            *["--max-messages", str(count), "--formatter-property", "print.delivery=true"],
            *arguments,
        ).lines

    produce(peer.bootstrap, counts, 1)
    assert consume(1, "--release") == ["Delivery:1\tv0"]
    assert consume(1, "--reject") == ["Delivery:2\tv0"]
    produce(peer.bootstrap, counts, 2, prefix="w")
    assert consume(2) == ["Delivery:1\tw0", "Delivery:1\tw1"]
    produce(peer.bootstrap, counts, 1, prefix="x")
    assert consume(1) == ["Delivery:1\tx0"]


@shows("kafka-configs", "--entity-type groups with the configs of share groups")
def test_configs_of_a_share_group(run: Run, unique: str) -> None:
    entity = ["--entity-type", "groups", "--entity-name", f"configured-{unique}"]
    values = {
        "share.session.timeout.ms": "50000",
        "share.heartbeat.interval.ms": "6000",
        "share.record.lock.duration.ms": "20000",
        "share.delivery.count.limit": "3",
        "share.partition.max.record.locks": "500",
        "share.auto.offset.reset": "by_duration:PT1H",
        "share.isolation.level": "read_committed",
        "share.renew.acknowledge.enable": "false",
    }
    setting = [f"{name}={value}" for name, value in values.items()]
    run("kafka-configs", "--alter", *entity, "--add-config", ",".join(setting))
    described = run("kafka-configs", "--describe", *entity).out
    for name, value in values.items():
        assert f"{name}={value} " in described
    for wrong in ("share.delivery.count.limit=11", "share.auto.offset.reset=none"):
        run("kafka-configs", "--alter", *entity, "--add-config", wrong, exits=1)
    run("kafka-configs", "--alter", *entity, "--delete-config", ",".join(values))
    assert "share.delivery.count.limit=3" not in run("kafka-configs", "--describe", *entity).out
