"""`--command-config`: what the file may say, and the client's side of a login."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from groupd.coordinator.cli.errors import UsageError
from groupd.coordinator.cli.kafka import login
from groupd.coordinator.cli.kafka.client_config import client_security
from groupd.coordinator.cli.kafka.connection import KafkaError
from groupd.coordinator.security.sasl import client
from groupd.protocol.reader import Reader
from groupd.protocol.wire.calls import Call
from groupd.protocol.writer import Writer

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"

SASL_PLAIN = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN"

BEARER = "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER"


def security_of(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "client.properties"
    path.write_text(text)
    return client_security(path)


class Server:
    """Answers logins. `answers`: the answer to each token in turn; a number is an error code.
    `handshake`: the error code of the answer to SaslHandshake, with these `mechanisms`."""

    where = "broker:9092"

    def __init__(
        self, *answers: bytes | int, mechanisms: tuple[str, ...] = (), handshake: int = 0
    ) -> None:
        self._answers = list(answers)
        self._mechanisms, self._handshake = mechanisms, handshake
        self.tokens: list[bytes] = []

    def call(
        self, api: Call, write: Callable[[Writer], None], read: Callable[[Reader], Any]
    ) -> Any:
        asked, answer = Writer(flexible=False), Writer(flexible=False)
        write(asked)
        if api.key == 17:
            answer.int16(self._handshake)
            answer.array(self._mechanisms, Writer.string)
        else:
            self.tokens.append(Reader(bytes(asked.buffer), 0, 1, flexible=False).bytes_())
            given = self._answers.pop(0)
            error = given if isinstance(given, int) else 0
            answer.int16(error)
            answer.nullable_string("no such user" if error else None)
            answer.bytes_(b"" if isinstance(given, int) else given)
            answer.int64(0)
        return read(Reader(bytes(answer.buffer), 0, api.version, flexible=False))


def scram(monkeypatch: pytest.MonkeyPatch, user: str = "user") -> Callable[[Any], None]:
    """The login of RFC 7677's example."""
    monkeypatch.setattr(client.secrets, "token_urlsafe", lambda _: "rOprNGfwEbeRWgbNEkqO")
    jaas = f'{SCRAM} username="{user}" password="pencil";'
    given = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas}
    return login.login_of(given, "--command-config")


NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FIRST = f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
LAST = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_scram_as_in_the_rfc(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(FIRST, LAST)
    scram(monkeypatch)(server)
    assert server.tokens == [
        b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        f"c=biws,r={NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode(),
    ]


def test_scram_names_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(58)
    with pytest.raises(KafkaError, match="broker:9092 refused the login: no such user"):
        scram(monkeypatch, "a=b,c")(server)
    assert server.tokens == [b"n,,n=a=3Db=2Cc,r=rOprNGfwEbeRWgbNEkqO"]


@pytest.mark.parametrize(
    "answers",
    [
        (b"",),
        (FIRST.replace(b"rOpr", b"xxxx"),),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",),
        (FIRST.replace(b"4096", b"2000000000"),),
        (FIRST.replace(b"4096", b"-1"),),
        (FIRST.replace(b"4096", b"1"),),
        (FIRST.replace(b"i=4096", b"i=\xff"),),
        (FIRST.replace(b"s=", b"t="),),
        (FIRST, b"v=" + b64encode(bytes(32))),
        (FIRST, b""),
    ],
)
def test_servers_that_do_not_know_the_password(
    answers: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(*answers)
    with pytest.raises(KafkaError, match="broker:9092"):
        scram(monkeypatch)(server)
    assert len(server.tokens) == len(answers)


def test_plain(tmp_path: Path) -> None:
    """The value goes on behind a backslash, as Kafka's examples write it."""
    security = security_of(
        tmp_path,
        "# me\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nclient.id=x\n"
        f'sasl.jaas.config={PLAIN} \\\n   username="alice" \\\n   password="a=b;c";\n',
    )
    assert security.tls is None
    server = Server(b"")
    security.login(server)
    assert server.tokens == [b"\0alice\0a=b;c"]


def test_unknown_mechanism() -> None:
    given = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{PLAIN} username="a" password="b";'}
    with pytest.raises(KafkaError, match="does not know PLAIN, but SCRAM-SHA-512"):
        login.login_of(given, "")(Server(mechanisms=("SCRAM-SHA-512",), handshake=33))  # type: ignore[arg-type]


def test_no_logins_at_all() -> None:
    given = {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{PLAIN} username="a" password="b";'}
    with pytest.raises(KafkaError, match="broker:9092 has no logins"):
        login.login_of(given, "")(Server(handshake=34))  # type: ignore[arg-type]


def bearer(tmp_path: Path) -> Callable[[Any], None]:
    path = tmp_path / "a token"
    path.write_text("aa.bb.cc\n")
    given = {"sasl.mechanism": "OAUTHBEARER", login.TOKEN_URL: path.as_uri()}
    return login.login_of(given, "--command-config")


def test_a_token_from_a_file(tmp_path: Path) -> None:
    server = Server(b"")
    bearer(tmp_path)(server)
    assert server.tokens == [b"n,,\x01auth=Bearer aa.bb.cc\x01\x01"]


def test_a_token_that_is_refused(tmp_path: Path) -> None:
    server = Server(b'{"status":"invalid_token"}', 58)
    with pytest.raises(KafkaError, match="refused the login: no such user"):
        bearer(tmp_path)(server)
    assert server.tokens[1:] == [b"\x01"]


def test_without_a_file_or_protocol_nothing_is_protected(tmp_path: Path) -> None:
    assert client_security(None) == security_of(tmp_path, "client.id=x\n") == (None, None)


def test_tls_verifies_names_unless_told_otherwise(tmp_path: Path) -> None:
    tls = security_of(tmp_path, "security.protocol=SSL\n").tls
    assert tls.check_hostname
    assert tls.verify_mode.name == "CERT_REQUIRED"
    assert tls.minimum_version.name == "TLSv1_2"
    tls = security_of(
        tmp_path, "security.protocol=SSL\nssl.endpoint.identification.algorithm=\n"
    ).tls
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
            f"{BEARER}\n{login.TOKEN_URL}=https://idp.test",
            "token.endpoint.url must be file:///PATH",
        ),
        (f"{BEARER}\n{login.TOKEN_URL}=file:///nowhere", "url=/nowhere: No such file"),
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
