"""Kafka's command-line tools about replicas, leaders and controllers, against the peer.

Their calls are in the same table of `docs/clients.md` as those of `test_kafka_tools`.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.clients.conftest import TopicMaker
from tests.clients.group import SETTLE_S
from tests.clients.kafka_tool_calls import Run, shows
from tests.support.admin import broker_ids, leader, produce
from tests.support.peer import Peer
from tests.support.process import wait_until


@shows("kafka-log-dirs", "--describe [--broker-list] [--topic-list]")
def test_sizes_of_logs(run: Run, peer: Peer, topics: TopicMaker) -> None:
    (topic,) = topics({"sized": 2})
    produce(peer.bootstrap, {topic: 1}, 10)
    said = run("kafka-log-dirs", "--describe", "--topic-list", topic)
    nodes, sizes = [], {}
    for broker in json.loads(said.lines[-1])["brokers"]:
        nodes.append(broker["broker"])
        (log_dir,) = broker["logDirs"]
        assert log_dir["error"] is None
        for found in log_dir["partitions"]:
            assert found["partition"] not in sizes, "each is in one place"
            sizes[found["partition"]] = found["size"]
    assert sorted(nodes) == broker_ids(peer.bootstrap)
    assert sizes[f"{topic}-0"] > 0
    assert sizes[f"{topic}-1"] == 0
    run("kafka-log-dirs", "--describe", "--broker-list", str(nodes[0]))


@shows(
    "kafka-leader-election",
    "--election-type preferred | unclean --topic --partition | --all-topic-partitions",
)
def test_leaders_are_there_already(run: Run, topics: TopicMaker) -> None:
    (topic,) = topics({"led": 1})
    for kind in ("preferred", "unclean"):
        one = ["--election-type", kind, "--topic", topic, "--partition", "0"]
        assert (
            f"Valid replica already elected for partitions {topic}-0"
            in run("kafka-leader-election", *one).out
        )
        run("kafka-leader-election", "--election-type", kind, "--all-topic-partitions")


@shows(
    "kafka-reassign-partitions",
    "--generate | --execute | --verify | --list | --cancel",
)
def test_reassignments_are_done_at_once(
    run: Run, peer: Peer, topics: TopicMaker, tmp_path: Path
) -> None:
    (topic,) = topics({"moved": 1})
    node = leader(peer.bootstrap, topic)
    wanted, plan = tmp_path / "topics.json", tmp_path / "plan.json"
    wanted.write_text(json.dumps({"version": 1, "topics": [{"topic": topic}]}))
    generate = ["--generate", "--topics-to-move-json-file", str(wanted)]
    said = run("kafka-reassign-partitions", *generate, "--broker-list", str(node)).lines
    plan.write_text(said[-1])
    assert json.loads(said[-1])["partitions"][0]["replicas"] == [node]
    with_plan = ["--reassignment-json-file", str(plan)]
    done = run("kafka-reassign-partitions", "--execute", *with_plan).out
    assert "Successfully started partition reassignment" in done
    verified = run("kafka-reassign-partitions", "--verify", *with_plan).out
    assert f"Reassignment of partition {topic}-0 is completed." in verified
    assert "No partition reassignments found." in run("kafka-reassign-partitions", "--list").out
    cancelled = run("kafka-reassign-partitions", "--cancel", *with_plan).out
    assert "None of the specified partition moves are active." in cancelled


@shows("kafka-metadata-quorum", "describe --status | --replication")
def test_the_quorum_is_described(run: Run, peer: Peer) -> None:
    status = run("kafka-metadata-quorum", "describe", "--status").lines
    facts = dict(line.split(":", 1) for line in status)
    node = facts["LeaderId"].strip()
    assert int(node) in broker_ids(peer.bootstrap)
    assert facts["MaxFollowerLag"].strip() == "0"
    header, *rows = run("kafka-metadata-quorum", "describe", "--replication").lines
    (row,) = [row for row in rows if "Leader" in row]
    assert dict(zip(header.split(), row.split(), strict=False))["NodeId"] == node


@shows("kafka-features", "describe", "upgrade | downgrade --feature [--dry-run]")
def test_features_are_described_and_stay(run: Run) -> None:
    said = run("kafka-features", "describe").lines
    levels = {
        line.split()[1]: line.split("FinalizedVersionLevel:")[1].split()[0]
        for line in said
        if line.startswith("Feature:")
    }
    assert levels["group.version"] == "1"
    assert levels["transaction.version"] == "2"
    run("kafka-features", "upgrade", "--feature", "group.version=1", "--dry-run")
    refused = run("kafka-features", "upgrade", "--feature", "group.version=9", exits=1)
    assert "Could not upgrade group.version to 9" in refused.out
    downgrade = ["--feature", "group.version=9", "--unsafe"]
    run("kafka-features", "downgrade", *downgrade, exits=1)


@shows("kafka-client-metrics", "--alter | --describe | --list | --delete --name")
def test_subscriptions_to_metrics(run: Run, unique: str) -> None:
    name = f"metrics-{unique}"
    configs = ["--metrics", "org.apache.kafka.consumer.,a.b", "--interval", "60000"]
    match = ["--match", "client_id=x.*"]
    run("kafka-client-metrics", "--alter", "--name", name, *configs, *match)
    wait_until(
        lambda: name in run("kafka-client-metrics", "--list").lines, SETTLE_S, "the subscription"
    )
    said = run("kafka-client-metrics", "--describe", "--name", name).out
    assert "interval.ms=60000" in said
    assert "metrics=org.apache.kafka.consumer.,a.b" in said
    assert "match=client_id=x.*" in said
    refused = ["--alter", "--name", name, "--interval", "5"]
    assert "interval must be between 100 and 3600000" in (
        run("kafka-client-metrics", *refused, exits=1).err
    )
    run("kafka-client-metrics", "--delete", "--name", name)
    wait_until(
        lambda: name not in run("kafka-client-metrics", "--list").lines, SETTLE_S, "it is gone"
    )
