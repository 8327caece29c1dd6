"""TLS listeners (`docs/spec/security.md#1`): which clients get through the handshake, and who they
are then."""

from __future__ import annotations

import os
import select
import signal
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.certificates import client_context, client_hello, keystore, truststore
from tests.support.daemon import Daemon, ends_well
from tests.support.metrics import samples
from tests.support.process import wait_until
from tests.support.raw import close_with_reset
from tests.support.wire_client import NoReply, WireClient
from tests.support.wire_requests import create_topic, produce

HOST = "127.0.0.1"
CA, CLIENTS, STRANGERS = trustme.CA(), trustme.CA(), trustme.CA()
ACME = {"organization_name": "Acme", "organization_unit_name": "dev"}
ALICE = CLIENTS.issue_cert(common_name="Alice", **ACME)
STRANGER = STRANGERS.issue_cert(common_name="Alice", **ACME)
CLOSED = (NoReply, OSError)
TLS_1_2, TLS_1_3 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def broker_certificate(*names: str) -> trustme.LeafCert:
    return CA.issue_cert(*names, common_name="broker", organization_unit_name="tests")


class Broker:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.by_ip = keystore(directory / "ip.pem", broker_certificate(HOST))
        by_name = keystore(directory / "name.pem", broker_certificate("localhost"))
        self.ca = truststore(directory / "ca.pem", CA)
        secure = "listener.name.secure.plain.sasl.jaas.config"
        names = ("SSL", "REQUIRED", "REQUESTED", "RULES", "NAMED", "OLD", "RENEWED", "FEW")
        self.renewed = keystore(directory / "renewed.pem", broker_certificate(HOST))
        settings = {
            "listeners": ",".join(f"{name}://{HOST}:0" for name in ("PLAINTEXT", "SECURE", *names)),
            "sasl.enabled.mechanisms": "PLAIN",
            secure: (
                'org.apache.kafka.common.security.plain.PlainLoginModule required user_bob="pw";'
            ),
            "listener.security.protocol.map": ",".join(
                ["PLAINTEXT:PLAINTEXT", "SECURE:SASL_SSL", *(f"{name}:SSL" for name in names)]
            ),
            "ssl.keystore.location": str(self.by_ip),
            "ssl.truststore.location": str(truststore(directory / "clients.pem", CLIENTS)),
            "listener.name.named.ssl.keystore.location": str(by_name),
            "listener.name.renewed.ssl.keystore.location": str(self.renewed),
            "listener.name.required.ssl.client.auth": "required",
            "listener.name.requested.ssl.client.auth": "requested",
            "listener.name.rules.ssl.client.auth": "required",
            "listener.name.rules.ssl.principal.mapping.rules": ("RULE:^CN=(.*?),.*O=Acme.*$/$1/L"),
            "listener.name.old.ssl.enabled.protocols": "TLSv1.2",
            "listener.name.few.max.connections": "2",
            "tls_reload_interval_ms": "3600000",
            "tls_handshake_timeout_ms": "60000",
            "authorizer.class.name": ("org.apache.kafka.metadata.authorizer.StandardAuthorizer"),
            "super.users": "User:ANONYMOUS;User:alice",
        }
        self.daemon = Daemon(directory, settings=settings)
        self.daemon.start()

    def port(self, listener: str) -> int:
        return self.daemon.ports[listener]

    def client(self, listener: str, context: ssl.SSLContext | None = None) -> WireClient:
        return WireClient(HOST, self.port(listener), tls=context)

    @property
    def log(self) -> str:
        return (self.directory / "groupd.log").read_text()

    def metric(self, name: str, **labels: str) -> float:
        found = [one for one in samples(self.daemon.admin_url, name) if one.labels == labels]
        (sample,) = found
        return sample.value

    def handshakes(self) -> dict[str, float]:
        ended = samples(self.daemon.admin_url, "groupd_tls_handshakes_total")
        return {one.labels["result"]: one.value for one in ended}

    @property
    def pending(self) -> float:
        return self.metric("groupd_tls_handshakes_pending")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    made = Broker(tmp_path_factory.mktemp("tls"))
    with ends_well(made.daemon):
        yield made
    assert "PRIVATE" not in made.log


