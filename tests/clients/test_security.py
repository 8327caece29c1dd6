"""Clients that log in: every mechanism over TLS, certificates instead of passwords, what an ACL
denies, names that a certificate does not have, and logins that have to be renewed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec
import pytest
import trustme
from confluent_kafka import admin as confluent

from groupd.testing.client_security import security_settings
from groupd.testing.security import AUTHORIZER, MECHANISMS, Login, Secured, SecurityOptions
from tests.clients.group import BY_NAME, SETTLE_S, Flavour, Group
from tests.clients.tools import Said, Tools
from tests.support.admin import committed, create_topics, group_type, produce
from tests.support.certificates import keystore, truststore
from tests.support.daemon import Daemon
from tests.support.metrics import samples
from tests.support.peer import FAST_SETTINGS, peer_kind, running
from tests.support.process import wait_until

pytestmark = pytest.mark.skipif(peer_kind() == "kafka", reason="about groupd's listeners")

HOST = "127.0.0.1"
USERS = {"admin": "admin-secret", "billing": "billing-secret"}
TOPIC, CLOSED_TOPIC, CLOSED_GROUP = "orders", "payroll", "payroll-readers"
RECORDS = 20
REAUTH_MS = 2000

PLAIN, SHA_256, SHA_512, TOKEN = MECHANISMS
CERTIFICATE = "certificate"

CONFLUENT, CONFLUENT_CLASSIC = (
    BY_NAME["confluent-consumer-uniform"],
    BY_NAME["confluent-classic-range"],
)
JAVA, JAVA_CLASSIC = BY_NAME["java-consumer-uniform"], BY_NAME["java-classic-range"]
FRANZ, FRANZ_CLASSIC = BY_NAME["franz-consumer-uniform"], BY_NAME["franz-classic-range"]
AIOKAFKA, KAFKA_PYTHON = BY_NAME["aiokafka-classic-range"], BY_NAME["kafka_python-classic-range"]
KAFKAJS = BY_NAME["kafkajs-classic-roundrobin"]

LOGINS = [
    (flavour, mechanism)
    for both in (
        (CONFLUENT, CONFLUENT_CLASSIC),
        (JAVA, JAVA_CLASSIC),
        (FRANZ, FRANZ_CLASSIC),
        (AIOKAFKA, AIOKAFKA),
        (KAFKA_PYTHON, KAFKA_PYTHON),
        (KAFKAJS, KAFKAJS),
    )
    # Each client by every mechanism, and both of its protocols.
    for flavour, mechanism in zip(
        (both[0], both[1], both[0], both[1], both[0]), (*MECHANISMS, CERTIFICATE), strict=True
    )
]


class Broker:
    """One groupd: `plaintext` for the tests' own preparations, `sasl_ssl`, `ssl` with client
    certificates, `again` where logins hold for REAUTH_MS, and `named`, whose certificate has no IP
    address."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.sasl = Secured(SecurityOptions("SASL_SSL", USERS), HOST)
        self.certified = Secured(SecurityOptions("SSL", USERS), HOST)
        authority = trustme.CA()
        self.named_ca = truststore(directory / "named-ca.pem", authority)
        named = keystore(directory / "named.pem", authority.issue_cert("localhost"))
        sasl = self.sasl.config((HOST, 0))
        jaas = sasl["listener.name.sasl_ssl.plain.sasl.jaas.config"]
        of_certificates = {
            key if key.startswith("listener.name.") else f"listener.name.ssl.{key}": value
            for key, value in self.certified.config((HOST, 0)).items()
            if key != "listeners"
        }
        names = ("PLAINTEXT", "SASL_SSL", "SSL", "AGAIN", "NAMED")
        users = directory / "users"
        users.touch(0o600)
        users.write_text(
            "".join(
                f"{mechanism}=[name={name},password={password}]\n"
                for mechanism in (SHA_256, SHA_512)
                for name, password in USERS.items()
            )
        )
        self.daemon = Daemon(
            directory,
            settings=FAST_SETTINGS
            | sasl
            | of_certificates
            | {
                "listeners": ",".join(f"{name}://{HOST}:0" for name in names),
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,SSL:SSL,"
                "AGAIN:SASL_SSL,NAMED:SASL_SSL",
                "listener.name.again.plain.sasl.jaas.config": jaas,
                "listener.name.again.connections.max.reauth.ms": str(REAUTH_MS),
                "listener.name.named.plain.sasl.jaas.config": jaas,
                "listener.name.named.ssl.keystore.location": str(named),
                "groupd.scram.users.file": str(users),
                "authorizer.class.name": AUTHORIZER,
                "super.users": "User:admin;User:ANONYMOUS",
            },
        )

    def start(self) -> None:
        self.daemon.start()

    def stop(self) -> None:
        self.daemon.stop()

    def close(self) -> None:
        self.daemon.close()
        self.sasl.close()
        self.certified.close()

    def bootstrap(self, listener: str) -> str:
        return f"{HOST}:{self.daemon.ports[listener.lower()]}"

    def login(self, user: str, mechanism: str) -> Login:
        if mechanism == CERTIFICATE:
            return self.certified.login(user, None)
        (known,) = (one for one in MECHANISMS if one == mechanism)
        return self.sasl.login(user, known)

    def failed_handshakes(self) -> float:
        found = samples(self.daemon.admin_url, "groupd_tls_handshakes_total")
        return sum(one.value for one in found if one.labels["result"] == "failed")

    def count(self, metric: str) -> float:
        return sum(one.value for one in samples(self.daemon.admin_url, metric))


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    made = Broker(tmp_path_factory.mktemp("secured"))
    with running(made):
        plain = made.daemon.bootstrap
        create_topics(plain, {TOPIC: 2, CLOSED_TOPIC: 2})
        produce(plain, {TOPIC: 2}, RECORDS)
        produce(plain, {CLOSED_TOPIC: 2}, RECORDS)
        topic, group = confluent.ResourceType.TOPIC, confluent.ResourceType.GROUP
        read, describe = confluent.AclOperation.READ, confluent.AclOperation.DESCRIBE
        allow(plain, read, topic, TOPIC)
        allow(plain, read, group, "group-", prefixed=True)
        allow(plain, describe, topic, CLOSED_TOPIC)
        allow(plain, describe, group, CLOSED_GROUP)
        yield made


