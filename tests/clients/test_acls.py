"""ACLs as tools and Admin clients make, list and delete them: Kafka's kafka-acls, `groupd acls`,
and the Admin clients of Python. What is made stays over a restart and a crash."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import admin as confluent
from kafka import admin as python
from kafka.admin import KafkaAdminClient

from groupd.coordinator.cli.main import main
from tests.clients.group import SETTLE_S
from tests.clients.kafka_tool_calls import Run, shows
from tests.support.kafka_broker import KafkaBroker
from tests.support.peer import Peer, make_peer, peer_kind, running
from tests.support.process import wait_until

TIMEOUT_S = 20
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
Groupd = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    made = make_peer(tmp_path_factory.mktemp("peer"), settings=SETTINGS)
    with running(made):
        yield made


@pytest.fixture
def groupd(peer: Peer, capsys: pytest.CaptureFixture[str]) -> Groupd:
    """Calls `groupd acls`, which must exit with `exits`; the objects it prints."""

    def call(command: str, *arguments: str, exits: int = 0) -> list[dict[str, Any]]:
        capsys.readouterr()
        words = ["acls", command, "--bootstrap-server", peer.bootstrap, *arguments]
        with pytest.raises(SystemExit) as ended:
            main(words + ([] if command == "add" else ["--format", "json"]))
        said = capsys.readouterr()
        assert ended.value.code == exits, said.err
        return [json.loads(line) for line in said.out.splitlines()]

    return call


def row(name: str, operation: str = "READ", **more: str) -> dict[str, str]:
    usual = {
        "resource_type": "TOPIC",
        "name": name,
        "pattern_type": "LITERAL",
        "principal": "User:alice",
        "host": "*",
        "operation": operation,
        "permission": "ALLOW",
    }
    return usual | more


@shows(
    "kafka-acls",
    "--add | --remove | --list, --producer, --consumer, --resource-pattern-type",
)
def test_kafkas_tool(run: Run, groupd: Groupd, unique: str) -> None:
    """SE-57."""
    topic, group = f"t-{unique}", f"g-{unique}"
    alice = ["--allow-principal", "User:alice"]
    run("kafka-acls", "--add", *alice, "--consumer", "--topic", topic, "--group", group)
    deny = ["--deny-principal", "User:eve", "--deny-host", "10.0.0.1", "--operation", "Write"]
    run("kafka-acls", "--add", *deny, "--topic", topic, "--resource-pattern-type", "prefixed")

    def listed() -> list[dict[str, Any]]:
        return groupd("list", "--topic", topic, "--resource-pattern-type", "match")

    prefixed = {"pattern_type": "PREFIXED", "principal": "User:eve", "host": "10.0.0.1"}
    expected = [
        row(topic, "READ"),
        row(topic, "DESCRIBE"),
        row(topic, "WRITE", permission="DENY", **prefixed),
    ]
    wait_until(lambda: listed() == expected, SETTLE_S, "the ACLs are there")
    assert groupd("list", "--group", group) == [row(group, resource_type="GROUP")]
    said = run("kafka-acls", "--list", "--topic", topic).out
    assert "principal=User:alice, host=*, operation=READ, permissionType=ALLOW" in said
    assert "eve" not in said
    match = ["--resource-pattern-type", "match"]
    assert "principal=User:eve" in run("kafka-acls", "--list", "--topic", topic, *match).out
    run("kafka-acls", "--remove", "--force", "--topic", topic, *match)
    wait_until(lambda: listed() == [], SETTLE_S, "they are gone")
    assert groupd("list", "--group", group) == [row(group, resource_type="GROUP")]
    bad = ["--add", *alice, "--topic", topic, "--allow-host", "10.0.0.0/99"]
    if peer_kind() == "groupd":
        assert "10.0.0.0/99 is not a range" in run("kafka-acls", *bad, exits=1).out


def test_groupds_command(groupd: Groupd, unique: str) -> None:
    topic, other = f"t-{unique}", f"other-{unique}"
    alice = ["--allow-principal", "User:alice"]
    groupd("add", *alice, "--operation", "read", "--operation", "Write", "--topic", topic)
    groupd("add", *alice, "--operation", "Read", "--topic", topic, "--topic", other)

    def listed() -> list[dict[str, Any]]:
        return groupd("list", "--topic", topic, "--topic", other)

    everything = [row(other), row(topic), row(topic, "WRITE")]
    wait_until(lambda: listed() == everything, SETTLE_S, "the ACLs are there")
    assert groupd("list", "--topic", topic, "--principal", "User:bob") == []
    one = ["remove", *alice, "--operation", "Write", "--topic", topic]
    assert groupd(*one) == [row(topic, "WRITE")]
    wait_until(lambda: listed() == everything[:2], SETTLE_S, "one is gone")
    assert groupd(*one) == []
    assert groupd("remove", "--topic", topic, "--topic", other) == everything[:2]
    wait_until(lambda: listed() == [], SETTLE_S, "all are gone")


def test_mistakes_on_the_command_line(groupd: Groupd) -> None:
    for words in (
        ["add", "--topic", "t"],
        ["add", "--allow-principal", "User:a"],
        ["add", "--allow-principal", "User:a", "--topic", "t", "--operation", "Reed"],
        ["remove"],
        ["remove", "--operation", "Read", "--topic", "t"],
        ["list", "--resource-pattern-type", "glob"],
        ["list", "--command-config", "/nowhere"],
        ["add", "--allow-principal", "alice", "--topic", "t"],
    ):
        groupd(*words, exits=2)
    groupd("add", "--allow-principal", "User:a", "--topic", "", exits=1)


def test_confluents_admin(peer: Peer, unique: str) -> None:
    """SE-57."""
    client = confluent.AdminClient({"bootstrap.servers": peer.bootstrap})
    topic = f"t-{unique}"
    made = [
        confluent.AclBinding(
            confluent.ResourceType.TOPIC,
            topic,
            confluent.ResourcePatternType.PREFIXED,
            "User:älice",
            host,
            confluent.AclOperation.READ,
            confluent.AclPermissionType.ALLOW,
        )
        for host in ("*", "10.0.0.1")
    ]
    for future in client.create_acls(made).values():
        assert future.result(TIMEOUT_S) is None
    wanted = confluent.AclBindingFilter(
        confluent.ResourceType.ANY,
        topic,
        confluent.ResourcePatternType.ANY,
        None,
        None,
        confluent.AclOperation.ANY,
        confluent.AclPermissionType.ANY,
    )

    def described() -> list[Any]:
        found: list[Any] = client.describe_acls(wanted).result(TIMEOUT_S)
        return found

    wait_until(lambda: set(described()) == set(made), SETTLE_S, "the ACLs are there")
    (future,) = client.delete_acls([wanted]).values()
    assert set(future.result(TIMEOUT_S)) == set(made)
    wait_until(lambda: described() == [], SETTLE_S, "they are gone")


def test_pythons_admin(peer: Peer, unique: str) -> None:
    """SE-57."""
    client = KafkaAdminClient(bootstrap_servers=peer.bootstrap)
    pattern = python.ResourcePattern(python.ResourceType.GROUP, f"g-{unique}")
    made = python.ACL(
        "User:alice",
        "*",
        python.ACLOperation.READ,
        python.ACLPermissionType.ALLOW,
        pattern,
    )
    assert client.create_acls([made])["failed"] == []
    wanted = python.ACLFilter(
        None,
        None,
        python.ACLOperation.ANY,
        python.ACLPermissionType.ANY,
        python.ResourcePatternFilter(
            python.ResourceType.GROUP, f"g-{unique}", python.ACLResourcePatternType.ANY
        ),
    )

    def described() -> list[Any]:
        found, _ = client.describe_acls(wanted)
        return list(found)

    wait_until(lambda: described() == [made], SETTLE_S, "the ACL is there")
    ((_, deleted, _),) = client.delete_acls([wanted])
    assert list(deleted) == [made]
    wait_until(lambda: described() == [], SETTLE_S, "it is gone")
    client.close()


@pytest.mark.skipif(peer_kind() == "kafka", reason="about groupd's store")
def test_acls_stay(peer: Peer, groupd: Groupd, unique: str) -> None:
    """SE-59: after the reply, a restart and a crash lose nothing."""
    assert not isinstance(peer, KafkaBroker)
    topic = f"t-{unique}"
    alice = ["--allow-principal", "User:alice", "--topic", topic]
    groupd("add", *alice, "--operation", "Read")
    peer.stop()
    peer.restart()
    assert groupd("list", "--topic", topic) == [row(topic)]
    groupd("add", *alice, "--operation", "Write")
    peer.restart()  # kills it
    assert groupd("list", "--topic", topic) == [row(topic), row(topic, "WRITE")]
    assert len(groupd("remove", "--topic", topic)) == 2
    peer.restart()
    assert groupd("list", "--topic", topic) == []