def is_served(client: WireClient) -> bool:
    return bool(client.call("DescribeCluster", 0)["cluster_id"])


def refused(broker: Broker, listener: str, context: ssl.SSLContext) -> str:
    """Checks that the handshake fails, or with TLS 1.3 the first answer tells so. Returns why, in
    words."""
    with pytest.raises(CLOSED) as caught, broker.client(listener, context) as client:
        client.call("ApiVersions", 0)
    return str(caught.value)


# Versions and data --------------------------------------------------------------------------


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_both_versions_are_served(broker: Broker, version: ssl.TLSVersion) -> None:
    """SE-03."""
    with broker.client("ssl", client_context(CA, version=version)) as client:
        assert is_served(client)


def test_a_version_that_is_not_enabled_is_refused(broker: Broker) -> None:
    assert "version" in refused(broker, "old", client_context(CA, version=TLS_1_3)).lower()
    with broker.client("old", client_context(CA, version=TLS_1_2)) as client:
        assert is_served(client)


@pytest.mark.parametrize("version", ["-tls1", "-tls1_1"])
def test_old_versions_end_with_an_alert(broker: Broker, version: str) -> None:
    """SE-03."""
    said = s_client(broker, version, "-cipher", "DEFAULT:@SECLEVEL=0")
    assert "alert protocol version" in said


def test_nobody_renegotiates(broker: Broker) -> None:
    """SE-03."""
    assert "no renegotiation" in s_client(broker, "-tls1_2", told="R\n")


