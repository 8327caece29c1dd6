"""Brokers that differ in one matter of security from the peer of the same name without it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import trustme

from groupd.coordinator.config.security_settings import STANDARD_AUTHORIZER
from groupd.coordinator.core.types import Operation, Resource
from groupd.coordinator.security.acls import PatternType, Permission
from tests.bench.peers.processes import Peer, running
from tests.support.certificates import keystore
from tests.support.wire_client import WireClient

TLS = ("groupd", "groupd, TLS", "Apache Kafka", "Apache Kafka, TLS")
ACLS = ("groupd", "groupd, 10,000 ACLs")
ACL_COUNT = 10_000
ACLS_AT_ONCE = 1_000
USERS = 500
EVERY_OWN = 20
"""One ACL in so many is for the clients of the load themselves."""
CLIENT = "User:ANONYMOUS"
ACL_SETTINGS = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
}
MADE_LAST = (
    (Resource.GROUP, "bench-", PatternType.PREFIXED),
    (Resource.GROUP, "commit-", PatternType.PREFIXED),
    (Resource.TOPIC, "bench", PatternType.LITERAL),
)
"""What the loads need to READ. Until these ACLs are made, everybody may use what no ACL is
about."""


def base_of(peer: str) -> str:
    return peer.partition(", ")[0]


def tls_settings(directory: Path) -> dict[str, str]:
    """A listener with TLS beside one without. The certificate has a key on the curve P-256."""
    directory.mkdir(parents=True, exist_ok=True)
    certificate = trustme.CA().issue_cert("127.0.0.1")
    path = keystore(directory / "broker.pem", certificate)
    return {"ssl.keystore.location": str(path), "ssl.keystore.type": "PEM"}


@contextmanager
def start(name: str, path: Path, topics: Mapping[str, int], *, durable: bool) -> Iterator[Peer]:
    """A fresh peer with these topics, as `running` gives it. Raises NoPeer."""
    base, variant = base_of(name), name.partition(", ")[2]
    settings: dict[str, str] = {}
    if variant == "TLS":
        settings = tls_settings(path / "tls")
        if base.startswith("groupd"):
            settings["listeners"] = "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0"
    elif variant:
        settings = dict(ACL_SETTINGS)
    with running(base, path, topics, durable=durable, settings=settings) as peer:
        if variant and variant != "TLS":
            make_acls(peer)
        yield Peer(name, peer.host, peer.port, peer.pid, tls_port=peer.tls_port)


def make_acls(peer: Peer) -> None:
    """Makes the ACLs of a broker with `ACL_SETTINGS`."""
    with WireClient(peer.host, peer.port) as client:
        acls = list(_acls())
        for first in range(0, len(acls), ACLS_AT_ONCE):
            creations = acls[first : first + ACLS_AT_ONCE]
            reply = client.call("CreateAcls", 3, creations=creations)
            failed = [one for one in reply["results"] if one["error_code"]]
            assert not failed, failed[0]


def _acls() -> Iterator[dict[str, object]]:
    for number in range(ACL_COUNT - len(MADE_LAST)):
        own = number % EVERY_OWN == 0
        resource = Resource.TOPIC if number % 2 else Resource.GROUP
        pattern = PatternType.PREFIXED if number % 3 else PatternType.LITERAL
        principal = CLIENT if own else f"User:user-{number % USERS}"
        yield _acl(resource, f"name-{number:05d}", pattern, principal)
    for resource, name, pattern in MADE_LAST:
        yield _acl(resource, name, pattern, CLIENT)


def _acl(resource: Resource, name: str, pattern: PatternType, principal: str) -> dict[str, object]:
    return {
        "resource_type": int(resource),
        "resource_name": name,
        "resource_pattern_type": int(pattern),
        "principal": principal,
        "host": "*",
        "operation": int(Operation.READ),
        "permission_type": int(Permission.ALLOW),
    }
