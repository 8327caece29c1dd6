"""A client that logs in, byte by byte under control of a test, and a daemon to log in to."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from groupd.coordinator.security.sasl.jaas import PLAIN_MODULE
from groupd.coordinator.security.scram_credentials import MECHANISMS, salted
from tests.support.daemon import Daemon
from tests.support.peer import FAST_SETTINGS
from tests.support.raw import RawConnection, frame
from tests.support.sasl_frames import (
    AuthenticateBody,
    Handshake,
    authenticate,
    handshake,
    read_authenticated,
    read_handshake,
)
from tests.support.scram_client import ScramClient
from tests.support.tokens import (
    AUDIENCE,
    ISSUER,
    claims,
    jwks,
    message,
    private_key,
    public_entry,
    signed,
)
from tests.support.wire_client import WireClient

PASSWORDS = {"alice": "alice-pw", "bob": "bob-pw", "a=b,c": "odd-pw"}
PLAIN_ALICE = b"\0alice\0alice-pw"
ALL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


class SaslConnection(RawConnection):
    """One connection to a SASL listener."""

    def handshake(self, mechanism: str, version: int = 1) -> Handshake:
        self.send(frame(handshake(mechanism, version)))
        return read_handshake(self.reply()[1])

    def authenticate(self, token: bytes, version: int = 1) -> AuthenticateBody:
        self.send(frame(authenticate(token, version)))
        return read_authenticated(self.reply()[1], version)

    def plain(self, token: bytes = PLAIN_ALICE) -> AuthenticateBody:
        assert self.handshake("PLAIN").error == 0
        return self.authenticate(token)

    def scram(self, mechanism: str, user: str, password: str) -> AuthenticateBody:
        """`user` as it is sent: escaped."""
        assert self.handshake(mechanism).error == 0
        client = ScramClient(mechanism, user, password)
        first = self.authenticate(client.first())
        if first.error:
            return first
        last = self.authenticate(client.final(first.token))
        assert last.error or client.verifies(last.token)
        return last


def valid_token(lifetime_s: int = 600, user: str = "alice") -> str:
    now_s = int(time.time())
    return signed(claims(sub=user, iat=now_s, exp=now_s + lifetime_s))


def bearer(lifetime_s: int = 600, user: str = "alice") -> bytes:
    """The message with a valid token of the test's identity provider."""
    return message(valid_token(lifetime_s, user))


def plain_config(passwords: Mapping[str, str] = PASSWORDS) -> str:
    users = " ".join(f'"user_{name}"="{password}"' for name, password in passwords.items())
    return f"{PLAIN_MODULE} required {users};"


def sasl_settings(directory: Path) -> dict[str, str]:
    """The settings of a daemon with a listener without SASL, and three with it: SASL_PLAINTEXT with
    all mechanisms, SHORT with sessions of two seconds, STRICT with a deadline and limits to
    meet."""
    keys = directory / "jwks.json"
    keys.write_bytes(jwks(public_entry(private_key("ES256"), "k1")))
    names = ("PLAINTEXT", "SASL_PLAINTEXT", "SHORT")
    return {
        **FAST_SETTINGS,
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in names),
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": ",".join(ALL_MECHANISMS),
        "listener.name.short.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        "listener.name.short.connections.max.reauth.ms": "2000",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": plain_config(),
        "listener.name.short.plain.sasl.jaas.config": plain_config(),
        "sasl.oauthbearer.jwks.endpoint.url": keys.as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "groupd.authentication.failures.per.ip": "0",
        "groupd.authentication.failures.per.user": "0",
    }


def sasl_daemon(directory: Path, **settings: str) -> Daemon:
    return Daemon(
        directory,
        settings={**sasl_settings(directory), **settings},
        topics={"orders": 2},
    )


def add_users(daemon: Daemon, passwords: Mapping[str, str] = PASSWORDS) -> None:
    """Makes SCRAM users with both mechanisms, over the listener without SASL."""
    with WireClient(daemon.host, daemon.port) as client:
        for mechanism in MECHANISMS.values():
            upsertions = [
                {
                    "name": name,
                    "mechanism": mechanism.code,
                    "iterations": 4096,
                    "salt": b"salt",
                    "salted_password": bytes(salted(mechanism, password, b"salt", 4096)),
                }
                for name, password in passwords.items()
            ]
            reply = client.call("AlterUserScramCredentials", 0, deletions=[], upsertions=upsertions)
            assert all(one["error_code"] == 0 for one in reply["results"]), reply
