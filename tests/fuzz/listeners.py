"""The listeners of a groupd that is fuzzed, and who may do what there."""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec

from tests.attack import doors as attacked
from tests.attack.doors import PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, SSL
from tests.support.daemon import Daemon
from tests.support.sasl_client import add_users
from tests.support.wire_client import WireClient

WEIGHTS = {PLAINTEXT: 50, SASL_PLAINTEXT: 25, SSL: 12, SASL_SSL: 13}
SESSION_S = 2.0
REST_S = 1.1
"""A client has to wait a second before it may log in again."""


class Doors(msgspec.Struct, frozen=True):
    """What a storm has to know of the listeners. `ports`: by the listener's name; `ca`: a file;
    `tokens`: of OAUTHBEARER, by user."""

    ports: dict[str, int]
    ca: str
    tokens: dict[str, str]


def settings(directory: Path) -> dict[str, str]:
    """The settings of the listeners. Writes certificates and keys into the directory."""
    return {
        **attacked.settings(directory),
        # All connections come from one address, and many logins fail.
        "groupd.authentication.failures.per.ip": "0",
        "groupd.authentication.failures.per.user": "0",
        # It holds a connection; that it is kept is shown elsewhere.
        "connection.failed.authentication.delay.ms": "10",
        "connections.max.reauth.ms": str(int(SESSION_S * 1000)),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice",
    }


def doors(daemon: Daemon, directory: Path) -> Doors:
    """The doors of a started daemon, once it has its users and ACLs."""
    add_users(daemon)
    grant(daemon)
    ports = {name: daemon.ports[name] for name in WEIGHTS}
    return Doors(ports, str(directory / "ca.pem"), attacked.tokens())


def grant(daemon: Daemon) -> None:
    """Makes the ACLs that say what bob may do. A storm deletes ACLs, so this is done again and
    again; once it has made as many as there may be, nothing is added."""
    topic, group, literal, read, describe, allow = 2, 3, 3, 3, 8, 3
    creations = [
        {
            "resource_type": kind,
            "resource_name": name,
            "resource_pattern_type": literal,
            "principal": "User:bob",
            "host": "*",
            "operation": operation,
            "permission_type": allow,
        }
        for kind, name in ((topic, "fuzz-a"), (group, "fuzz-classic"), (group, "fuzz-consumer"))
        for operation in (read, describe)
    ]
    with WireClient(daemon.host, daemon.port) as client:
        client.call("CreateAcls", 3, creations=creations)


def contexts(ca: str) -> list[ssl.SSLContext]:
    """TLS contexts for clients: one with TLS 1.3, one with 1.2."""
    made = []
    for version in (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2):
        context = ssl.create_default_context(cafile=ca)
        context.minimum_version = context.maximum_version = version
        made.append(context)
    return made