def allow(
    bootstrap: str,
    operation: confluent.AclOperation,
    resource: confluent.ResourceType,
    name: str,
    *,
    prefixed: bool = False,
) -> None:
    """Makes an ACL that allows it to everybody."""
    pattern = confluent.ResourcePatternType
    rule = confluent.AclBinding(
        resource,
        name,
        pattern.PREFIXED if prefixed else pattern.LITERAL,
        "User:*",
        "*",
        operation,
        confluent.AclPermissionType.ALLOW,
    )
    client = confluent.AdminClient({"bootstrap.servers": bootstrap})
    for future in client.create_acls([rule]).values():
        future.result(SETTLE_S)


GroupMaker = Callable[..., Group]


@pytest.fixture
def join(broker: Broker, tmp_path: Path) -> Iterator[GroupMaker]:
    """A group with one member that logs in; its process is gone after the test."""
    groups: list[Group] = []

    def make(
        flavour: Flavour,
        login: Login,
        *,
        listener: str = "",
        group_id: str = "",
        topics: Mapping[str, int] | None = None,
    ) -> Group:
        listener = listener or ("SASL_SSL" if login.mechanism else "SSL")
        number = len(groups)
        name = group_id or f"group-{flavour.name}-{login.mechanism}-{number}"
        made = Group(flavour, broker.bootstrap(listener), name, tmp_path)
        groups.append(made)
        file = tmp_path / f"login-{number}"
        if flavour.client == "java":
            write_properties(file, login)
        else:
            file.write_bytes(msgspec.json.encode(login))
        made.spawn(topics or {TOPIC: 2}, commit="each", login=file)
        return made

    yield make
    for group in groups:
        group.close()


def write_properties(file: Path, login: Login) -> None:
    """Writes the settings of a login in the form that Java and Kafka's tools take."""
    token = file.with_suffix(".token")
    token.write_text(login.token)
    settings = security_settings("java", login, lambda: login.token, lambda: str(token))
    file.write_text("".join(f"{key}={escaped(value)}\n" for key, value in settings.items()))


