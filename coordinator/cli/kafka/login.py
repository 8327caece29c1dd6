"""The client's side of a SASL login: PLAIN (RFC 4616), SCRAM (RFC 5802, RFC 7677), and OAUTHBEARER
(RFC 7628) with a token from a file."""

from __future__ import annotations

import binascii
import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from groupd.coordinator.cli.errors import UsageError
from groupd.coordinator.cli.kafka.calls import error_name
from groupd.coordinator.cli.kafka.connection import BlockingConnection, Call, KafkaError
from groupd.coordinator.security.sasl.jaas import parse_jaas
from groupd.coordinator.security.scram_credentials import ITERATIONS_MIN
from groupd.coordinator.security.scram_credentials import MECHANISMS as SCRAM
from groupd.coordinator.settings import ConfigError
from groupd.protocol.reader import Reader
from groupd.protocol.writer import Writer

SASL_HANDSHAKE = Call(17, 1, "SaslHandshake")
SASL_AUTHENTICATE = Call(36, 1, "SaslAuthenticate")

OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = ("PLAIN", *SCRAM, OAUTHBEARER)
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"

ITERATIONS_MAX = 1_000_000
"""A server that wants more hashing than this is not believed; nor is one that wants less than
`ITERATIONS_MIN`: with the proof that it gets, the password would be easy to find."""

Login = Callable[[BlockingConnection], None]


def login_of(given: Mapping[str, str], flag: str) -> Login:
    """The login that client properties describe. Raises UsageError, which shows no value."""
    mechanism = given.get("sasl.mechanism", "")
    if mechanism not in MECHANISMS:
        raise UsageError(f"{flag}: sasl.mechanism={mechanism}: must be {', '.join(MECHANISMS)}")
    send = _bearer(given, flag) if mechanism == OAUTHBEARER else _password(given, mechanism, flag)

    def login(connection: BlockingConnection) -> None:
        _handshake(connection, mechanism)
        send(connection)

    return login


def _password(given: Mapping[str, str], mechanism: str, flag: str) -> Login:
    try:
        options = parse_jaas(given.get("sasl.jaas.config", ""), "sasl.jaas.config").options
    except ConfigError as error:
        raise UsageError(f"{flag}: {error}") from None
    user, password = options.get("username"), options.get("password")
    if not user or not password:
        raise UsageError(f"{flag}: sasl.jaas.config must have username and password")

    def send(connection: BlockingConnection) -> None:
        if mechanism == "PLAIN":
            _send(connection, f"\0{user}\0{password}".encode())
        else:
            _scram(connection, SCRAM[mechanism].hash_name, user, password)

    return send


def _bearer(given: Mapping[str, str], flag: str) -> Login:
    where = urlsplit(given.get(TOKEN_URL, ""))
    if where.scheme != "file":
        raise UsageError(f"{flag}: {TOKEN_URL} must be file:///PATH of a file with the token")
    path = Path(unquote(where.path))
    try:
        token = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise UsageError(f"{flag}: {TOKEN_URL}={path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{flag}: {TOKEN_URL}={path}: holds no token") from None

    def send(connection: BlockingConnection) -> None:
        if _send(connection, f"n,,\x01auth=Bearer {token}\x01\x01".encode()):
            # The server says why it refuses, and refuses when it has been told to go on.
            _send(connection, b"\x01")

    return send


def _handshake(connection: BlockingConnection, mechanism: str) -> None:
    def read(reader: Reader) -> tuple[int, tuple[str, ...]]:
        return reader.int16(), reader.array(Reader.string)

    error, enabled = connection.call(SASL_HANDSHAKE, lambda writer: writer.string(mechanism), read)
    if error:
        if not enabled:
            raise KafkaError(
                f"{connection.where} has no logins: leave SASL_ out of security.protocol"
            )
        known = ", ".join(enabled)
        raise KafkaError(f"{connection.where} does not know {mechanism}, but {known}")


def _send(connection: BlockingConnection, token: bytes) -> bytes:
    """The server's answer to a token."""

    def write(writer: Writer) -> None:
        writer.bytes_(token)

    def read(reader: Reader) -> bytes:
        error, message, answer = reader.int16(), reader.nullable_string(), reader.bytes_()
        reader.int64()
        if error:
            reason = message or error_name(error)
            raise KafkaError(f"{connection.where} refused the login: {reason}")
        return answer

    return connection.call(SASL_AUTHENTICATE, write, read)


def _scram(connection: BlockingConnection, hash_name: str, user: str, password: str) -> None:
    nonce = secrets.token_urlsafe(24)
    name = user.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    answer = _send(connection, f"n,,{first}".encode())
    try:
        challenge = answer.decode()
        fields = dict(part.split("=", 1) for part in challenge.split(","))
        theirs, salt, iterations = fields["r"], b64decode(fields["s"]), int(fields["i"])
    except (KeyError, ValueError, binascii.Error):
        raise KafkaError(f"{connection.where} does not answer as SCRAM does") from None
    if (
        not theirs.startswith(nonce)
        or theirs == nonce
        or not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX
    ):
        raise KafkaError(f"{connection.where} does not answer as SCRAM does")
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), salt, iterations)
    final = f"c=biws,r={theirs}"
    signed = f"{first},{challenge},{final}".encode()
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    signature = hmac.digest(stored_key, signed, hash_name)
    proof = bytes(ours ^ mask for ours, mask in zip(client_key, signature, strict=True))
    answer = _send(connection, f"{final},p={b64encode(proof).decode()}".encode())
    server_key = hmac.digest(salted, b"Server Key", hash_name)
    right = b"v=" + b64encode(hmac.digest(server_key, signed, hash_name))
    if not hmac.compare_digest(answer, right):
        raise KafkaError(f"{connection.where} does not know the password: is it the right server?")
