"""`--command-config`: what the file may say."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from groupd.client.connection import UNPROTECTED, ClientSecurity
from groupd.coordinator.cli.kafka.cluster import TOKEN_URL, client_security
from groupd.coordinator.cli.parse import UsageError

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"

SASL_PLAIN = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN"

BEARER = "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER"


def security_of(tmp_path: Path, text: str) -> ClientSecurity:
    path = tmp_path / "client.properties"
    path.write_text(text)
    return client_security(path)


def tls_of(tmp_path: Path, text: str) -> ssl.SSLContext:
    tls = security_of(tmp_path, text).tls
    assert tls is not None
    return tls()


def test_plain(tmp_path: Path) -> None:
    """The value goes on behind a backslash, as Kafka's examples write it."""
    security = security_of(
        tmp_path,
        "# me\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nclient.id=x\n"
        f'sasl.jaas.config={PLAIN} \\\n   username="alice" \\\n   password="a=b;c";\n',
    )
    assert security.tls is None
    assert security.login is not None
    assert security.login.mechanism == "PLAIN"
    assert next(security.login.tokens()) == b"\0alice\0a=b;c"


def test_a_token_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    path.write_text("aa.bb.cc\n")
    login = security_of(tmp_path, f"{BEARER}\n{TOKEN_URL}={path.as_uri()}").login
    assert login is not None
    assert login.mechanism == "OAUTHBEARER"
    assert next(login.tokens()) == b"n,,\x01auth=Bearer aa.bb.cc\x01\x01"


def test_without_a_file_or_protocol_nothing_is_protected(tmp_path: Path) -> None:
    assert client_security(None) == security_of(tmp_path, "client.id=x\n") == UNPROTECTED


def test_tls_verifies_names_unless_told_otherwise(tmp_path: Path) -> None:
    tls = tls_of(tmp_path, "security.protocol=SSL\n")
    assert tls.check_hostname
    assert tls.verify_mode.name == "CERT_REQUIRED"
    assert tls.minimum_version.name == "TLSv1_2"
    tls = tls_of(tmp_path, "security.protocol=SSL\nssl.endpoint.identification.algorithm=\n")
    assert not tls.check_hostname
    assert tls.verify_mode.name == "CERT_REQUIRED"


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("security.protocol=TLS", "must be PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=: must be PLAIN"),
        ("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI", "must be PLAIN"),
        (SASL_PLAIN, "sasl.jaas.config"),
        (
            f"{SASL_PLAIN}\nsasl.jaas.config={PLAIN} username=alice passwort=secret;",
            "must have username and password",
        ),
        (
            "security.protocol=SSL\nssl.truststore.location=/nowhere.pem",
            "/nowhere.pem: No such file",
        ),
        ("security.protocol=SSL\nssl.truststore.location=/x.jks", "must be a PEM file"),
        ("security.protocol=SSL\nssl.truststore.certificates=abc", "cannot be used"),
        (BEARER, "token.endpoint.url must be file:///PATH"),
        (
            f"{BEARER}\n{TOKEN_URL}=https://idp.test",
            "token.endpoint.url must be file:///PATH",
        ),
        (f"{BEARER}\n{TOKEN_URL}=file:///nowhere", "url=/nowhere: No such file"),
        ("security.protocol=SSL\nssl.keystore.location=/nowhere.pem", "keystore.*No such file"),
        (f"security.protocol=SSL\nssl.keystore.location={__file__}", "must hold a private key"),
        (f"security.protocol=SSL\nssl.truststore.location={__file__}", "must hold certificates"),
        ("nonsense", "line 1 is not KEY=VALUE"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, mistake: str) -> None:
    with pytest.raises(UsageError, match=mistake) as refused:
        security_of(tmp_path, text)
    assert "secret" not in str(refused.value)