def escaped(value: str) -> str:
    """A value as it stands in a file of Java's properties."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


@pytest.mark.parametrize(
    ("flavour", "mechanism"), LOGINS, ids=lambda one: one.name if isinstance(one, Flavour) else one
)
def test_a_client_logs_in_and_is_a_member(
    broker: Broker, join: GroupMaker, flavour: Flavour, mechanism: str
) -> None:
    """SE-14, SE-35, SE-05."""
    group = join(flavour, broker.login("billing", mechanism))
    wait_until(
        lambda: sum(group.acknowledged.values()) == RECORDS, SETTLE_S, "commits", group.describe
    )
    plain = broker.daemon.bootstrap
    assert group_type(plain, group.group_id) == flavour.protocol
    group.stop(group.processes[0])
    assert group.errors == []
    assert sum(committed(plain, group.group_id, {TOPIC: 2}).values()) == RECORDS


DENIED = {
    CONFLUENT_CLASSIC: ("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"),
    JAVA: ("TopicAuthorizationException", "GroupAuthorizationException"),
    FRANZ: ("TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED"),
    AIOKAFKA: ("TopicAuthorizationFailedError", "GroupAuthorizationFailedError"),
    KAFKA_PYTHON: ("TopicAuthorizationFailedError", "GroupAuthorizationFailedError"),
    KAFKAJS: ("Not authorized to access topics", "Not authorized to access group"),
}
"""What each client says where it may not read a topic, and where it may not be in a group.
librdkafka with the consumer protocol says nothing of the latter if it may DESCRIBE the group."""


@pytest.mark.parametrize("flavour", DENIED, ids=lambda flavour: flavour.name)
def test_a_client_is_told_what_it_may_not_do(
    broker: Broker, join: GroupMaker, flavour: Flavour
) -> None:
    login = broker.login("billing", SHA_512)
    topic = join(flavour, login, topics={CLOSED_TOPIC: 2})
    group = join(flavour, login, group_id=CLOSED_GROUP)
    for denied, error in zip((topic, group), DENIED[flavour], strict=True):
        wait_until(
            lambda denied=denied, error=error: any(error in one for one in denied.errors),
            SETTLE_S,
            error,
            denied.describe,
        )
        assert denied.seen() == []


@pytest.mark.parametrize("flavour", [JAVA, FRANZ], ids=lambda flavour: flavour.name)
def test_a_name_that_the_certificate_does_not_have(
    broker: Broker, join: GroupMaker, flavour: Flavour
) -> None:
    """SE-11: it has "localhost", and clients are told 127.0.0.1. tests/wire/test_tls.py has
    librdkafka."""
    login = msgspec.structs.replace(broker.login("billing", PLAIN), ca_file=str(broker.named_ca))
    before = broker.failed_handshakes()
    group = join(flavour, login, listener="NAMED")
    wait_until(lambda: broker.failed_handshakes() > before, SETTLE_S, "a refusal", group.describe)
    assert group.seen() == []


@pytest.mark.parametrize("flavour", [JAVA, FRANZ], ids=lambda flavour: flavour.name)
def test_a_login_is_renewed_on_its_connection(
    broker: Broker, join: GroupMaker, flavour: Flavour
) -> None:
    """SE-43. Others: test_sasl_clients.py."""
    again = "groupd_reauthentications_total"
    before = broker.count(again)
    group = join(flavour, broker.login("billing", SHA_256), listener="AGAIN")
    wait_until(lambda: broker.count(again) >= before + 4, SETTLE_S, "logins", group.describe)
    assert broker.count("groupd_expired_connections_killed_total") == 0
    assert [move.kind for move in group.moves] == ["assigned"]
    group.stop(group.processes[0])
    assert group.errors == []


def test_kafkas_tools_log_in(broker: Broker, tools: Tools, tmp_path: Path) -> None:
    def call(user: str, mechanism: str, tool: str, *arguments: str) -> Said:
        file = tmp_path / f"{user}-{mechanism}"
        write_properties(file, broker.login(user, mechanism))
        listener = "SSL" if mechanism == CERTIFICATE else "SASL_SSL"
        address = broker.bootstrap(listener)
        return tools.call(address, tool, "--command-config", str(file), *arguments)

    assert TOPIC in call("admin", PLAIN, "kafka-topics", "--list").lines
    assert call("billing", SHA_256, "kafka-topics", "--list").lines == [TOPIC, CLOSED_TOPIC]
    assert "principal=User:*" in call("admin", SHA_512, "kafka-acls", "--list").out
    assert "ClusterAuthorizationException" in call("billing", SHA_512, "kafka-acls", "--list").out
    groups = call("admin", CERTIFICATE, "kafka-consumer-groups", "--list")
    assert groups.exit == 0, groups
    users = call("admin", SHA_512, "kafka-configs", "--entity-type", "users", "--describe")
    assert "'billing' are SCRAM-SHA-256=iterations=4096" in users.out