def s_client(broker: Broker, *arguments: str, told: str = "") -> str:
    command = ["openssl", "s_client", "-connect", f"{HOST}:{broker.port('ssl')}", *arguments]
    done = subprocess.run(
        command, input=told, capture_output=True, text=True, timeout=30, check=False
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
def test_large_requests_and_replies_arrive_whole(broker: Broker, version: ssl.TLSVersion) -> None:
    """Larger than a record, and larger than what is encrypted at once."""
    topic = f"large-{version.name.lower()}"
    with broker.client("ssl", client_context(CA, version=version)) as client:
        client.call(*create_topic(topic)[:2], **create_topic(topic)[2])
        names = [f"{'n' * 200}{number}" for number in range(20_000)]
        reply = client.call(
            "Metadata",
            9,
            topics=[{"name": name} for name in names],
            allow_auto_topic_creation=False,
        )
        assert [one["name"] for one in reply["topics"]] == names
        for one in client.pipeline([produce(topic)] * 200):
            assert one["responses"][0]["partition_responses"][0]["error_code"] == 0


def test_a_plaintext_client_on_a_tls_port_is_closed_without_an_answer(broker: Broker) -> None:
    """SE-04."""
    with socket.create_connection((HOST, broker.port("ssl")), 20) as raw:
        raw.sendall(struct.pack(">ihhih", 10, 18, 0, 1, -1))
        assert raw.recv(100) == b""


def test_a_tls_client_on_a_plaintext_port_is_hinted_at(broker: Broker) -> None:
    """SE-04."""
    with pytest.raises(OSError), broker.client("kafka", client_context(CA)):
        pass
    assert "a TLS client on a plaintext listener?" in broker.log


# Certificates of clients --------------------------------------------------------------------


@pytest.mark.parametrize("version", [TLS_1_2, TLS_1_3])
@pytest.mark.parametrize("certificate", [None, STRANGER], ids=["none", "of another CA"])
def test_who_has_no_certificate_that_is_trusted(
    broker: Broker, version: ssl.TLSVersion, certificate: trustme.LeafCert | None
) -> None:
    """SE-05."""
    before = broker.handshakes()
    refused(broker, "required", client_context(CA, certificate, version))
    after = broker.handshakes()
    assert (after["failed"], after["succeeded"]) == (before["failed"] + 1, before["succeeded"])


def test_an_expired_certificate_is_refused(broker: Broker) -> None:
    """SE-05."""
    from datetime import UTC, datetime

    past = datetime(2020, 1, 1, tzinfo=UTC)
    old = CLIENTS.issue_cert(common_name="Alice", not_after=past, **ACME)
    refused(broker, "required", client_context(CA, old))
    assert "certificate has expired" in broker.log


def denied_principal(client: WireClient) -> None:
    """A request that only super users may send."""
    assert client.call("DescribeCluster", 0)["cluster_id"]
    filters = {"resource_type_filter": 1, "operation": 1, "permission_type": 1}
    assert client.call("DescribeAcls", 3, pattern_type_filter=1, **filters)["error_code"] == 31


def test_the_subject_is_the_principal(broker: Broker) -> None:
    """SE-05, SE-07."""
    with broker.client("required", client_context(CA, ALICE)) as client:
        denied_principal(client)
    assert "User:CN=Alice,OU=dev,O=Acme" in broker.log


def test_a_rule_makes_a_name_of_the_subject(broker: Broker) -> None:
    """SE-08: "alice" is a super user."""
    with broker.client("rules", client_context(CA, ALICE)) as client:
        filters = {"resource_type_filter": 1, "operation": 1, "permission_type": 1}
        reply = client.call("DescribeAcls", 3, pattern_type_filter=1, **filters)
        assert reply["error_code"] == 0


def test_without_a_rule_that_matches_the_client_is_nobody(broker: Broker) -> None:
    """SE-08: not ANONYMOUS either."""
    other = CLIENTS.issue_cert(common_name="x", organization_name="Other")
    refused(broker, "rules", client_context(CA, other))
    assert "no rule of ssl.principal.mapping.rules matches" in broker.log


def test_a_certificate_that_is_only_requested(broker: Broker) -> None:
    """SE-06: ANONYMOUS is a super user."""
    with broker.client("requested", client_context(CA)) as client:
        filters = {"resource_type_filter": 1, "operation": 1, "permission_type": 1}
        reply = client.call("DescribeAcls", 3, pattern_type_filter=1, **filters)
        assert reply["error_code"] == 0
    with broker.client("requested", client_context(CA, ALICE)) as client:
        denied_principal(client)
    refused(broker, "requested", client_context(CA, STRANGER))


def test_a_certificate_that_nobody_asked_for_says_nothing(broker: Broker) -> None:
    with broker.client("ssl", client_context(CA, ALICE)) as client:
        filters = {"resource_type_filter": 1, "operation": 1, "permission_type": 1}
        reply = client.call("DescribeAcls", 3, pattern_type_filter=1, **filters)
        assert reply["error_code"] == 0


# The certificate of the broker --------------------------------------------------------------


def serial(broker: Broker, listener: str) -> int:
    from cryptography import x509

    pem = ssl.get_server_certificate((HOST, broker.port(listener)))
    return x509.load_pem_x509_certificate(pem.encode()).serial_number


def test_a_renewed_certificate_is_for_new_connections(broker: Broker) -> None:
    """SE-10."""
    first = serial(broker, "renewed")
    with broker.client("renewed", client_context(CA)) as client:
        assert is_served(client)
        keystore(broker.renewed, broker_certificate(HOST, "more.example"))
        os.kill(broker.daemon.pid, signal.SIGHUP)
        wait_until(lambda: serial(broker, "renewed") != first, 20, "the new certificate")
        assert is_served(client), "an open connection goes on"
        second = serial(broker, "renewed")
        keystore(broker.renewed, broker_certificate(HOST))
        os.kill(broker.daemon.pid, signal.SIGHUP)
        wait_until(lambda: "alternative names are gone" in broker.log, 20, "the error")
        assert serial(broker, "renewed") == second
        assert is_served(client)
    reloads = "groupd_tls_certificate_reloads_total"
    for result in ("succeeded", "failed"):
        assert broker.metric(reloads, listener="RENEWED", result=result) == 1
    expiry = "groupd_tls_certificate_expiry_timestamp_seconds"
    assert broker.metric(expiry, listener="RENEWED") > 1_700_000_000


def test_clients_check_the_address_that_is_advertised(broker: Broker) -> None:
    """SE-11, with librdkafka."""

    def clusters(listener: str) -> int:
        admin = AdminClient(
            {
                "bootstrap.servers": f"{HOST}:{broker.port(listener)}",
                "security.protocol": "SSL",
                "ssl.ca.location": str(broker.ca),
                "log_level": 0,
            }
        )
        return len(admin.list_topics(timeout=10 if listener == "ssl" else 2).brokers)

    assert clusters("ssl") == 1
    with pytest.raises(KafkaException):
        clusters("named")


def test_a_password_may_travel_through_tls(broker: Broker) -> None:
    """SE-14 in small: nobody needs a certificate there, and a wrong password is refused."""

    def clusters(password: str) -> int:
        admin = AdminClient(
            {
                "bootstrap.servers": f"{HOST}:{broker.port('secure')}",
                "security.protocol": "SASL_SSL",
                "sasl.mechanisms": "PLAIN",
                "sasl.username": "bob",
                "sasl.password": password,
                "ssl.ca.location": str(broker.ca),
                "log_level": 0,
            }
        )
        return len(admin.list_topics(timeout=10 if password == "pw" else 2).brokers)

    assert clusters("pw") == 1
    with pytest.raises(KafkaException):
        clusters("wrong")


# Clients that go away -----------------------------------------------------------------------


def test_who_leaves_in_the_middle_leaves_nothing(broker: Broker) -> None:
    """SE-92."""
    hello = client_hello(client_context(CA))
    for part in (b"", hello[:1], hello[:100], hello, hello + b"\x15\x03\x03\x00\x02\x02\x28"):
        for reset in (False, True):
            raw = socket.create_connection((HOST, broker.port("ssl")), 20)
            if part:
                raw.sendall(part)
            if reset:
                close_with_reset(raw)
            raw.close()
    wait_until(lambda: broker.pending == 0, 20, "the end of all handshakes")


def test_se_13_a_settled_member_heartbeats_over_tls(broker: Broker) -> None:
    """Answers to repeated heartbeats are stored: they leave through TLS as all others do."""
    with broker.client("ssl", client_context(CA)) as client:
        joining = {
            "group_id": "settled",
            "member_id": "m1",
            "member_epoch": 0,
            "rebalance_timeout": 9000,
            "subscribed_topic_names": ["missing"],
            "topic_partitions": (),
        }
        joined = client.call("ConsumerGroupHeartbeat", 1, **joining)
        assert joined["error_code"] == 0
        beat = {"group_id": "settled", "member_id": "m1", "member_epoch": joined["member_epoch"]}
        replies = [client.call("ConsumerGroupHeartbeat", 1, **beat) for _ in range(300)]
    assert {(reply["error_code"], reply["member_epoch"]) for reply in replies} == {
        (0, joined["member_epoch"])
    }


def test_connections_without_a_handshake_count(broker: Broker) -> None:
    """SE-79."""
    address = (HOST, broker.port("few"))
    with broker.client("few", client_context(CA)) as served, socket.create_connection(address) as s:
        assert is_served(served)
        with socket.create_connection(address, 20) as third:
            third.sendall(client_hello(client_context(CA)))
            blocked = "groupd_acceptors_blocked"
            wait_until(lambda: broker.metric(blocked) == 1, 20, "a client that waits")
            assert select.select([third], [], [], 0)[0] == []
            s.close()
            assert third.recv(1) == b"\x16", "its handshake goes on"
