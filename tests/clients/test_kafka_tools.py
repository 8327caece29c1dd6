"""The official command-line tools of Apache Kafka 4.4 against the peer: topics, groups, configs,
records. `test_kafka_node_tools`, `test_users`, `test_quotas`, `test_acls` and `test_share_tools`
have the others.

`shows` names the calls that a test makes; the table of them in `docs/clients.md` is checked against
these names, so it says what is run and nothing else.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.clients import (
    test_acls,
    test_kafka_node_tools,
    test_quotas,
    test_share_tools,
    test_users,
)
from tests.clients.conftest import GroupMaker, TopicMaker
from tests.clients.group import BY_NAME, SETTLE_S, Flavour
from tests.clients.kafka_tool_calls import Run, rendered, shows
from tests.clients.tools import Said
from tests.support.admin import broker_ids, committed, produce
from tests.support.peer import SESSION_TIMEOUT_MS, Peer
from tests.support.process import wait_until
from tests.support.wire_client import WireClient

PAGE = Path(__file__).resolve().parents[2] / "docs" / "clients.md"
IDLE_MS = "3000"
"""kafka-console-consumer ends after so long without a record; the first one takes a while, too."""
LIVE = [BY_NAME["confluent-consumer-uniform"], BY_NAME["confluent-classic-range"]]
live = pytest.mark.parametrize("flavour", LIVE, ids=lambda flavour: flavour.protocol)
protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])


SHARE_FORMATTER = "org.apache.kafka.tools.consumer.group.share.ShareGroupStateMessageFormatter"


def consume(run: Run, topic: str, group: str, protocol: str, count: int) -> list[str]:
    """Reads `count` records with the console consumer, which commits when it closes."""
    return run(
        "kafka-console-consumer",
        *["--topic", topic, "--from-beginning", "--max-messages", str(count)],
        *["--group", group, "--timeout-ms", "20000"],
        *["--command-property", f"group.protocol={protocol}"],
        *["--formatter-property", "print.key=true"],
        *["--formatter-property", "key.separator=="],
    ).lines


# kafka-topics


@shows(
    "kafka-topics",
    "--create --partitions --config",
    "--create --if-not-exists",
    "--list [--exclude-internal]",
    "--describe",
    "--describe --topics-with-overrides",
    "--describe --unavailable-partitions | --under-replicated-partitions",
    "--alter --partitions",
    "--delete [--if-exists]",
)
def test_topics_from_creation_to_deletion(run: Run, unique: str) -> None:
    topic = f"made-{unique}"
    create = [
        "--create",
        "--topic",
        topic,
        "--partitions",
        "3",
        "--config",
        "retention.ms=86400000",
    ]
    assert f"Created topic {topic}." in run("kafka-topics", *create).out
    assert "already exists" in run("kafka-topics", *create, exits=1).out
    run("kafka-topics", *create, "--if-not-exists")
    assert topic in run("kafka-topics", "--list").lines
    visible = run("kafka-topics", "--list", "--exclude-internal").lines
    assert topic in visible
    assert "__consumer_offsets" not in visible

    described = run("kafka-topics", "--describe", "--topic", topic).lines
    assert "PartitionCount: 3" in described[0]
    assert "ReplicationFactor: 1" in described[0]
    assert "retention.ms=86400000" in described[0]
    assert [f"Partition: {number}" in described[1 + number] for number in range(3)] == [True] * 3
    overrides = run("kafka-topics", "--describe", "--topics-with-overrides").lines
    assert any(f"Topic: {topic}" in line for line in overrides)
    assert run("kafka-topics", "--describe", "--unavailable-partitions").lines == []
    assert run("kafka-topics", "--describe", "--under-replicated-partitions").lines == []

    run("kafka-topics", "--alter", "--topic", topic, "--partitions", "5")
    assert "PartitionCount: 5" in run("kafka-topics", "--describe", "--topic", topic).out
    fewer = run("kafka-topics", "--alter", "--topic", topic, "--partitions", "2", exits=1)
    assert "InvalidPartitionsException" in fewer.err

    run("kafka-topics", "--delete", "--topic", topic)
    assert topic not in run("kafka-topics", "--list").lines
    gone = run("kafka-topics", "--delete", "--topic", topic, exits=1)
    assert "does not exist" in gone.out
    run("kafka-topics", "--delete", "--topic", topic, "--if-exists")


# kafka-console-producer, kafka-console-consumer, kafka-get-offsets


@protocols
@shows(
    "kafka-console-producer",
    "--reader-property parse.key=true",
    "--sync --compression-codec",
)
@shows(
    "kafka-console-consumer",
    "--group --from-beginning (classic and consumer protocol)",
    "--partition --offset",
)
def test_console_records_go_in_and_come_out(
    run: Run, topics: TopicMaker, unique: str, protocol: str
) -> None:
    (topic,) = topics({"console": 2})
    keyed = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=="]
    sent = [f"k{number}=v{number}" for number in range(6)]
    run("kafka-console-producer", "--topic", topic, *keyed, stdin="\n".join(sent[:4]) + "\n")
    packed = ["--sync", "--compression-codec", "zstd", "--batch-size", "1"]
    run(
        "kafka-console-producer",
        "--topic",
        topic,
        *packed,
        *keyed,
        stdin="\n".join(sent[4:]) + "\n",
    )

    got = consume(run, topic, f"console-{unique}", protocol, len(sent))
    assert sorted(got) == sent
    once = ["--topic", topic, "--partition", "0", "--offset", "0", "--timeout-ms", IDLE_MS]
    alone = run("kafka-console-consumer", *once).lines
    assert alone
    assert set(alone) < {f"v{number}" for number in range(6)}


@shows(
    "kafka-get-offsets",
    "--topic | --topic-partitions | --exclude-internal-topics",
    "--time latest | earliest | max-timestamp | TIMESTAMP | earliest-local | latest-tiered",
)
def test_get_offsets_at_every_time(run: Run, peer: Peer, topics: TopicMaker) -> None:
    (topic,) = topics({"ends": 3})
    produce(peer.bootstrap, {topic: 2}, 10)

    def offsets(*arguments: str) -> list[str]:
        lines = run("kafka-get-offsets", *arguments).lines
        return [line.removeprefix(f"{topic}:") for line in lines if line.startswith(topic)]

    assert offsets("--topic", topic) == ["0:5", "1:5", "2:0"]
    assert offsets("--topic", topic, "--time", "earliest") == ["0:0", "1:0", "2:0"]
    assert offsets("--topic", topic, "--time", "earliest-local") == ["0:0", "1:0", "2:0"]
    assert offsets("--topic", topic, "--time", "latest-tiered") == []
    assert offsets("--topic", topic, "--time", "0") == ["0:0", "1:0"]
    assert offsets("--topic", topic, "--time", "9999999999999") == []
    assert len(offsets("--topic", topic, "--time", "max-timestamp")) == 2
    assert offsets("--topic-partitions", f"{topic}:1-3") == ["1:5", "2:0"]
    assert offsets("--exclude-internal-topics") == ["0:5", "1:5", "2:0"]
    assert any("__consumer_offsets" in line for line in run("kafka-get-offsets").lines)


# kafka-groups and kafka-consumer-groups


@shows("kafka-groups", "--list [--consumer | --group-type | --protocol | --share]")
@shows("kafka-consumer-groups", "--list", "--list --state [STATES]", "--list --type [TYPES]")
def test_groups_are_listed_by_type_and_state(run: Run, topics: TopicMaker, unique: str) -> None:
    (topic,) = topics({"listed": 1})
    classic, consumer = f"classic-{unique}", f"consumer-{unique}"
    run("kafka-console-producer", "--topic", topic, stdin="one\n")
    consume(run, topic, classic, "classic", 1)
    consume(run, topic, consumer, "consumer", 1)

    def groups(tool: str, *arguments: str) -> dict[str, list[str]]:
        rows = [line.split() for line in run(tool, "--list", *arguments).lines]
        return {row[0]: row[1:] for row in rows if row[0].endswith(unique)}

    both = {classic: ["Classic", "consumer"], consumer: ["Consumer", "consumer"]}
    assert groups("kafka-groups") == both
    assert groups("kafka-groups", "--consumer") == both
    assert set(groups("kafka-groups", "--group-type", "classic")) == {classic}
    assert groups("kafka-groups", "--protocol", "consumer") == both
    assert groups("kafka-groups", "--share") == {}

    assert groups("kafka-consumer-groups") == {classic: [], consumer: []}
    empty = {classic: ["Empty"], consumer: ["Empty"]}
    assert groups("kafka-consumer-groups", "--state") == empty
    assert groups("kafka-consumer-groups", "--state", "empty,dead") == empty
    assert groups("kafka-consumer-groups", "--state", "stable") == {}
    typed = {classic: ["Classic"], consumer: ["Consumer"]}
    assert groups("kafka-consumer-groups", "--type") == typed
    assert groups("kafka-consumer-groups", "--type", "consumer") == {consumer: ["Consumer"]}
    assert groups("kafka-consumer-groups", "--type", "classic", "--state", "empty") == {
        classic: ["Classic", "Empty"]
    }


@live
@shows(
    "kafka-consumer-groups",
    "--describe [--offsets] [--verbose]",
    "--describe --members [--verbose]",
    "--describe --state [--verbose]",
    "--describe --all-groups",
)
def test_a_live_group_is_described(
    run: Run, peer: Peer, topics: TopicMaker, make_group: GroupMaker, flavour: Flavour
) -> None:
    counts = topics({"shown": 4})
    (topic,) = counts
    group = make_group(flavour)
    group.spawn(counts, members=2, commit="each", instance_prefix="fixed-")
    group.wait_covered(counts, [0, 1])
    group.wait_seen(produce(peer.bootstrap, counts, 40))
    wait_until(
        lambda: (
            committed(peer.bootstrap, group.group_id, counts) == {(topic, n): 10 for n in range(4)}
        ),
        SETTLE_S,
        "all commits",
    )

    def described(*arguments: str) -> list[dict[str, str]]:
        said = run("kafka-consumer-groups", "--describe", "--group", group.group_id, *arguments)
        return said.table

    rows = sorted(described(), key=lambda row: row["PARTITION"])
    assert [row["PARTITION"] for row in rows] == ["0", "1", "2", "3"]
    for row in rows:
        assert row["GROUP"] == group.group_id
        assert row["TOPIC"] == topic
        assert (row["CURRENT-OFFSET"], row["LOG-END-OFFSET"], row["LAG"]) == ("10", "10", "0")
        owner = next(n for n in (0, 1) if (topic, int(row["PARTITION"])) in group.members[n].owned)
        assert row["CLIENT-ID"] == f"confluent-{owner}"
        assert row["HOST"] == "/127.0.0.1"
    verbose = described("--offsets", "--verbose")
    assert {row["LEADER-EPOCH"] for row in verbose} <= {"-", "0"}

    members = described("--members")
    assert {row["GROUP-INSTANCE-ID"] for row in members} == {"fixed-0", "fixed-1"}
    assert [row["#PARTITIONS"] for row in members] == ["2", "2"]
    for row in described("--members", "--verbose"):
        owned = group.members[int(row["GROUP-INSTANCE-ID"][-1])].owned
        shown = f"{topic}:{','.join(str(part) for _, part in sorted(owned))}"
        assert row["CURRENT-ASSIGNMENT"] == shown
        if flavour.protocol == "consumer":
            assert row["TARGET-ASSIGNMENT"] == shown
            assert row["CURRENT-EPOCH"] == row["TARGET-EPOCH"]

    (state,) = described("--state")
    assert state["ASSIGNMENT-STRATEGY"] == flavour.assignor
    assert (state["STATE"], state["#MEMBERS"]) == ("Stable", "2")
    (state,) = described("--state", "--verbose")
    if flavour.protocol == "consumer":
        assert state["GROUP-EPOCH"] == state["TARGET-ASSIGNMENT-EPOCH"]
    everything = run("kafka-consumer-groups", "--describe", "--all-groups", "--state").out
    assert group.group_id in everything

    refused = ["--group", group.group_id, "--topic", topic, "--to-earliest", "--execute"]
    said = run("kafka-consumer-groups", "--reset-offsets", *refused)
    assert "inactive" in said.out + said.err
    said = run("kafka-consumer-groups", "--delete", "--group", group.group_id)
    assert "GroupNotEmptyException" in said.out


@shows("kafka-consumer-groups", "--describe of a group that is not there")
def test_an_absent_group_is_named_as_such(run: Run, unique: str) -> None:
    for what in ("--offsets", "--members", "--state"):
        said = run("kafka-consumer-groups", "--describe", "--group", f"absent-{unique}", what)
        assert f"Group absent-{unique} not found" in said.out


RESETS = {
    "--to-earliest": ([], [0, 0]),
    "--to-latest": ([], [10, 10]),
    "--to-offset": (["3"], [3, 3]),
    "--shift-by": (["-4"], [2, 2]),
    "--to-current": ([], [6, 6]),
    "--to-datetime": (["2000-01-01T00:00:00.000"], [0, 0]),
    "--by-duration": (["PT1H"], [0, 0]),
    "--from-file": (["{plan}"], [4, 7]),
}


@protocols
@shows(
    "kafka-consumer-groups",
    *(f"--reset-offsets {mode} [--dry-run | --execute]" for mode in RESETS),
    "--reset-offsets --all-topics | --all-groups",
    "--reset-offsets --export",
)
def test_offsets_are_reset_in_every_mode(
    run: Run, peer: Peer, topics: TopicMaker, unique: str, tmp_path: Path, protocol: str
) -> None:
    counts = topics({"reset": 2})
    (topic,) = counts
    group = f"reset-{protocol}-{unique}"
    produce(peer.bootstrap, counts, 20)
    consume(run, topic, group, protocol, 20)
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,4\n{topic},1,7\n")

    def reset(*arguments: str) -> Said:
        return run("kafka-consumer-groups", "--reset-offsets", "--group", group, *arguments)

    def now() -> list[int]:
        found = committed(peer.bootstrap, group, counts)
        return [found[(topic, part)] for part in range(2)]

    def planned(said: Said) -> list[int]:
        return [int(row["NEW-OFFSET"]) for row in sorted(said.table, key=lambda r: r["PARTITION"])]

    assert now() == [10, 10]
    for mode, (values, expected) in RESETS.items():
        scope = [] if mode == "--from-file" else ["--topic", topic]
        chosen = [*scope, mode, *(value.format(plan=plan) for value in values)]
        reset("--topic", topic, "--to-offset", "6", "--execute")
        assert planned(reset(*chosen, "--dry-run")) == expected, mode
        assert now() == [6, 6], mode
        assert planned(reset(*chosen, "--execute")) == expected, mode
        assert now() == expected, mode
    # Later than every record: the end.
    reset("--topic", topic, "--to-datetime", "2090-01-01T00:00:00.000", "--execute")
    assert now() == [10, 10]
    reset("--topic", f"{topic}:1", "--to-offset", "1", "--execute")
    assert now() == [10, 1]
    assert planned(reset("--all-topics", "--to-offset", "2", "--dry-run")) == [2, 2]
    exported = reset("--topic", topic, "--to-current", "--export", "--dry-run").lines
    assert sorted(exported) == [f"{topic},0,10", f"{topic},1,1"]
    everywhere = ["--all-groups", "--topic", f"{topic}:0", "--to-offset", "5", "--dry-run"]
    assert group in run("kafka-consumer-groups", "--reset-offsets", *everywhere).out
    assert now() == [10, 1]


@shows("kafka-consumer-groups", "--reset-offsets of a group that is not there yet")
def test_a_reset_makes_a_new_group(run: Run, peer: Peer, topics: TopicMaker, unique: str) -> None:
    counts = topics({"new": 1})
    (topic,) = counts
    produce(peer.bootstrap, counts, 5)
    chosen = ["--group", f"new-{unique}", "--topic", topic, "--to-offset", "3", "--execute"]
    run("kafka-consumer-groups", "--reset-offsets", *chosen)
    assert committed(peer.bootstrap, f"new-{unique}", counts) == {(topic, 0): 3}


@protocols
@shows("kafka-consumer-groups", "--delete-offsets --topic TOPIC[:PARTITIONS]", "--delete")
def test_offsets_and_groups_are_deleted(
    run: Run, peer: Peer, topics: TopicMaker, unique: str, protocol: str
) -> None:
    counts = topics({"forgotten": 3})
    (topic,) = counts
    group = f"deleted-{protocol}-{unique}"
    produce(peer.bootstrap, counts, 30)
    consume(run, topic, group, protocol, 30)

    chosen = ["--delete-offsets", "--group", group, "--topic"]
    said = run("kafka-consumer-groups", *chosen, f"{topic}:0,2")
    assert "Request succeeded" in said.out
    assert list(committed(peer.bootstrap, group, counts).values()) == [-1, 10, -1]
    run("kafka-consumer-groups", *chosen, topic)
    assert list(committed(peer.bootstrap, group, counts).values()) == [-1, -1, -1]

    deleted = run("kafka-consumer-groups", "--delete", "--group", group)
    assert "successful" in deleted.out
    assert group not in run("kafka-consumer-groups", "--list").lines
    again = run("kafka-consumer-groups", "--delete", "--group", group)
    assert "GroupIdNotFoundException" in again.out


@shows(
    "kafka-console-consumer",
    "--topic __consumer_offsets --formatter OffsetsMessageFormatter",
    "--topic __consumer_offsets --formatter GroupMetadataMessageFormatter",
)
def test_the_official_formatters_read_the_offsets_topic(
    run: Run, topics: TopicMaker, unique: str
) -> None:
    (topic,) = topics({"written": 1})
    group = f"written-{unique}"
    run("kafka-console-producer", "--topic", topic, stdin="one\ntwo\n")
    consume(run, topic, group, "classic", 2)

    def formatted(formatter: str) -> list[dict[str, object]]:
        said = run(
            "kafka-console-consumer",
            *["--topic", "__consumer_offsets", "--from-beginning", "--timeout-ms", IDLE_MS],
            *["--formatter", f"org.apache.kafka.tools.consumer.{formatter}"],
        )
        return [found for found in objects(said.out) if found["key"]["data"]["group"] == group]

    commits = formatted("OffsetsMessageFormatter")
    assert commits[-1]["key"] == {
        "type": 1,
        "data": {"group": group, "topic": topic, "partition": 0},
    }
    assert commits[-1]["value"]["data"]["offset"] == 2
    states = formatted("GroupMetadataMessageFormatter")
    stable = next(found for found in states if found["value"]["data"]["members"])
    assert stable["key"]["type"] == 2
    assert stable["value"]["data"]["protocolType"] == "consumer"
    assert stable["value"]["data"]["protocol"] == "range"
    assert states[-1]["value"]["data"]["members"] == []


@shows(
    "kafka-console-consumer",
    "--topic __transaction_state --formatter TransactionLogMessageFormatter",
)
def test_the_official_formatter_reads_the_transactions_topic(
    run: Run, topics: TopicMaker, peer: Peer, unique: str
) -> None:
    (topic,) = topics({"written": 1})
    name = f"writer-{unique}"
    producer = Producer({"bootstrap.servers": peer.bootstrap, "transactional.id": name})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"one")
    producer.commit_transaction(30)

    def states() -> list[object]:
        said = run(
            "kafka-console-consumer",
            *["--topic", "__transaction_state", "--from-beginning", "--timeout-ms", IDLE_MS],
            *["--formatter", "org.apache.kafka.tools.consumer.TransactionLogMessageFormatter"],
        )
        return [
            found["value"]["data"]["transactionStatus"]
            for found in objects(said.out)
            if found["key"]["data"]["transactionalId"] == name
        ]

    wait_until(lambda: states()[-1:] == ["CompleteCommit"], SETTLE_S, "the markers")
    assert states() == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]


@shows(
    "kafka-console-consumer",
    "--topic __share_group_state --formatter ShareGroupStateMessageFormatter",
)
def test_the_official_formatter_reads_the_state_of_share_partitions(
    run: Run, topics: TopicMaker, peer: Peer, unique: str
) -> None:
    (topic,) = topics({"shared": 1})
    group, host_port = f"workers-{unique}", peer.bootstrap.split(":")
    with WireClient(host_port[0], int(host_port[1])) as client:
        (found,) = client.call("Metadata", 12, topics=[{"name": topic}])["topics"]
        topic_id = found["topic_id"]
        text = urlsafe_b64encode(topic_id).decode()[:22]

        def change(api: str, version: int, **partition: object) -> bool:
            # Kafka makes the topic of the log at the first look.
            key = f"{group}:{text}:0"
            client.call("FindCoordinator", 6, key_type=2, coordinator_keys=[key])
            partitions = [{"partition": 0, **partition}]
            asked = [{"topic_id": topic_id, "partitions": partitions}]
            reply = client.call(api, version, group_id=group, topics=asked)
            return reply["results"][0]["partitions"][0]["error_code"] == 0

        wait_until(
            lambda: change("InitializeShareGroupState", 0, state_epoch=3, start_offset=7),
            SETTLE_S,
            "the share coordinator",
        )
        batch = {"first_offset": 7, "last_offset": 9, "delivery_state": 2, "delivery_count": 1}
        written = {"state_epoch": 3, "leader_epoch": 0, "start_offset": 7}
        complete = {"delivery_complete_count": 3, "state_batches": [batch]}
        assert change("WriteShareGroupState", 1, **written, **complete)
        assert change("DeleteShareGroupState", 0)
    said = run(
        "kafka-console-consumer",
        *["--topic", "__share_group_state", "--from-beginning", "--timeout-ms", IDLE_MS],
        *["--formatter", SHARE_FORMATTER],
    )
    records = [one for one in objects(said.out) if one["key"]["data"]["groupId"] == group]
    assert [one["key"]["type"] for one in records] == [0, 1, 0]
    snapshot, update = (one["value"]["data"] for one in records[:2])
    assert [snapshot[key] for key in ("stateEpoch", "startOffset", "stateBatches")] == [3, 7, []]
    assert update["deliveryCompleteCount"] == 3
    assert update["stateBatches"] == [
        {"firstOffset": 7, "lastOffset": 9, "deliveryState": 2, "deliveryCount": 1}
    ]
    assert not records[2]["value"]


def objects(text: str) -> Iterator[dict[str, dict[str, dict[str, object]]]]:
    """JSON objects written one behind the other."""
    decoder = json.JSONDecoder()
    at = 0
    while at < len(text.rstrip()):
        found, at = decoder.raw_decode(text, at)
        yield found


# kafka-configs


@shows(
    "kafka-configs",
    "--entity-type topics [--entity-name TOPIC] --describe [--all]",
    "--entity-type topics --alter --add-config | --delete-config",
)
def test_configs_of_a_topic(run: Run, topics: TopicMaker) -> None:
    (topic,) = topics({"configured": 1})
    entity = ["--entity-type", "topics", "--entity-name", topic]

    def described(*arguments: str) -> dict[str, str]:
        lines = run("kafka-configs", *entity, "--describe", *arguments).lines[1:]
        return dict(line.split()[0].split("=", 1) for line in lines)

    changes = "retention.ms=1000,cleanup.policy=[compact,delete]"
    run("kafka-configs", *entity, "--alter", "--add-config", changes)
    assert {
        "retention.ms": "1000",
        "cleanup.policy": "compact,delete",
    }.items() <= described().items()
    assert described("--all")["max.message.bytes"] == "1048588"
    assert f"topic {topic}" in run("kafka-configs", "--entity-type", "topics", "--describe").out
    run("kafka-configs", *entity, "--alter", "--delete-config", "retention.ms")
    assert "retention.ms" not in described()
    assert described("--all")["retention.ms"] == "604800000"
    refused = run("kafka-configs", *entity, "--alter", "--add-config", "retention.ms=x", exits=1)
    assert "InvalidConfigurationException" in refused.err


@shows(
    "kafka-configs",
    "--entity-type groups [--entity-name GROUP] --describe [--all]",
    "--entity-type groups --alter --add-config | --delete-config",
)
def test_configs_of_a_group(run: Run, unique: str) -> None:
    entity = ["--entity-type", "groups", "--entity-name", f"configured-{unique}"]

    def described(*arguments: str) -> dict[str, str]:
        lines = run("kafka-configs", *entity, "--describe", *arguments).lines[1:]
        return dict(line.split()[0].split("=", 1) for line in lines)

    key = "consumer.session.timeout.ms"
    assert described() == {}
    run("kafka-configs", *entity, "--alter", "--add-config", f"{key}=7000")
    assert described() == {key: "7000"}
    assert described("--all")["consumer.heartbeat.interval.ms"] == "300"
    assert entity[-1] in run("kafka-configs", "--entity-type", "groups", "--describe").out
    refused = run("kafka-configs", *entity, "--alter", "--add-config", f"{key}=1", exits=1)
    assert "InvalidConfigurationException" in refused.err
    run("kafka-configs", *entity, "--alter", "--delete-config", key)
    assert described() == {}


@shows(
    "kafka-configs",
    "--entity-type brokers [--entity-name ID | --entity-default] --describe [--all]",
    "--entity-type brokers --alter --add-config | --delete-config",
)
def test_configs_of_the_broker(run: Run, peer: Peer) -> None:
    node = broker_ids(peer.bootstrap)[0]
    one = ["--entity-type", "brokers", "--entity-name", str(node)]
    every = ["--entity-type", "brokers", "--entity-default"]
    said = run("kafka-configs", *one, "--describe", "--all").out
    assert f"group.consumer.session.timeout.ms={SESSION_TIMEOUT_MS}" in said
    assert "advertised.listeners=PLAINTEXT://" in said

    key = "message.max.bytes"
    for entity, value in ((one, "2000000"), (every, "3000000")):
        run("kafka-configs", *entity, "--alter", "--add-config", f"{key}={value}")
        wait_until(
            lambda entity=entity, value=value: (
                f"{key}={value}" in run("kafka-configs", *entity, "--describe").out
            ),
            SETTLE_S,
            "the new value",
        )
    said = run("kafka-configs", *one, "--describe").out
    assert (
        f"synonyms={{DYNAMIC_BROKER_CONFIG:{key}=2000000, "
        f"DYNAMIC_DEFAULT_BROKER_CONFIG:{key}=3000000, DEFAULT_CONFIG:{key}=1048588}}"
    ) in said
    for entity in (one, every):
        run("kafka-configs", *entity, "--alter", "--delete-config", key)
    refused = run("kafka-configs", *one, "--alter", "--add-config", "num.partitions=2", exits=1)
    assert "Cannot update these configs dynamically: [num.partitions]" in refused.err


def test_the_table_in_the_docs_is_what_these_tests_run() -> None:
    assert test_kafka_node_tools.__doc__  # their calls are registered, too
    assert test_users.__doc__
    assert test_quotas.__doc__
    assert test_acls.__doc__
    assert test_share_tools.__doc__
    assert rendered() in PAGE.read_text(), f"put this into {PAGE.name}:\n{rendered()}"
